import { useEffect, useMemo, useRef } from "preact/hooks";
import "../style/compare.css";
import type { Run } from "../api/types.ts";
import { hue } from "../chart/color.ts";
import { bestOf, objectives } from "../chart/direction.ts";
import { nameOf, readKey, scaleColor } from "../chart/grouping.ts";
import { type Importance, importanceOf, strength } from "../chart/importance.ts";
import { count, short } from "../chart/number.ts";
import { searchOf } from "../chart/pattern.ts";
import { ranks } from "../chart/stat.ts";
import { useArranged, useSpace } from "../part/arranging.ts";
import { AttributesView } from "../part/attributes.tsx";
import { Awaited } from "../part/awaited.tsx";
import { ChartCard } from "../part/chartcard.tsx";
import { ChartGrid } from "../part/chartgrid.tsx";
import { FilterInput } from "../part/filterinput.tsx";
import { FullScreen } from "../part/fullscreen.tsx";
import { GroupStrip, KeyPick } from "../part/grouplegend.tsx";
import { DirectionPick, ImportanceView } from "../part/importance.tsx";
import { Command, ended, Failure, Message } from "../part/message.tsx";
import { formatBrush, kept, Parallel, parseBrush } from "../part/parallel.tsx";
import { ProjectTabs } from "../part/projecttabs.tsx";
import { bestFirst, hiddenRuns, RunPicker } from "../part/runpicker.tsx";
import { type Look, Scatter } from "../part/scatter.tsx";
import { Shell } from "../part/shell.tsx";
import { useWidth } from "../part/usesize.ts";
import { Comparison, type Missing } from "../state/comparison.ts";
import { directionOf } from "../state/direction.ts";
import { openProject } from "../state/directionchoice.ts";
import * as groups from "../state/groups.ts";
import { bind } from "../state/keys.ts";
import { go, param, runPath, runsPath, setParams } from "../state/route.ts";
import { knownOf } from "../state/runlist.ts";
import { idsIn } from "../state/selection.ts";
import { type Card, Session } from "../state/session.ts";
import { isDark } from "../state/theme.ts";
import * as view from "../state/view.ts";
import { ChartTools } from "./run.tsx";

const mostDrawn = 200; // runs whose curves are read before somebody asks for all
const mostAxes = 7; // parameters side by side
const mostColumns = 50; // runs in the table of differences

interface Props {
  workspace: string;
  project: string;
}

