import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { BucketQuery } from "../api/types.ts";
import type { PanelSpec } from "../api/view.ts";
import { axisFor, unitOf, wall, type XAxis } from "../chart/axis.ts";
import { slots } from "../chart/color.ts";
import { type Curve, curveOf, extent, ratio } from "../chart/curve.ts";
import { count, dateTime, full, short } from "../chart/number.ts";
import { type Line, needleText, noFront } from "../chart/paint.ts";
import {
  type Found,
  groups,
  idOf,
  lastParts,
  namesOf,
  needsTotals,
  ranked,
  reduce,
  type Span,
  select,
  shortNames,
  since,
  type Totals,
  tableOf,
} from "../chart/panel.ts";
import type { Gestures, Plot } from "../chart/plot.ts";
import { rangeOf, resolution } from "../chart/range.ts";
import type { Scene } from "../chart/scene.ts";
import { lineOf, styleOf } from "../chart/style.ts";
import { rowsAt } from "../chart/tooltip.ts";
import { batch } from "../state/app.ts";
import type { Panels } from "../state/panels.ts";
import { isDark, palette } from "../state/theme.ts";
import * as view from "../state/view.ts";
import { PlotHost } from "./plothost.tsx";
import { tip } from "./tip.tsx";

const mostLines = 200;
const mostRows = 500;
const mostReduced = 5000; // series whose points are added up
const mostNamed = 8;
const exactly = 128; // points of a line that are drawn each by itself, also among many lines
const plotHeight = 200;

/** What a view shows of axes before anyone zooms. */
export type Shown = Record<string, [number, number]>;

/** Panel is one panel of a view: its title, and lines, numbers or a table once it is in sight. */
export function Panel({ panels, spec, axes }: { panels: Panels; spec: PanelSpec; axes: Shown }) {
  const host = useRef<HTMLElement>(null);
  const seen = useSignal(false);
  useLayoutEffect(() => whenSeen(host.current!, seen), []);
  return (
    <section class={`card view-panel ${spec.kind}`} data-panel={spec.title} ref={host}>
      <header class="card-head">
        <h2 title={spec.description}>{spec.title}</h2>
        {spec.unit && <span class="muted">{spec.unit}</span>}
      </header>
      {seen.value && <Answer {...{ panels, spec, axes }} />}
    </section>
  );
}

/** Sets seen when an element comes near to what is in sight. */
function whenSeen(el: HTMLElement, seen: { value: boolean }): () => void {
  const sight = new IntersectionObserver(
    (entries) => {
      if (entries.some((e) => e.isIntersecting)) seen.value = true;
    },
    { rootMargin: "160px" },
  );
  sight.observe(el);
  return () => sight.disconnect();
}

function Answer({ panels, spec, axes }: { panels: Panels; spec: PanelSpec; axes: Shown }) {
  const span = panels.span.value;
  const all = useMemo(() => select(spec, panels.found.value), [spec, panels.found.value]);
  const found = useMemo(() => since(all, span), [all, span]);
  const needed = needsTotals(spec.reduce ?? "last") && (spec.kind !== "line" || !!spec.order);
  const many = needed && found.length > mostReduced;
  const totals = useTotals(panels, found, needed && !many, span);
  if (found.length === 0 && all.length > 0) return <Older all={all} />;
  if (found.length === 0) return <Nothing panels={panels} spec={spec} />;
  if (many)
    return (
      <p class="card-note">
        {count(found.length)} series are too many for {spec.reduce}: at most {count(mostReduced)}. Narrow the
        query, or reduce by last.
      </p>
    );
  if (totals === null) return <p class="card-note">reading …</p>;
  return <Body {...{ spec, found, totals, span, axes }} />;
}

/** All points are older than the range that is shown. */
function Older({ all }: { all: Found[] }) {
  const newest = all.reduce((at, { series }) => Math.max(at, Number(series.last?.time_ns ?? 0)), 0);
  return (
    <p class="card-note">
      No data in this range of time{newest > 0 && `: the newest point is of ${dateTime(newest)}`}.
    </p>
  );
}

interface BodyProps {
  spec: PanelSpec;
  found: Found[];
  totals: Map<string, Totals>;
  span: Span | undefined;
  axes: Shown;
}

function Body(props: BodyProps) {
  if (props.spec.kind === "line") return <Lines {...props} />;
  return props.spec.kind === "stat" ? <Stats {...props} /> : <Table {...props} />;
}

