import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Picture } from "../api/kymograph.ts";
import type { BucketQuery } from "../api/types.ts";
import { axisFor, placeText, relative, storedRange, unitOf, wall, type XAxis } from "../chart/axis.ts";
import { type Brush, type Place, sidesOf } from "../chart/brush.ts";
import { type Curve, curveOf, type Unit } from "../chart/curve.ts";
import { count, short } from "../chart/number.ts";
import { type Clipped, cellAt, labelledFrom, rowHeight } from "../chart/raster.ts";
import { bracketsOf, idsOf, namesOf, rowsParam } from "../chart/rows.ts";
import { batch } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import * as kymo from "../state/kymograph.ts";
import { useOrder } from "../state/order.ts";
import { mostRows, Pictures, type View } from "../state/pictures.ts";
import { setParams } from "../state/route.ts";
import type { Member, Session } from "../state/session.ts";
import * as view from "../state/view.ts";
import { useLate } from "./chartcard.tsx";
import { type Box, Kymograph, topHeight } from "./kymograph.tsx";
import { HeatLegend } from "./kymographlegend.tsx";
import { KymographRow } from "./kymographrow.tsx";

interface Props {
  session: Session;
  members: Member[];
  /** Series beyond what one picture takes. */
  left: number;
  runs: Map<string, number>;
}

