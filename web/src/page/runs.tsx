import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import * as api from "../api/client.ts";
import { hasState } from "../api/network.ts";
import type { Project, Run } from "../api/types.ts";
import { count } from "../chart/number.ts";
import { BulkBar } from "../part/bulkbar.tsx";
import { ColumnChooser } from "../part/columnchooser.tsx";
import { FilterInput } from "../part/filterinput.tsx";
import { Command, Failure, Message } from "../part/message.tsx";
import { ProjectTabs } from "../part/projecttabs.tsx";
import { RunTable } from "../part/runtable.tsx";
import { Shell } from "../part/shell.tsx";
import { live } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import { comparePath, go, networkPath, param, runPath, runsPath, setParams } from "../state/route.ts";
import { columnsOf, defaultColumns, knownOf, type ListQuery, RunList } from "../state/runlist.ts";
import { select, selected } from "../state/selection.ts";

/** RunsPage is the table of a project's runs. */
export function RunsPage({ workspace, project }: { workspace: string; project: string }) {
  const list = useMemo(() => new RunList(workspace, project), [workspace, project]);
  const projects = useProjects();
  const query: ListQuery = {
    ...{ q: param("q"), status: param("status"), sort: param("sort") },
    ...{ deleted: param("trash") === "1", archived: param("archived") === "1" },
  };
  const input = useRef<HTMLInputElement>(null);

  useEffect(() => {
    const timer = setTimeout(() => list.ask(query), list.runs.value.length ? 120 : 0);
    return () => clearTimeout(timer);
  }, [list, query.q, query.status, query.sort, query.deleted, query.archived]);
  useEffect(() => () => list.close(), [list]);
  useLive(list, workspace, project);
  useEffect(() => {
    document.title = `${project} · Kymogram`;
    return bind({ "/": () => input.current?.select() });
  }, [project]);

  const all = useComputed(() => columnsOf(list.runs.value)).value;
  const chosen = param("cols");
  const columns = useMemo(() => (chosen ? byGroup(chosen.split(",")) : defaultColumns(all)), [chosen, all]);
  const runs = list.runs.value;
  const network = useNetwork(workspace, project);
  const mine = projects.find((p) => p.workspace === workspace && p.project === project);
  const filtered = !!(query.q || query.status || query.deleted);
  const total =
    filtered || !mine
      ? runs.length + (list.next.value ? 500 : 0)
      : Math.max(runs.length, list.next.value === "" ? 0 : mine.runs);
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
        known={() => knownOf(list.runs.value)}
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
      <ColumnChooser
        all={all}
        columns={columns}
        onChange={(next) => setParams({ cols: next.join(",") || "none" })}
      />
      {network && (
        <a class="button" href={networkPath(workspace, project)}>
          network
        </a>
      )}
      <span class="muted total">
        {count(filtered ? runs.length : Math.max(total, runs.length))}
        {filtered && list.next.value ? "+" : ""} runs
      </span>
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
      <BulkBar
        key={`${workspace}/${project}`}
        runs={runs}
        deleted={!!query.deleted}
        open={(ids) => open(inOrder(ids, runs))}
        refresh={() => list.ask(query)}
      />
      {list.error.value && !list.error.value.column && runs.length === 0 ? (
        <Failure error={list.error.value} retry={() => list.ask(query)} />
      ) : runs.length === 0 && list.next.value === "" ? (
        <Empty filtered={filtered} q={query.q} workspace={workspace} project={project} />
      ) : (
        <RunTable
          runs={runs}
          total={total}
          columns={columns}
          sort={query.sort}
          reach={(n) => list.reach(n)}
          open={(ids) => open(ids.length ? ids : inOrder([...selected.value], runs))}
          selectAll={() => void list.all().then((all) => select(all.map((r) => r.id)))}
        />
      )}
    </Shell>
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

/** Columns of one group stand together, in the order in which they were chosen. */
function byGroup(names: string[]): string[] {
  const of = (group: string) => names.filter((c) => c.startsWith(group));
  return [...of("config/"), ...of("summary/"), ...of("min("), ...of("max(")];
}

function Empty({
  filtered,
  q,
  workspace,
  project,
}: {
  filtered: boolean;
  q: string;
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
        . Comparisons read attributes, the last values of metrics, and name, status, tag, created, last.{" "}
        <button type="button" class="link" onClick={() => setParams({ q: "", status: "" })}>
          clear
        </button>
      </Message>
    );
  return (
    <Message>
      No runs yet. In Python:{" "}
      <Command
        text={`import kymogram; run = kymogram.init(workspace_name="${workspace}", project_name="${project}")`}
      />
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
function useLive(list: RunList, workspace: string, project: string): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = live.listen([`project=${workspace}/${project}`], (event) => {
      const known = list.heard(event);
      if (timer || document.hidden) return;
      timer = setTimeout(
        () => {
          timer = null;
          list.refresh().catch(() => {}); // the next event tries again
        },
        known ? 3000 : 1000,
      );
    });
    return () => {
      stop();
      if (timer) clearTimeout(timer);
    };
  }, [list]);
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