/** Totals of all points, where they are needed; null while they are read. */
function useTotals(
  panels: Panels,
  found: Found[],
  needed: boolean,
  span: Span | undefined,
): Map<string, Totals> | null {
  const read = useSignal<Map<string, Totals> | null>(null);
  useEffect(() => {
    if (!needed) return;
    const abort = new AbortController();
    panels.totals(found, abort.signal, span).then(
      (totals) => {
        if (!abort.signal.aborted) read.value = totals;
      },
      () => {}, // the page shows what the server said to the next request
    );
    return () => abort.abort();
  }, [found, needed, span]);
  return needed ? read.value : new Map();
}

/** Why there is no data. */
function Nothing({ panels, spec }: { panels: Panels; spec: PanelSpec }) {
  const why = useSignal("");
  const busy = panels.loading.value;
  useEffect(() => {
    if (busy) return;
    panels.why(spec).then(
      (text) => {
        why.value = text;
      },
      (cause) => {
        why.value = `No data: ${(cause as Error).message}`;
      },
    );
  }, [busy, panels.found.value]);
  return <p class="card-note">{busy ? "reading …" : why.value}</p>;
}

interface LineOf {
  found: Found;
  name: string;
  query: BucketQuery;
  axis: XAxis;
}

/** A range of time is drawn over time: no other axis can say which of its points lie in it. */
function axisOf(spec: PanelSpec, found: Found[], span: Span | undefined): XAxis {
  if (span || spec.axis === "time_ns") return axisFor([], wall);
  if (spec.axis) return { name: spec.axis, key: spec.axis, kind: "number" };
  return axisFor(found[0]!.series.axes, "");
}

/** What is shown of an axis: where the reader zoomed to, else the range of time, else what the document says. */
function shownOf(axis: XAxis, span: Span | undefined, axes: Shown): view.Zoom | null {
  if (view.zoom.value?.key === axis.key) return view.zoom.value;
  if (span) return { key: axis.key, from: span.from / 1e9, to: span.to / 1e9 };
  const part = view.wholeAxes.value ? undefined : axes[axis.name];
  return part ? { key: axis.key, from: part[0], to: part[1] } : null;
}

/** Curves, and the axis that they were asked on. */
interface Answered {
  axis: string;
  curves: ReadonlyMap<string, Curve>;
}