/** KymographBody is the picture with its legend, what is under the crosshair, and the curve of the opened row. */
export function KymographBody({ session, members, left, runs }: Props) {
  const size = useSignal({ width: 0, height: 0 });
  const pictures = useMemo(() => new Pictures(), [session]);
  useEffect(() => () => pictures.close(), [pictures]);
  const runName = (id: string) => session.detail(id)?.display_name || session.detail(id)?.name || id;
  const labels = useLabels(members, runName, [...runs.keys()].map(runName).join("\n"));
  const { axis, unit } = useAxis(session, members, runs);
  const zoom = view.zoom.value?.key === axis.key ? view.zoom.value : null;
  const ends = zoom ? storedRange([zoom.from, zoom.to], unit) : null;
  const inherited = view.showInherited.value && members.some((m) => m.series.inherited);
  const tick = [...runs.keys()].reduce((n, run) => n + session.tick(run), 0);

  const all: View = {
    ...{
      members,
      ids: labels.ids,
      x: axis.name,
      reduce: kymo.reduce.value,
      limits: kymo.limits.value,
      inherited,
    },
    ...ends,
    columns: 0,
  };
  const sort = kymo.order.value;
  const base = `${labels.key} ${axis.name} ${ends?.from} ${ends?.to} ${inherited}`;
  const orderKey = `${base} ${sort} ${sort === "similar" || sort === "max" ? kymo.reduce.value : ""}`;
  const part = kymo.rows.value;
  const headKey = useSignal("");
  const fits = part === null && headKey.value.startsWith(`${base} all `);
  const { order, last, error } = useOrder(
    sort,
    all,
    orderKey,
    labels.names,
    fits ? pictures.head.value : null,
    part === null,
  );
  // Until the rows have their order those of the order before are shown, so that nothing blinks.
  const known = order ?? (last.order.length === members.length ? last.order : null);
  const places = useMemo(() => {
    const list = known ?? members.map((_, i) => i);
    return part ? list.slice(...part) : list;
  }, [known, members, part?.[0], part?.[1]]);
  const chosen = part !== null && known !== null;
  const shown = useMemo(() => (chosen ? places.map((i) => members[i]!) : members), [chosen, places, members]);
  const pick = <T,>(list: T[]): T[] => (chosen ? places.map((i) => list[i]!) : list);
  const [ids, names] = useMemo(() => [pick(labels.ids), pick(labels.names)], [chosen, places, labels]);
  const brackets = useMemo(() => labels.brackets && pick(labels.brackets), [chosen, places, labels]);
  const rows = useMemo(() => (chosen ? places.map((_, i) => i) : places), [chosen, places]);

  const box = boxOf(size.value, rows.length, names, brackets);
  const now: View = { ...all, members: shown, ids, columns: box.columns };
  const key = `${base} ${part ? `${places.join()}` : "all"} ${box.columns} ${now.reduce} ${now.limits}`;
  useEffect(() => {
    if (part === null || known) pictures.show(now, key, tick);
  }, [key, tick, known === null, pictures]);
  const head = pictures.head.value;
  useEffect(() => {
    headKey.value = pictures.headKey;
  }, [head]);

  const dragged = useSignal<[number, number] | null>(null);
  const limits = dragged.value ?? now.limits ?? head?.limits ?? null;
  const at = useSignal<Place | null>(null);
  const brush = useSignal<Brush | null>(null);
  const clipped = useSignal<Clipped>({ below: 0, above: 0, nan: 0, cells: 0 });
  const scroller = useRef<HTMLDivElement>(null);
  const opened = rows.findIndex((i) => ids[i] === kymo.row.value);
  const member = opened >= 0 ? shown[rows[opened]!]! : members[labels.ids.indexOf(kymo.row.value)];
  const name = member && labels.names[labels.ids.indexOf(kymo.row.value)]!;
  const open = (row: number) => {
    const id = ids[rows[row]!]!;
    setParams({ row: id === kymo.row.value ? "" : id });
  };
  const cell = cellOf(at.value, rows, ids, pictures, box);
  const x = useSignal<number | null>(null);
  useEffect(() => {
    if (cell) x.value = cell.from;
  }, [cell?.from]);
  const doZoom = (b: Brush) => zoomTo(b, box, pictures, axis, unit, part?.[0] ?? 0);
  const reset = () => setParams({ zoom: "", rows: "" });
  useEffect(() => bind({ z: reset, Escape: () => setParams({ row: "" }) }), []);
  const keys = (e: KeyboardEvent) =>
    onKey(e, { at, brush, rows: rows.length, box, picture: head, open, zoom: doZoom });
  useArrows(scroller, keys);
  const late = useLate(pictures.loading.value && head === null);
  const message = pictures.error.value || error;
  return (
    <>
      <div class="ky-bar">
        {limits && (
          <HeatLegend
            limits={limits}
            chosen={now.limits !== null}
            clipped={clipped.value}
            onPick={(next) => {
              dragged.value = null;
              kymo.setLimits(next);
            }}
            onDrag={(next) => {
              dragged.value = next;
            }}
          />
        )}
        {(zoom || part) && (
          <button type="button" class="button" onClick={reset} title="Reset the zoom (z)">
            reset zoom
          </button>
        )}
        {order === null && known !== null && (
          <span class="muted">sorting {count(members.length)} rows …</span>
        )}
        <span class="muted right">
          {part
            ? `rows ${count(part[0] + 1)}–${count(part[0] + rows.length)} of ${count(members.length)}`
            : `${count(members.length)} rows`}
          {left > 0 &&
            ` of ${count(members.length + left)}: a picture has ${count(mostRows)} at most, narrow the pattern`}
          {head && perCell(head, axis)}
        </span>
      </div>
      {message && (
        <p class="warning" role="alert">
          {message}
        </p>
      )}
      <div class="ky-picture">
        {late && <div class="progress" />}
        <Kymograph
          {...{
            pictures,
            names,
            brackets,
            order: rows,
            box,
            axis,
            unit,
            limits,
            at,
            brush,
            clipped,
            opened,
            scroller,
          }}
          view={now}
          label={`Kymograph of ${kymo.metric.value}: ${count(rows.length)} rows. Arrow keys move, Enter opens a curve.`}
          onMeasure={(width, height) => {
            size.value = { width, height };
          }}
          onOpen={open}
          onZoom={doZoom}
          onReset={reset}
          onKey={keys}
        />
      </div>
      <Status
        cell={cell}
        member={cell && shown[cell.index]}
        name={cell && names[cell.index]}
        {...{ axis, unit, inherited }}
      />
      {member && name !== undefined && (
        <KymographRow
          {...{ session, member, name, runs, x }}
          axis={axis.name}
          close={() => setParams({ row: "" })}
        />
      )}
    </>
  );
}

interface Labels {
  ids: string[];
  names: string[];
  brackets: string[] | null;
  key: string;
}

function useLabels(members: Member[], runName: (id: string) => string, runNames: string): Labels {
  return useMemo(() => {
    const ids = idsOf(members);
    const key = `${members.length} ${ids[0]} ${ids.at(-1)} ${members[0]!.series.metric} ${members[0]!.series.scale}`;
    return { ids, names: namesOf(members, runName), brackets: bracketsOf(members, runName), key };
  }, [members, runNames]);
}

