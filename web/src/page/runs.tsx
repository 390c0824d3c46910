import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import * as api from "../api/client.ts";
import { hasState } from "../api/network.ts";
import type { Project, Run } from "../api/types.ts";
import { count } from "../chart/number.ts";
import { BulkBar } from "../part/bulkbar.tsx";
import { ColumnChooser } from "../part/columnchooser.tsx";
import { CsvButton } from "../part/csvbutton.tsx";
import { FilterInput } from "../part/filterinput.tsx";
import { FirstLines } from "../part/firstlines.tsx";
import { GroupBy } from "../part/groupby.tsx";
import { ended, Failure, Message } from "../part/message.tsx";
import { ProjectTabs } from "../part/projecttabs.tsx";
import { RunTable } from "../part/runtable.tsx";
import { Shell } from "../part/shell.tsx";
import { live } from "../state/app.ts";
import { openColumns, setColumns } from "../state/columnchoice.ts";
import type { Column } from "../state/columns.ts";
import { openProject } from "../state/directionchoice.ts";
import { bind } from "../state/keys.ts";
import { comparePath, go, networkPath, param, runPath, runsPath, setParams } from "../state/route.ts";
import { toggleOpen } from "../state/rungroups.ts";
import { knownOf, type ListQuery } from "../state/runlist.ts";
import { setGroupKeys, useRunsTable } from "../state/runstable.ts";
import { select, selected } from "../state/selection.ts";

/** RunsPage is the table of a project's runs. */
export function RunsPage({ workspace, project }: { workspace: string; project: string }) {
  const place = `${workspace}/${project}`;
  useMemo(() => {
    openColumns(place);
    openProject(place);
  }, [place]);
  const projects = useProjects();
  const query: ListQuery = {
    ...{ q: param("q"), status: param("status"), sort: param("sort") },
    ...{ deleted: param("trash") === "1", archived: param("archived") === "1" },
  };
  const table = useRunsTable(workspace, project, query);
  const { list, runs, total, by } = table;
  const input = useRef<HTMLInputElement>(null);
  useLive(table, workspace, project);
  useEffect(() => {
    document.title = `${project} · Kymogram`;
    return bind({ "/": () => input.current?.select() });
  }, [project]);

  const network = useNetwork(workspace, project);
  const filtered = !!(query.q || query.status || query.deleted);
  const open = (ids: string[]) => ids[0] && go(runPath(ids[0], ids.slice(1)));

  const compare = () => {
    const ids = inOrder([...selected.value], runs);
    if (ids.length > 1) go(comparePath(workspace, project, ids));
    else {
      go(comparePath(workspace, project));
      setParams({ filter: query.q, status: query.status });
    }
  };
  const latest = useRef(compare);
  latest.current = compare;
  useEffect(() => bind({ "g c": () => latest.current() }), []);

  const crumbs = <Switcher projects={projects} workspace={workspace} project={project} />;
  const tools = (
    <>
      <FilterInput
        input={input}
        q={query.q}
        error={list.error.value}
        known={() => knownOf(table.widest.runs)}
      />
      <select
        class="pick"
        value={query.status}
        onChange={(e) => setParams({ status: e.currentTarget.value })}
        aria-label="Status"
      >
        <option value="">any status</option>
        {["running", "finished", "failed", "interrupted", "lost", "silent"].map((s) => (
          <option key={s}>{s}</option>
        ))}
      </select>
      {network && (
        <a class="button" href={networkPath(workspace, project)}>
          network
        </a>
      )}
      {selected.value.size > 1 && (
        <button type="button" class="button" onClick={compare} title="Compare the selected runs (g c)">
          compare
        </button>
      )}
    </>
  );
  return (
    <Shell crumbs={crumbs} tools={tools} project={{ workspace, project }}>
      <div class="project-head">
        <ProjectTabs {...{ workspace, project }} tab="runs" />
      </div>
      <div class="table-tools">
        <ColumnChooser
          all={table.known}
          columns={table.columns.map((c) => c.name)}
          onChange={(next) => setColumns(changed(table.columns, next))}
        />
        <GroupBy
          by={by}
          keys={table.known.filter((c) => c.name.startsWith("config/")).map((c) => c.name)}
          show={table.show}
          setBy={setGroupKeys}
        />
        <Total table={table} />
        <Which deleted={!!query.deleted} archived={!!query.archived} />
        {runs.length > 0 && (
          <button
            type="button"
            class="button"
            onClick={() => select(runs.slice(0, 10).map((r) => r.id))}
            title="Select the first 10 runs in this order"
          >
            top 10
          </button>
        )}
        <CsvButton
          workspace={workspace}
          project={project}
          query={table.query}
          columns={table.columns}
          total={total}
        />
      </div>
      <BulkBar
        key={`${workspace}/${project}`}
        deleted={!!query.deleted}
        open={(ids) => open(inOrder(ids, runs))}
        refresh={table.anew}
      />
      {list.error.value && !list.error.value.column && runs.length === 0 ? (
        <Failure error={list.error.value} retry={table.anew} />
      ) : by.length > 0 && table.groups.error.value ? (
        <Failure error={table.groups.error.value} retry={table.anew} />
      ) : runs.length === 0 && list.next.value === "" ? (
        <Empty
          filtered={filtered}
          q={query.q}
          hint={list.hint.value}
          workspace={workspace}
          project={project}
        />
      ) : (
        <RunTable
          rows={table.rows}
          columns={table.columns}
          sort={query.sort}
          best={table.best}
          open={(ids) => open(ids.length ? ids : inOrder([...selected.value], runs))}
          selectAll={() => void list.all().then((all) => select(all.map((r) => r.id)))}
          by={by}
          of={table.numbers}
          show={table.show}
          unfold={toggleOpen}
          runsOf={(group) => table.unfolded.runsOf(group)}
        />
      )}
    </Shell>
  );
}

