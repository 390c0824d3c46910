import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Picture } from "../api/kymograph.ts";
import { axisFor, relative, storedRange, unitOf, wall, type XAxis } from "../chart/axis.ts";
import { type Brush, type Place, sidesOf } from "../chart/brush.ts";
import type { Unit } from "../chart/curve.ts";
import { count, plural, short } from "../chart/number.ts";
import { type Clipped, cellAt, labelledFrom, rowHeight } from "../chart/raster.ts";
import { bracketsOf, idsOf, namesOf, rowsParam } from "../chart/rows.ts";
import { help } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import * as kymo from "../state/kymograph.ts";
import { Pictures, type View } from "../state/pictures.ts";
import { setParams } from "../state/route.ts";
import type { Member, Session } from "../state/session.ts";
import * as view from "../state/view.ts";
import { useLate } from "./chartcard.tsx";
import { type Box, Kymograph, topHeight } from "./kymograph.tsx";
import { onKey, pixelOf, useArrows } from "./kymographkeys.ts";
import { Beyond, HeatLegend } from "./kymographlegend.tsx";
import { KymographRow } from "./kymographrow.tsx";
import { Under } from "./kymographstatus.tsx";
import { useOrder } from "./useorder.ts";

interface Props {
  session: Session;
  members: Member[];
  runs: Map<string, number>;
}

/** KymographBody is the picture with its legend, what is under the crosshair, and the curve of the opened row. */
export function KymographBody({ session, members, runs }: Props) {
  const unread = session.failed().length;
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
  const sort = kymo.orderOf(members.length);
  const base = `${labels.key} ${axis.name} ${ends?.from} ${ends?.to} ${inherited}`;
  const orderKey = `${base} ${sort} ${sort === "similar" || sort === "max" ? kymo.reduce.value : ""}`;
  const part = kymo.rows.value;
  const head = pictures.head.value;
  const fits = part === null && pictures.headKey.startsWith(`${base} all `);
  const { order, last, error } = useOrder(
    sort,
    all,
    orderKey,
    labels.names,
    fits ? head : null,
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
  const key = `${base} ${part ? places.join() : "all"} ${box.columns} ${now.reduce} ${now.limits}`;
  useEffect(() => {
    if (part === null || known) pictures.show(now, key, tick);
  }, [key, tick, known === null, pictures]);
  const dragged = useSignal<[number, number] | null>(null);
  const limits = dragged.value ?? now.limits ?? head?.limits ?? null;
  const at = useSignal<Place | null>(null);
  const span = pictures.span.value;
  useEffect(() => {
    const here = at.peek();
    if (here?.x !== undefined) at.value = { ...here, px: pixelOf(here.x, span, box.columns) };
  }, [span, box.columns]);
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
  const x = useSignal<number | null>(null);
  const doZoom = (b: Brush) => zoomTo(b, box, pictures, axis, unit, part?.[0] ?? 0);
  const close = () => {
    if (help.value) help.value = false;
    else setParams({ row: "" });
  };
  const reset = () => setParams({ zoom: "", rows: "" });
  useEffect(() => bind({ z: reset, Escape: close }), []);
  const keys = (e: KeyboardEvent) =>
    onKey(e, { at, brush, rows: rows.length, box, picture: head, open, zoom: doZoom });
  useArrows(scroller, keys);
  const late = useLate(pictures.loading.value && head === null);
  const message = pictures.error.value || error;
  return (
    <>
      <div class="ky-bar">
        {!limits && <Beyond clipped={clipped.value} />}
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
        <Waiting
          read={pictures.headKey === key ? 0 : pictures.progress.value}
          of={shown.length}
          sorting={order === null && known !== null ? members.length : 0}
        />
        <span class="muted right">
          {part
            ? `rows ${count(part[0] + 1)}–${count(part[0] + rows.length)} of ${count(members.length)}`
            : plural(members.length, "row")}
          {unread > 0 && `, and ${plural(unread, "run")} that cannot be read`}
          {head && perCell(head, axis)}
        </span>
      </div>
      {message && (
        <p class="warning" role="alert">
          {message}{" "}
          <button type="button" class="link" onClick={() => pictures.retry()}>
            Try again
          </button>
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
          label={`Kymograph of ${kymo.metric.value}: ${plural(rows.length, "row")}. Arrow keys move, Enter opens a curve.`}
          onMeasure={(width, height) => {
            size.value = { width, height };
          }}
          onOpen={open}
          onZoom={doZoom}
          onReset={reset}
          onKey={keys}
        />
      </div>
      <Under {...{ at, x, rows, ids, names, pictures, box, axis, unit, inherited }} members={shown} />
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

/** What takes longer than a moment: many rows are read by some thousands, then sorted. */
function Waiting({ read, of, sorting }: { read: number; of: number; sorting: number }) {
  if (read > 0)
    return (
      <span class="muted" role="status">
        {count(read)} of {count(of)} rows read …
      </span>
    );
  return sorting > 0 ? <span class="muted">sorting {count(sorting)} rows …</span> : null;
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