function useAxis(
  session: Session,
  members: Member[],
  runs: Map<string, number>,
): { axis: XAxis; unit: Unit } {
  const { run, series } = members[0]!;
  const choice = view.axisChoice.value;
  const start = session.detail(run)?.created_ns ?? 0;
  const axes = series.axes.join();
  return useMemo(() => {
    const axis = axisFor(series.axes, choice === relative && runs.size > 1 ? wall : choice);
    return { axis, unit: unitOf(axis, start) };
  }, [axes, choice, runs.size > 1, start]);
}

const phone = 640;

/** Where everything lies: labels need room from a height of rows on, brackets with names before that. */
function boxOf(
  size: { width: number; height: number },
  rows: number,
  names: string[],
  brackets: string[] | null,
): Box {
  const ratio = devicePixelRatio;
  const narrow = size.width <= phone;
  const rowPx = Math.max(1, Math.round(rowHeight(kymo.height.value, rows, size.height - topHeight) * ratio));
  const high = rowPx / ratio;
  const texts = high >= labelledFrom ? names : (brackets ?? []);
  const longest = texts.reduce((n, t) => Math.max(n, Math.min(40, t.length)), 0);
  const gutter = Math.round(Math.min(narrow ? 96 : 220, Math.max(64, longest * 6.3 + 24)));
  const bars = narrow ? 48 : 96;
  const columns = Math.max(0, Math.floor((size.width - gutter - bars) * ratio));
  return { ...size, gutter, bars, rowHeight: high, rowPx, ratio, columns };
}

function perCell(head: Picture, axis: XAxis): string {
  const wide = (head.to - head.from + 1) / head.columns;
  if (axis.kind !== "number") return ` · ${count(head.columns)} columns`;
  return wide > 1 ? ` · ${short(Number(wide.toPrecision(3)))} ${axis.name}s a cell` : "";
}

/** A cell under the crosshair: the row's place in the view, and the x that lie in it. */
interface Cell {
  index: number;
  from: number;
  to: number;
}

function cellOf(at: Place | null, rows: number[], ids: string[], pictures: Pictures, box: Box): Cell | null {
  const index = at ? rows[at.row] : undefined;
  if (!at || index === undefined) return null;
  const picture = pictures.strip(ids[index]!)?.picture ?? pictures.head.value;
  const cell = picture && cellAt(at.px, { ...pictures.span.value, columns: box.columns }, picture);
  return cell ? { index, from: cell.from, to: cell.to } : null;
}

/** Brushing along both axes: the x as the charts' zoom, the rows by their places. */
function zoomTo(b: Brush, box: Box, pictures: Pictures, axis: XAxis, unit: Unit, firstRow: number): void {
  const sides = sidesOf(b, box);
  const grid = { ...pictures.span.peek(), columns: box.columns };
  const picture = pictures.head.peek();
  const px = [b.from.px, b.to.px].sort((p, q) => p - q);
  const rows = [b.from.row, b.to.row].sort((p, q) => p - q);
  const [first, last] = px.map((p) => (picture ? cellAt(p, grid, picture) : null));
  const change: Record<string, string> = {};
  if (sides.rows) change.rows = rowsParam([firstRow + rows[0]!, firstRow + rows[1]! + 1]);
  if (sides.x && first && last) {
    // One x alone has no width: half a step on both sides gives it one.
    const alone = first.from === last.to ? 0.5 : 0;
    const [from, to] = [first.from - alone, last.to + alone].map((v) =>
      Number(((v - unit.origin) * unit.factor).toPrecision(15)),
    );
    change.zoom = `${axis.key}:${from}:${to}`;
  }
  if (Object.keys(change).length) setParams(change);
}

interface KeyProps {
  at: Signal<Place | null>;
  brush: Signal<Brush | null>;
  rows: number;
  box: Box;
  picture: Picture | null;
  open: (row: number) => void;
  zoom: (b: Brush) => void;
}

const moves: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  PageUp: [0, -10],
  PageDown: [0, 10],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