function Lines({ spec, found, totals, span, axes }: BodyProps) {
  const host = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const answers = useSignal<Answered>({ axis: "", curves: new Map() });
  const error = useSignal("");
  const hovered = useSignal<string | null>(null);
  const plot = useRef<Plot | null>(null);
  useLayoutEffect(() => measure(host.current!, width), []);

  const axis = useMemo(() => axisOf(spec, found, span), [spec, found, span]);
  const zoom = shownOf(axis, span, axes);
  const { lines: wanted, note } = useMemo(
    () => linesOf(spec, found, totals, axis),
    [spec, found, totals, axis],
  );
  const n = resolution(Math.max(60, width.value - 58), wanted.length);
  useEffect(() => {
    if (width.value === 0) return;
    const abort = new AbortController();
    const ask = wanted.map((w) =>
      batch.fetch(
        zoomed({ ...w.query, n: Math.max(n, Math.min(exactly, w.found.series.count)) }, zoom, axis),
        w.found.series.count,
        abort.signal,
        7,
      ),
    );
    Promise.all(ask).then(
      (results) => {
        if (abort.signal.aborted) return;
        const unit = unitOf(axis, 0);
        const out = new Map<string, Curve>();
        results.forEach((r, i) => {
          if (!("error" in r)) out.set(idOf(wanted[i]!.found), curveOf(r.columns, unit));
          else error.value = r.error.message;
        });
        answers.value = { axis: axis.key, curves: out };
      },
      (cause) => {
        if (!abort.signal.aborted) error.value = (cause as Error).message;
      },
    );
    return () => abort.abort();
  }, [wanted, n, zoom?.from, zoom?.to, width.value > 0]);

  const dark = isDark.value;
  const lines = useMemo(
    () => (answers.value.axis === axis.key ? drawn(wanted, answers.value.curves, dark) : []),
    [wanted, answers.value, axis.key, dark],
  );
  const all = lines.map((l) => l.curve);
  const whole = extent(all);
  const x: [number, number] = zoom
    ? [zoom.from, zoom.to]
    : whole && whole[0] < whole[1]
      ? whole
      : [(whole?.[0] ?? 0) - 0.5, (whole?.[0] ?? 0) + 0.5];
  const y = useMemo(() => rangeOf(all, x[0], x[1], false, false), [lines, x[0], x[1]]);
  const front = useMemo(
    () =>
      hovered.value === null ? noFront : { lines: new Set([hovered.value]), dim: wanted.length > slots },
    [hovered.value, wanted],
  );
  const scene: Scene = {
    ...{ lines, axis, x, y, log: false, palette: palette.value, front, version: "" },
    needleLabel: (needle) => needleText(needle.value, ""),
  };
  const gestures: Gestures = {
    zoom: (from, to) => view.setZoom({ key: axis.key, from, to }),
    reset: () => view.setZoom(null),
    needle: (at) => view.setZoom({ key: axis.key, from: at.lo - 1, to: at.hi + 1 }),
    hover: (at) => {
      const frame = plot.current?.frame();
      if (!at || !frame) {
        tip.value = null;
        hovered.value = null;
        return;
      }
      const rows = rowsAt(lines, frame, at.x, at.py);
      hovered.value = rows[0] && rows[0].distance < 40 * frame.ratio ? rows[0].line.id : null;
      const names = new Map(wanted.map((w, i) => [String(i), w.name]));
      tip.value = {
        ...{ left: at.left, top: at.top, axis, rest: lines.length - rows.length },
        rows: rows.map((row) => ({ row, name: names.get(row.line.id) ?? "" })),
      };
    },
  };
  const bucketed = ratio(all);
  const points = lines.reduce((sum, l) => sum + l.curve.points, 0);
  return (
    <div class="view-lines" ref={host} data-lines={lines.length} data-points={points} data-axis={axis.name}>
      {width.value > 0 && wanted.length > 0 && (
        <PlotHost
          {...{ width: width.value, height: plotHeight, scene, gestures }}
          onPlot={(p) => {
            plot.current = p;
          }}
        />
      )}
      <Legend lines={lines} names={wanted.map((w) => w.name)} />
      {(error.value || note) && <p class="view-note">{error.value || note}</p>}
      {bucketed > 1 && (
        <p class="view-note">
          bucketed 1:{bucketed} {lines.length > slots ? "mean + outliers" : "min/max"}
        </p>
      )}
    </div>
  );
}

/** The names of a few lines; more are named under the pointer. */
function Legend({ lines, names }: { lines: Line[]; names: string[] }) {
  if (lines.length > mostNamed)
    return <p class="view-note">{lines.length} lines: point at one for its name.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reached by keys
    <ul class="view-legend" tabIndex={0}>
      {lines.map((l) => (
        <li key={l.id} title={names[Number(l.id)]}>
          <span class="swatch" style={{ background: l.color }} />
          {names[Number(l.id)]}
        </li>
      ))}
    </ul>
  );
}

/** Follows an element's width. */
function measure(el: HTMLElement, width: { value: number }): () => void {
  const size = new ResizeObserver(() => {
    width.value = el.clientWidth;
  });
  size.observe(el);
  return () => size.disconnect();
}

function zoomed(query: BucketQuery, zoom: view.Zoom | null, axis: XAxis): BucketQuery {
  if (!zoom) return query;
  const factor = axis.kind === "number" ? 1 : 1e9;
  return { ...query, from: Math.floor(zoom.from * factor), to: Math.ceil(zoom.to * factor) };
}

/** The lines that a panel draws, and what it says of those that it does not. */
function linesOf(
  spec: PanelSpec,
  found: Found[],
  totals: Map<string, Totals>,
  axis: XAxis,
): { lines: LineOf[]; note: string } {
  const fit = found.filter((f) => axis.name === "time_ns" || f.series.axes.includes(axis.name));
  const how = spec.reduce ?? "last";
  const valued = fit.map((f) => ({
    f,
    value: spec.order ? reduce(how, [f], (m) => totals.get(idOf(m))) : 0,
  }));
  const kept = ranked(valued, spec).map((v) => v.f);
  const shown = kept.slice(0, mostLines);
  const names = shortNames(shown);
  const notes: string[] = [];
  if (fit.length < found.length)
    notes.push(`${found.length - fit.length} series have no axis ${axis.name} and are left out.`);
  if (kept.length < fit.length) notes.push(`${kept.length} of ${fit.length} series, by ${how}.`);
  if (shown.length < kept.length)
    notes.push(`${shown.length} of ${kept.length} lines are drawn: give the panel an order and top.`);
  return {
    lines: shown.map((f, i) => ({ found: f, name: names[i]!, query: queryOf(f, axis), axis })),
    note: notes.join(" "),
  };
}