/** ComparePage shows what tells many runs apart: which parameter matters, which value did best, and the curves. */
export function ComparePage({ workspace, project }: Props) {
  const all = useRuns(workspace, project);
  useSpace(workspace, project);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${param("tab") === "charts" ? "Charts" : "Compare"} · ${project} · Kymogram`;
    openProject(`${workspace}/${project}`);
    return bind({ "/": () => input.current?.select(), "g r": () => go(runsPath(workspace, project)) });
  }, [workspace, project]);
  const hide = param("hide");
  const runs = useMemo(() => {
    const hidden = hiddenRuns();
    return all.runs.value.filter((r) => !hidden.has(r.id));
  }, [all.runs.value, hide]);
  useEffect(() => {
    groups.subjects.value = new Map(runs.map((r) => [r.id, r]));
  }, [runs]);
  const metrics = useMemo(() => objectives(new Set(runs.flatMap((r) => Object.keys(r.summary)))), [runs]);
  const metric = param("metric") || metrics[0] || "";
  const crumbs = (
    <>
      <a href={runsPath(workspace, project)}>{`${workspace} / ${project}`}</a>
      <span class="sep">/</span>
      <h1 class="here">{param("tab") === "charts" ? "charts" : "compare"}</h1>
    </>
  );
  const tools = (
    <FilterInput
      input={input}
      q={param("filter")}
      name="filter"
      error={all.error.value}
      known={() => knownOf(all.runs.value)}
    />
  );
  return (
    <Shell crumbs={crumbs} tools={tools} project={{ workspace, project }}>
      {all.error.value && !all.error.value.column && runs.length === 0 ? (
        <Failure error={all.error.value} retry={() => location.reload()} />
      ) : all.complete.value && all.runs.value.length === 0 ? (
        <Empty project={`${workspace}/${project}`} why={reasons(all.missing.value) || all.hint.value} />
      ) : (
        <Compared
          {...{ workspace, project, runs, metric, metrics }}
          listed={all.runs.value}
          more={all.more.value}
          missing={all.missing.value}
        />
      )}
    </Shell>
  );
}

function useRuns(workspace: string, project: string): Comparison {
  const all = useMemo(() => new Comparison(workspace, project), [workspace, project]);
  const [ids, q, status] = [idsIn("runs").join(), param("filter"), param("status")];
  const archived = param("archived") === "1";
  useEffect(() => {
    const timer = setTimeout(
      () => all.ask(new Set(ids.split(",").filter(Boolean)), { q, status, sort: param("sort"), archived }),
      all.runs.peek().length ? 120 : 0,
    );
    return () => clearTimeout(timer);
  }, [all, ids, q, status, archived]);
  useEffect(
    () => () => {
      all.close();
      groups.subjects.value = new Map();
    },
    [all],
  );
  return all;
}

function Empty({ project, why }: { project: string; why: string }) {
  return param("filter") || param("runs") ? (
    <Message>
      No run matches{ended(why && `: ${why}`)}{" "}
      <button type="button" class="link" onClick={() => setParams({ filter: "", status: "", runs: "" })}>
        compare all runs
      </button>
    </Message>
  ) : (
    <Message>
      There is no run to compare.{" "}
      <Command text={`kymogram.init(project="${project}", config={"lr": 0.01})`} />
    </Message>
  );
}

interface ComparedProps extends Props {
  /** All runs, and those that are not hidden. */
  listed: readonly Run[];
  runs: readonly Run[];
  more: boolean;
  missing: Missing;
  metric: string;
  metrics: readonly string[];
}

function Compared({ workspace, project, listed, runs, more, missing, metric, metrics }: ComparedProps) {
  const direction = directionOf(metric);
  const look = useLook(runs, metric);
  const rows = useMemo(() => importanceOf(runs, metric, direction), [runs, metric, direction]);
  const session = useMemo(() => new Session({ crowd: true, search: () => searchOf(view.search.value) }), []);
  useEffect(() => () => session.close(), [session]);
  useEffect(
    () =>
      bind({
        p: () => {
          if (view.hoveredRun.value) view.togglePin(view.hoveredRun.value);
        },
      }),
    [],
  );
  const drawn = param("all") ? runs : runs.slice(0, mostDrawn);
  const ids = drawn.map((r) => r.id);
  useMemo(() => session.show(ids), [session, ids.join()]);
  const slots = useMemo(() => new Map(ids.map((id, i) => [id, i] as const)), [ids.join()]);
  const tab = param("tab");
  return (
    <div class="run-page compare">
      <RunPicker
        runs={listed}
        {...{ metric, direction, look }}
        slots={tab === "" || groups.grouping.value ? undefined : slots}
      />
      <div class="run-body">
        <div class="compare-head">
          <ProjectTabs {...{ workspace, project, tab }} />
          <label class="pick">
            <span class="muted">compare by</span>
            <select
              value={metric}
              aria-label="Metric"
              onChange={(e) => setParams({ metric: e.currentTarget.value })}
            >
              {(metrics.includes(metric) ? metrics : [metric, ...metrics]).map((m) => (
                <option key={m}>{m}</option>
              ))}
            </select>
          </label>
          <DirectionPick metric={metric} />
          <Chosen found={listed.length} missing={missing} />
          {session.metricsCut() && (
            <span class="muted">the first 50,000 metrics: select runs for others</span>
          )}
          {more && <span class="muted">the newest {count(listed.length)} runs: filter for others</span>}
          {drawn.length < runs.length && (
            <button type="button" class="link" onClick={() => setParams({ all: "1" })}>
              curves of {count(drawn.length)} of {count(runs.length)} runs · draw all
            </button>
          )}
        </div>
        {tab !== "attributes" && <GroupStrip metric={metric} lines={tab === "charts"} known={rows} />}
        {tab === "charts" ? (
          <Charts session={session} slots={slots} />
        ) : tab === "attributes" ? (
          <Differences session={session} runs={bestFirst(drawn, metric, direction)} slots={slots} />
        ) : (
          <Overview {...{ runs, metric, rows, look, session, slots }} />
        )}
      </div>
    </div>
  );
}

const failures: Record<string, string> = {
  run_deleted: "deleted",
  not_found: "unknown",
  invalid_argument: "no id of a run",
  permission_denied: "not for this key",
};

/** Why chosen runs are not shown, as 2 deleted, 1 left out by the filter. */
function reasons({ filtered, elsewhere, failed }: Missing): string {
  const by = new Map<string, number>();
  for (const { code } of failed)
    by.set(failures[code] ?? "unreadable", (by.get(failures[code] ?? "unreadable") ?? 0) + 1);
  if (filtered) by.set("left out by the filter", filtered);
  if (elsewhere) by.set("of another project", elsewhere);
  return [...by].map(([why, n]) => `${count(n)} ${why}`).join(", ");
}

/** That the selected runs are shown, and not all that match. */
function Chosen({ found, missing }: { found: number; missing: Missing }) {
  const ids = idsIn("runs").length;
  if (ids === 0) return null;
  const why = found < ids ? reasons(missing) : "";
  return (
    <span class="muted" title={missing.failed.map((e) => e.message).join("\n")}>
      {count(found)} of {count(ids)} selected runs{why && `: ${why}`}{" "}
      <button type="button" class="link" onClick={() => setParams({ runs: "" })}>
        all that match
      </button>
    </span>
  );
}

/** Colours by group; without one, by the rank of the metric. */
function useLook(runs: readonly Run[], metric: string): Look {
  const grouping = groups.grouping.value;
  const dark = isDark.value;
  const direction = directionOf(metric);
  const brush = param("brush");
  return useMemo(() => {
    const values = runs.map((r) => Number(r.summary[metric]?.value ?? Number.NaN));
    const best = direction ? runs[bestOf(values, direction)]?.id : undefined;
    const finite = values.map((v) => (Number.isFinite(v) ? v : Number.NEGATIVE_INFINITY));
    const ranked = ranks(finite);
    const share = new Map(runs.map((r, i) => [r.id, (ranked[i]! - 1) / Math.max(1, runs.length - 1)]));
    const inside = brush ? kept(runs, parseBrush(brush)) : null;
    return {
      best,
      color: (run) =>
        grouping?.of.get(run.id)?.color ??
        (grouping ? hue(0, dark) : scaleColor(share.get(run.id) ?? 0, dark)),
      faint: (run) =>
        (inside !== null && !inside.has(run.id)) || groups.isOff(grouping?.of.get(run.id)?.key ?? "\u0000"),
    };
  }, [runs, metric, grouping, dark, direction, brush, param("off")]);
}

interface OverviewProps {
  runs: readonly Run[];
  metric: string;
  rows: readonly Importance[];
  look: Look;
  session: Session;
  slots: Map<string, number>;
}

function Overview({ runs, metric, rows, look, session, slots }: OverviewProps) {
  const x = param("px") || rows[0]?.key || "";
  const keys = rows.slice(0, mostAxes).map((r) => r.key);
  const brush = parseBrush(param("brush"));
  return (
    <div class="scroll compare-scroll">
      <Answer runs={runs} metric={metric} best={look.best} rows={rows} />
      <div class="compare-grid">
        <section class="block">
          <h2>What goes with {metric}</h2>
          <ImportanceView rows={rows} metric={metric} shown={x} all={param("params") === "all"} />
        </section>
        <section class="block">
          <header>
            <h2>{metric} by</h2>
            <KeyPick label="x" value={x} runs={runs} onPick={(px) => setParams({ px })} />
          </header>
          {x && <Scatter runs={runs} x={x} metric={metric} look={look} />}
        </section>
        <section class="block curves">
          <h2>Curves</h2>
          <Curve session={session} metric={metric} slots={slots} />
        </section>
        <section class="block wide">
          <header>
            <h2>All parameters</h2>
            <span class="muted">
              {groups.grouping.value ? "" : `colour: ${metric}, low to high `}
              {!groups.grouping.value && <Ramp />} drag ▲▼ on an axis to keep a part of it
            </span>
            {brush.size > 0 && (
              <button type="button" class="link" onClick={() => setParams({ brush: formatBrush(new Map()) })}>
                {count(kept(runs, brush).size)} of {count(runs.length)} runs kept · clear
              </button>
            )}
          </header>
          {keys.length > 0 && <Parallel runs={runs} keys={[...keys, `summary/${metric}`]} look={look} />}
        </section>
      </div>
    </div>
  );
}

/** The scale of colours, from low to high. */
function Ramp() {
  return (
    <span class="ramp" aria-hidden="true">
      {[0, 0.25, 0.5, 0.75, 1].map((at) => (
        <span key={at} style={{ background: scaleColor(at, isDark.value) }} />
      ))}
    </span>
  );
}

const matters = 0.1; // of the differences in rank; the first parameter is named with less too

/** The best run in words: its value, and the parameters that matter most. */
function Answer(props: {
  runs: readonly Run[];
  metric: string;
  best: string | undefined;
  rows: readonly Importance[];
}) {
  const { runs, metric, best, rows } = props;
  const run = runs.find((r) => r.id === best);
  if (!run) return null;
  const named = rows.slice(0, 4).filter((row, i) => i === 0 || strength(row) >= matters);
  const settings = named.flatMap(({ key }) => {
    const v = readKey(run, key);
    return v === undefined ? [] : [`${nameOf(key)} ${typeof v === "number" ? short(v) : v}`];
  });
  return (
    <p class="answer">
      <span class="star">★</span> best of {count(runs.length)} runs:{" "}
      <strong>
        {metric} {short(run.summary[metric]?.value)}
      </strong>{" "}
      {settings.length > 0 && `with ${settings.join(", ")} `}·{" "}
      <a href={runPath(run.id)}>{run.display_name || run.name}</a>
    </p>
  );
}

/** The metric's chart; a summary says where a metric of evaluations has the name of one of training. */
function Curve({ session, metric, slots }: { session: Session; metric: string; slots: Map<string, number> }) {
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const cards = session.cards.value;
  const evaluation = metric.endsWith(" (evaluation)");
  const name = evaluation ? metric.slice(0, -" (evaluation)".length) : metric;
  const named = cards.filter((c) => c.metric === name);
  const card = named.find((c) => (c.scale === "EVALUATION") === evaluation) ?? named[0];
  return (
    <div class="curve-host" ref={host}>
      {card && !card.members.length && <Awaited session={session} card={card} width={width} height={330} />}
      {card && width > 0 && card.members.length > 0 ? (
        <ChartCard session={session} card={card} width={width} height={330} runs={slots} />
      ) : (
        <p class="muted">{!card && session.complete() ? `No curve of ${metric}.` : ""}</p>
      )}
      {view.fullScreen.value && param("tab") === "" && (
        <FullScreen session={session} cards={cards} runs={slots} />
      )}
    </div>
  );
}

function Charts({ session, slots }: { session: Session; slots: Map<string, number> }) {
  const cards: Card[] = useArranged(session);
  const ids = [...slots.keys()];
  return (
    <>
      <div class="compare-tools">
        <ChartTools
          cards={cards}
          hasAttempts={ids.some((x) => (session.detail(x)?.attempts.length ?? 0) > 1)}
          hasParent={ids.some((x) => (session.detail(x)?.lineage.ancestors.length ?? 0) > 0)}
        />
      </div>
      <ChartGrid session={session} cards={cards} runs={slots} />
      {view.fullScreen.value && <FullScreen session={session} cards={cards} runs={slots} />}
    </>
  );
}

function Differences({
  session,
  runs,
  slots,
}: {
  session: Session;
  runs: readonly Run[];
  slots: Map<string, number>;
}) {
  const some = runs.slice(0, mostColumns);
  return (
    <>
      {some.length < runs.length && (
        <p class="note muted">
          {count(some.length)} of {count(runs.length)} runs have a column here: filter to see others.
        </p>
      )}
      <AttributesView session={session} ids={some.map((r) => r.id)} slots={slots} />
    </>
  );
}