/** Arrows move the crosshair, with Shift they mark; Enter zooms to what is marked, else opens the row. */
function onKey(e: KeyboardEvent, { at, brush, rows, box, picture, open, zoom }: KeyProps): void {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const move = moves[e.key];
  const here = at.value;
  if (move && picture) {
    const columns = Math.min(picture.columns, box.columns);
    const column = here ? Math.floor(((here.px + 0.5) * columns) / box.columns) : -1;
    const clamp = (v: number, most: number) => Math.max(0, Math.min(most - 1, v));
    const next = here ? clamp(column + move[0], columns) : 0;
    const to = {
      row: here ? clamp(here.row + move[1], rows) : 0,
      px: clamp(Math.floor(((next + 0.5) * box.columns) / columns), box.columns),
    };
    brush.value = e.shiftKey ? { from: brush.value?.from ?? here ?? to, to } : null;
    at.value = to;
  } else if (e.key === "Enter" && brush.value) {
    zoom(brush.value);
    brush.value = null;
  } else if (e.key === "Enter" && here) open(here.row);
  else if (e.key === "Escape" && (brush.value || here)) {
    brush.value = null;
    at.value = null;
  } else return;
  e.preventDefault();
  e.stopPropagation();
}

/** Arrows reach the picture also when nothing has the focus. */
function useArrows(scroller: { current: HTMLElement | null }, keys: (e: KeyboardEvent) => void): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const listener = (e: KeyboardEvent) => {
      if (e.target !== document.body || !moves[e.key]) return;
      scroller.current?.focus({ preventScroll: true });
      now.current(e);
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, []);
}

interface StatusProps {
  cell: Cell | null;
  member: Member | null | undefined;
  name: string | null | undefined;
  axis: XAxis;
  unit: Unit;
  inherited: boolean;
}

const settleMs = 60; // a crosshair that only flies by asks nothing

/** What is under the crosshair, in all digits: the one bucket of the points of the cell. */
function Status({ cell, member, name, axis, unit, inherited }: StatusProps) {
  const exact = useSignal<{ key: string; curve: Curve | null }>({ key: "", curve: null });
  const key = cell && member ? `${name} ${axis.name} ${cell.from} ${cell.to} ${member.series.count}` : "";
  useEffect(() => {
    if (!key || !cell || !member) return;
    const abort = new AbortController();
    const { metric, scale, labels, count: version } = member.series;
    const query: BucketQuery = {
      ...{ run: member.run, metric, scale, labels, x: axis.name, n: 1, from: cell.from, to: cell.to },
      ...(inherited && member.series.inherited && { include_inherited: true as const }),
    };
    const timer = setTimeout(() => {
      batch.fetch(query, version, abort.signal).then(
        (result) => {
          if (!abort.signal.aborted)
            exact.value = { key, curve: "error" in result ? null : curveOf(result.columns, unit) };
        },
        () => {}, // the next cell asks again
      );
    }, settleMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  const drawn = (v: number) => (v - unit.origin) * unit.factor;
  return (
    <output class="ky-status" aria-live="polite">
      {cell ? (
        <>
          <span class="ky-name cut" title={name ?? ""}>
            {name}
          </span>
          <span class="muted">
            {axis.kind === "number" && `${axis.name} `}
            {placeText(axis, drawn(cell.from), drawn(cell.to))}
          </span>
          <span>{exact.value.key === key ? valueText(exact.value.curve) : "…"}</span>
        </>
      ) : (
        <span class="muted">
          Point at a cell, or move with the arrow keys; Enter opens its curve, ? lists the keys.
        </span>
      )}
    </output>
  );
}

/** The points of a cell in words. */
export function valueText(curve: Curve | null): string {
  if (!curve || curve.points === 0) return "no point";
  const finite = curve.count[0] ?? 0;
  const special = [
    [curve.nan, "NaN"],
    [curve.posInf, "+Inf"],
    [curve.negInf, "−Inf"],
  ] as const;
  const others = special.filter(([n]) => n > 0).map(([n, what]) => (n > 1 ? `${count(n)} ${what}` : what));
  if (finite === 0) return others.join(", ");
  const value =
    finite === 1
      ? String(curve.mean[0])
      : `mean ${curve.mean[0]}, ${curve.min[0]} … ${curve.max[0]}, ${count(finite)} points`;
  return [value, ...others].join(", ");
}
