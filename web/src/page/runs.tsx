import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import * as api from "../api/client.ts";
import { hasState } from "../api/network.ts";
import type { Project } from "../api/types.ts";
import { count } from "../chart/number.ts";
import { ColumnChooser } from "../part/columnchooser.tsx";
import { FilterInput } from "../part/filterinput.tsx";
import { Command, Failure, Message } from "../part/message.tsx";
import { RunTable } from "../part/runtable.tsx";
import { Shell } from "../part/shell.tsx";
import { live } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import { comparePath, go, networkPath, param, runPath, runsPath, setParams } from "../state/route.ts";
import { columnsOf, defaultColumns, isSummary, RunList, sortBySummary } from "../state/runlist.ts";

/** RunsPage is the table of a project's runs. */
export function RunsPage({ workspace, project }: { workspace: string; project: string }) {
  const list = useMemo(() => new RunList(workspace, project), [workspace, project]);
  const projects = useProjects();
  const selected = useSignal<ReadonlySet<string>>(new Set());
  const query = { q: param("q"), status: param("status"), sort: param("sort") };
  const input = useRef<HTMLInputElement>(null);

  useEffect(() => {
    const timer = setTimeout(() => list.ask(query), list.runs.value.length ? 120 : 0);
    return () => clearTimeout(timer);
  }, [list, query.q, query.status, query.sort]);
  useEffect(() => () => list.close(), [list]);
  useLive(list, workspace, project);
  useEffect(() => {
    document.title = `${project} · Kymogram`;
    return bind({ "/": () => input.current?.select() });
  }, [project]);

  const all = useComputed(() => columnsOf(list.runs.value)).value;
  const chosen = param("cols");
  const columns = useMemo(() => (chosen ? byGroup(chosen.split(",")) : defaultColumns(all)), [chosen, all]);
  const runs = useMemo(
    () => (isSummary(query.sort) ? sortBySummary(list.runs.value, query.sort) : list.runs.value),
    [list.runs.value, query.sort],
  );
  const network = useNetwork(workspace, project);
  const mine = projects.find((p) => p.workspace === workspace && p.project === project);
  const filtered = !!(query.q || query.status);
  const total =
    filtered || !mine
      ? runs.length + (list.next.value ? 500 : 0)
      : Math.max(runs.length, list.next.value === "" ? 0 : mine.runs);
  const open = (ids: string[]) => ids[0] && go(runPath(ids[0], ids.slice(1)));

  const compare = () => {
    const ids = runs.filter((r) => selected.value.has(r.id)).map((r) => r.id);
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
      <FilterInput input={input} q={query.q} error={list.error.value} />
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
      {selected.value.size > 0 && (
        <button
          type="button"
          class="button primary"
          onClick={() => open(runs.filter((r) => selected.value.has(r.id)).map((r) => r.id))}
        >
          open {selected.value.size} selected
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
          selected={selected}
          reach={(n) => list.reach(n)}
          open={open}
          partial={isSummary(query.sort) && !!list.next.value}
        />
      )}
    </Shell>
  );
}

/** Columns of one group stand together, in the order in which they were chosen. */
function byGroup(names: string[]): string[] {
  const of = (group: string) => names.filter((c) => c.startsWith(group));
  return [...of("config/"), ...of("summary/")];
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
        . Comparisons read attributes and name, status, tag, created, last; metrics cannot be filtered by yet.{" "}
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