/** The columns that stay as they are, then those that are new. */
function changed(columns: readonly Column[], names: string[]): Column[] {
  const known = new Map(columns.map((c) => [c.name, c]));
  return names.map((name) => known.get(name) ?? { name });
}

/** How many runs there are, and in how many groups. */
function Total({ table }: { table: ReturnType<typeof useRunsTable> }) {
  const { list, all, groups, total, by } = table;
  const known = list.next.value === "" || !!all.result.value;
  const found = groups.result.value;
  const cut = found && found.groups > found.shown.length;
  const members = found?.shown.reduce((n, g) => n + g.runs, 0) ?? 0;
  return (
    <span class="muted total">
      {count(total)}
      {known ? "" : "+"} {total === 1 && known ? "run" : "runs"}
      {by.length > 0 && found && (
        <>
          {" in "}
          {cut ? `${count(found.shown.length)} of ` : ""}
          {count(found.groups)} {found.groups === 1 ? "group" : "groups"}
          {!cut && members > found.runs && (
            <span title="A run with several tags is in a group of each"> ({count(members)} rows)</span>
          )}
        </>
      )}
    </span>
  );
}

/** The runs that the list has in its order, then the others. */
function inOrder(ids: string[], runs: Run[]): string[] {
  const chosen = new Set(ids);
  const known = runs.filter((r) => chosen.has(r.id)).map((r) => r.id);
  return [...known, ...ids.filter((id) => !known.includes(id))];
}

/** Which runs the table is of: those at work, with the archived ones, or the trash. */
function Which({ deleted, archived }: { deleted: boolean; archived: boolean }) {
  return (
    <select
      class="pick"
      value={deleted ? "trash" : archived ? "archived" : ""}
      aria-label="Which runs"
      onChange={(e) => {
        const which = e.currentTarget.value;
        setParams({
          trash: which === "trash" ? "1" : "",
          archived: which === "archived" ? "1" : "",
          sel: "",
        });
      }}
    >
      <option value="">without archived</option>
      <option value="archived">with archived</option>
      <option value="trash">trash (7 days)</option>
    </select>
  );
}

function Empty({
  filtered,
  q,
  hint,
  workspace,
  project,
}: {
  filtered: boolean;
  q: string;
  hint: string;
  workspace: string;
  project: string;
}) {
  if (filtered)
    return (
      <Message>
        No run matches{" "}
        <code>
          {q} {param("status")}
        </code>
        {ended(hint && `: ${hint}`)} Comparisons read attributes, the last values of metrics, and name,
        status, tag, created, last.{" "}
        <button type="button" class="link" onClick={() => setParams({ q: "", status: "" })}>
          clear
        </button>
      </Message>
    );
  return (
    <Message>
      No runs yet. In Python:
      <FirstLines workspace={workspace} project={project} />
    </Message>
  );
}

function useProjects(): Project[] {
  const projects = useSignal<Project[]>([]);
  useEffect(() => {
    api.projects().then(
      (list) => {
        projects.value = list;
      },
      () => {}, // the list of runs shows the same failure
    );
  }, []);
  return projects.value;
}

/** Whether the project has a network to show. */
function useNetwork(workspace: string, project: string): boolean {
  const has = useSignal(false);
  useEffect(() => {
    hasState(workspace, project).then((found) => {
      has.value = found;
    });
  }, [workspace, project]);
  return has.value;
}

/** Statuses change in place; a run that the list does not know makes it read its first page again, once a second. */
function useLive(table: ReturnType<typeof useRunsTable>, workspace: string, project: string): void {
  const now = useRef(table);
  now.current = table;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    let countedMs = 0;
    const stop = live.listen([`project=${workspace}/${project}`], (event) => {
      const known = now.current.list.heard(event);
      for (const list of now.current.unfolded.lists.value.values()) list.heard(event);
      if (timer || document.hidden) return;
      timer = setTimeout(
        () => {
          timer = null;
          const { list, unfolded, all, groups, count } = now.current;
          list.refresh().catch(() => {}); // the next event tries again
          unfolded.refresh();
          if (Date.now() - countedMs < Math.max(all.pauseMs, groups.pauseMs)) return;
          countedMs = Date.now();
          count();
        },
        Math.max(known ? 3000 : 1000, now.current.list.pauseMs),
      );
    });
    return () => {
      stop();
      if (timer) clearTimeout(timer);
    };
  }, [table.list]);
}

function Switcher({
  projects,
  workspace,
  project,
}: {
  projects: Project[];
  workspace: string;
  project: string;
}) {
  const here = `${workspace}/${project}`;
  const names = projects.map((p) => `${p.workspace}/${p.project}`);
  return (
    <>
      <h1 class="unseen">Runs of {here}</h1>
      <select
        class="switcher"
        aria-label="Project"
        value={here}
        onChange={(e) => {
          const [w, p] = e.currentTarget.value.split("/") as [string, string];
          go(runsPath(w, p));
        }}
      >
        {(names.includes(here) ? names : [here, ...names]).map((name) => (
          <option value={name} key={name}>
            {name.replace("/", " / ")}
          </option>
        ))}
      </select>
    </>
  );
}