function queryOf({ run, series }: Found, axis: XAxis): BucketQuery {
  const { metric, scale, labels } = series;
  return {
    ...{ run: run.id, metric, scale, labels, x: axis.name, n: 1 },
    ...(series.inherited && { include_inherited: true as const }),
  };
}

function drawn(wanted: LineOf[], curves: ReadonlyMap<string, Curve>, dark: boolean): Line[] {
  const lines = wanted.length;
  return wanted.flatMap((w, i) => {
    const curve = curves.get(idOf(w.found));
    if (!curve || curve.lo.length === 0) return [];
    const style = styleOf({ lines, runs: 1, slot: 0, set: i, sets: lines }, palette.value, dark);
    const how = { id: String(i), faded: false, lines, smoothing: { kind: "none" }, log: false } as const;
    return [lineOf(curve, style, how)];
  });
}

function text(spec: PanelSpec, value: number | undefined): string {
  if (value !== undefined && spec.reduce === "time") return dateTime(value);
  return value !== undefined && Number.isSafeInteger(value) ? count(value) : short(value);
}

function Stats({ spec, found, totals }: BodyProps) {
  const how = spec.reduce ?? "last";
  const by = namesOf(spec);
  const names = useMemo(() => shortNames(found), [found]);
  const all = by
    ? groups(found, by).map((g) => ({ name: g.key.join(" · "), members: g.members }))
    : found.map((f, i) => ({ name: names[i]!, members: [f] }));
  const valued = ranked(
    all.map((g) => ({ ...g, value: reduce(how, g.members, (f) => totals.get(idOf(f))) })),
    spec,
  );
  const shown = valued.slice(0, mostRows);
  return (
    <>
      <dl class={`view-stats ${how}`} tabIndex={0} aria-label={spec.title}>
        {shown.map((g) => (
          <div key={g.name} data-key={g.name} data-value={full(g.value)}>
            {g.name && <dt title={g.name}>{g.name}</dt>}
            <dd title={full(g.value)}>{text(spec, g.value)}</dd>
          </div>
        ))}
      </dl>
      <Rest shown={shown.length} kept={valued.length} all={all.length} what="values" />
    </>
  );
}

function Rest({ shown, kept, all, what }: { shown: number; kept: number; all: number; what: string }) {
  if (shown < kept)
    return (
      <p class="view-note">
        {shown} of {kept} {what} are shown: give the panel an order and top.
      </p>
    );
  return kept < all ? (
    <p class="view-note">
      {kept} of {all} {what}.
    </p>
  ) : null;
}

function Table({ spec, found, totals }: BodyProps) {
  const table = useMemo(() => tableOf(spec, found, (f) => totals.get(idOf(f))), [spec, found, totals]);
  const by = namesOf(spec)!;
  const shown = table.rows.slice(0, mostRows);
  const heads = lastParts(table.columns);
  const rows = useMemo(() => groups(found, by).length, [spec, found]);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reached by keys */}
      <div class="view-table" tabIndex={0} role="group" aria-label={spec.title}>
        <table class="plain">
          <thead>
            <tr>
              {by.map((name) => (
                <th key={name} scope="col">
                  {name.replace(/^label\./, "")}
                </th>
              ))}
              {table.columns.map((name, i) => (
                <th key={name} scope="col" class="number" title={name}>
                  {heads[i]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={row.key.join("\u0000")} data-key={row.key.join(" · ")}>
                {row.key.map((part, i) => (
                  <th key={by[i]} scope="row">
                    {part}
                  </th>
                ))}
                {row.cells.map((value, i) => (
                  <td
                    key={table.columns[i]}
                    class="number"
                    title={full(value)}
                    data-column={table.columns[i]}
                  >
                    {text(spec, value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Rest shown={shown.length} kept={table.rows.length} all={rows} what="rows" />
    </>
  );
}
