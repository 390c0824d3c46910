import { type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type XAxis, xLabels, xTicks } from "../chart/axis.ts";
import { type Brush, type Place, sidesOf } from "../chart/brush.ts";
import { hue } from "../chart/color.ts";
import { curveOf, type Unit } from "../chart/curve.ts";
import { short } from "../chart/number.ts";
import { type Frame, noFront, toX } from "../chart/paint.ts";
import { rangeOf } from "../chart/range.ts";
import { type Clipped, countClipped, rowAt, rowsIn } from "../chart/raster.ts";
import { paintScene, type Scene } from "../chart/scene.ts";
import { SheetPainter, type SheetRow } from "../chart/sheet.ts";
import { lineOf } from "../chart/style.ts";
import * as kymo from "../state/kymograph.ts";
import { around, type Pictures, type View } from "../state/pictures.ts";
import { isDark, palette } from "../state/theme.ts";

/** Box is where everything lies, in CSS pixels but for `columns`. */
export interface Box {
  width: number;
  height: number;
  gutter: number;
  bars: number;
  rowHeight: number;
  rowPx: number;
  ratio: number;
  /** Device pixels of the plot. */
  columns: number;
}

export const topHeight = 78;
const axisHeight = 20;

interface Props {
  pictures: Pictures;
  view: View;
  names: string[];
  brackets: string[] | null;
  order: number[];
  box: Box;
  axis: XAxis;
  unit: Unit;
  limits: [number, number] | null;
  at: Signal<Place | null>;
  brush: Signal<Brush | null>;
  clipped: Signal<Clipped>;
  opened: number;
  scroller: RefObject<HTMLDivElement | null>;
  onMeasure: (width: number, height: number) => void;
  onOpen: (row: number) => void;
  onZoom: (brush: Brush) => void;
  onReset: () => void;
  onKey: (e: KeyboardEvent) => void;
  label: string;
}

/** Kymograph is the picture: its head with the mean and band, and rows that scroll under it. */
export function Kymograph(props: Props) {
  const { box, order, scroller, at, onMeasure } = props;
  const top = useSignal(0);
  useLayoutEffect(() => {
    const el = scroller.current!;
    const measure = () => onMeasure(el.clientWidth, el.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  useReveal(at, scroller, box);
  const plane = { height: `${topHeight + order.length * box.rowHeight}px` };
  return (
    <div
      class="ky-scroll"
      ref={scroller}
      role="application"
      aria-roledescription="kymograph"
      aria-label={props.label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: an application of its own keys
      tabIndex={0}
      onKeyDown={props.onKey}
      onScroll={(e) => {
        top.value = e.currentTarget.scrollTop;
      }}
    >
      <div class="ky-plane" style={plane}>
        <div class="ky-top" style={{ height: `${topHeight}px` }}>
          <Profile {...props} />
        </div>
        <div class="ky-stick" style={{ top: `${topHeight}px` }}>
          <Cells {...props} top={top} />
          <Cross {...props} top={top} />
        </div>
      </div>
    </div>
  );
}

/** Scrolls so that the row of the keys is in sight. */
function useReveal(at: Props["at"], scroller: Props["scroller"], box: Box): void {
  useEffect(
    () =>
      at.subscribe((place) => {
        const el = scroller.current;
        if (!el || !place) return;
        const [y, room] = [place.row * box.rowHeight, el.clientHeight - topHeight];
        if (y < el.scrollTop) el.scrollTop = y;
        else if (y + box.rowHeight > el.scrollTop + room) el.scrollTop = y + box.rowHeight - room;
      }),
    [at, box.rowHeight],
  );
}

/** Sizes a canvas to device pixels; it is cleared only when its size changes. */
function sized(el: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  if (el.width !== width) el.width = width;
  if (el.height !== height) el.height = height;
  return el.getContext("2d")!;
}

function Cells(props: Props & { top: Signal<number> }) {
  const { pictures, view, names, brackets, order, box, limits, top } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useMemo(() => new SheetPainter(), []);
  const room = Math.max(0, Math.min(box.height - topHeight, order.length * box.rowHeight));
  const scroll = top.value;
  const version = pictures.version.value;
  const span = pictures.span.value;
  const head = pictures.head.value;
  const [first, last] = rowsIn(scroll, room, box.rowHeight, order.length);
  const [from, to] = around(first, last, order.length);
  useEffect(() => pictures.see(order.slice(from, to)), [from, to, order, head, version]);
  const stats = head?.rows[kymo.bar.value];
  const barRange = useMemo(() => extremes(stats), [stats]);
  useLayoutEffect(() => {
    const el = canvas.current;
    if (!el || room <= 0) return;
    const start = performance.now();
    const [width, height] = [Math.round(box.width * box.ratio), Math.round(room * box.ratio)];
    const ctx = sized(el, width, height);
    const rows = order.slice(first, last).map(
      (i): SheetRow => ({
        strip: pictures.strip(view.ids[i]!),
        name: names[i]!,
        bracket: brackets?.[i] ?? "",
        bar: stats?.[i] ?? Number.NaN,
      }),
    );
    painter.paint(ctx, {
      ...{ rows, width, height, ratio: box.ratio, rowPx: box.rowPx, limits, barRange },
      above: Math.round(scroll * box.ratio) - first * box.rowPx,
      gutter: Math.round(box.gutter * box.ratio),
      bars: Math.round(box.bars * box.ratio),
      view: { ...span, columns: box.columns },
      reduce: view.reduce,
      palette: palette.value,
      isDark: isDark.value,
    });
    el.dataset.rows = String(rows.length);
    el.dataset.to = String(span.to);
    el.dataset.painted = String(rows.filter((r) => r.strip).length);
    el.dataset.ms = (performance.now() - start).toFixed(1);
  });
  useEffect(() => {
    const strips = order.slice(first, last).flatMap((i) => pictures.strip(view.ids[i]!)?.cells ?? []);
    const timer = setTimeout(() => {
      props.clipped.value = countClipped(strips);
    }, 60);
    return () => clearTimeout(timer);
  }, [first, last, order, version]);
  return <canvas ref={canvas} class="ky-cells" style={{ width: `${box.width}px`, height: `${room}px` }} />;
}

function extremes(values: Float64Array | undefined): [number, number] {
  let [lo, hi] = [Infinity, -Infinity];
  for (const v of values ?? []) if (Number.isFinite(v)) [lo, hi] = [Math.min(lo, v), Math.max(hi, v)];
  return lo <= hi ? [lo, hi] : [0, 0];
}

/** The mean and the band of the rows, over the same x, and the axis. */
function Profile(props: Props) {
  const { pictures, box, axis, unit } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const head = pictures.head.value;
  const { from, to } = pictures.span.value;
  useLayoutEffect(() => {
    const el = canvas.current;
    if (!el || box.width <= 0) return;
    const { ratio } = box;
    const [width, height] = [Math.round(box.width * ratio), Math.round(topHeight * ratio)];
    const ctx = sized(el, width, height);
    ctx.clearRect(0, 0, width, height);
    if (!head) return;
    const drawn = (v: number) => (v - unit.origin) * unit.factor;
    const half = 0.5 * unit.factor; // an x is as wide as a cell, and stands in its middle
    const x: [number, number] = [drawn(from) - half, drawn(to) + half];
    const curve = curveOf(head.profile, unit);
    const own = hue(0, isDark.value);
    const how = { id: "rows", faded: false, lines: 1, smoothing: { kind: "none" as const }, log: false };
    const line = { ...lineOf(curve, { color: own, own, dash: [], alpha: 1 }, how), band: true, stems: [] };
    const y = rangeOf([curve], x[0], x[1], false, false);
    const scene: Scene = {
      ...{ lines: [line], axis, x, y, log: false, palette: palette.value, front: noFront, version: "" },
      needleLabel: (n) => short(n.value),
    };
    const frame: Frame = {
      left: Math.round(box.gutter * ratio),
      top: Math.round(6 * ratio),
      width: box.columns,
      height: Math.round((topHeight - axisHeight - 8) * ratio),
      ...{ x0: x[0], x1: x[1], y0: y.min, y1: y.max, log: false, ratio },
    };
    paintScene(ctx, frame, scene);
    paintScales(ctx, frame, props, x, head.limits ? [y.min, y.max] : null);
  });
  return <canvas ref={canvas} style={{ width: `${box.width}px`, height: `${topHeight}px` }} />;
}

/** The ticks of x, the ends of y, and what the bars at the right are. */
function paintScales(
  ctx: CanvasRenderingContext2D,
  f: Frame,
  { axis, box }: Props,
  x: [number, number],
  y: [number, number] | null,
): void {
  const { ratio } = f;
  ctx.font = `${11 * ratio}px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  ctx.fillStyle = palette.value.muted;
  ctx.textBaseline = "middle";
  const ticks = xTicks(axis, x[0], x[1], Math.max(2, Math.min(10, Math.floor(f.width / ratio / 72))));
  const labels = xLabels(axis, ticks);
  const middle = (topHeight - axisHeight / 2) * ratio;
  ticks.forEach((tick, i) => {
    const px = toX(f, tick);
    const wide = ctx.measureText(labels[i]!).width;
    if (px - wide / 2 < f.left - 2 || px + wide / 2 > f.left + f.width + 2) return;
    ctx.textAlign = "center";
    ctx.fillText(labels[i]!, px, middle);
    ctx.fillRect(Math.round(px), topHeight * ratio - 3 * ratio, Math.round(ratio), 3 * ratio);
  });
  ctx.textAlign = "right";
  ctx.fillText(axis.key, f.left - 8 * ratio, middle);
  if (y && y[0] < y[1]) {
    ctx.fillText(short(Number(y[1].toPrecision(3))), f.left - 8 * ratio, f.top + 5 * ratio);
    ctx.fillText(short(Number(y[0].toPrecision(3))), f.left - 8 * ratio, f.top + f.height - 3 * ratio);
  }
  ctx.textAlign = "left";
  ctx.fillText(kymo.bar.value, (box.width - box.bars + 8) * ratio, middle);
}

/** Crosshair, brush and pointer. */
function Cross(props: Props & { top: Signal<number> }) {
  const { box, order, at, brush, top, opened } = props;
  const host = useRef<HTMLDivElement>(null);
  const pressed = useRef<{ x: number; y: number; place: Place } | null>(null);
  const room = Math.max(0, Math.min(box.height - topHeight, order.length * box.rowHeight));
  const width = box.columns / box.ratio;
  const place = (e: PointerEvent): Place | null => {
    const area = host.current!.getBoundingClientRect();
    const px = Math.max(0, Math.min(box.columns - 1, Math.floor((e.clientX - area.left) * box.ratio)));
    const row = rowAt(e.clientY - area.top + top.peek(), box.rowHeight, order.length);
    return row < 0 ? null : { row, px };
  };
  const move = (e: PointerEvent) => {
    const to = place(e);
    const now = at.peek();
    if (to?.row !== now?.row || to?.px !== now?.px) at.value = to;
    const from = pressed.current;
    if (from && to && Math.hypot(e.clientX - from.x, e.clientY - from.y) >= 4)
      brush.value = { from: from.place, to };
  };
  const up = () => {
    const from = pressed.current;
    pressed.current = null;
    if (!from) return;
    if (brush.peek()) props.onZoom(brush.peek()!);
    else props.onOpen(from.place.row);
    brush.value = null;
  };
  const y = (row: number) => row * box.rowHeight - top.value;
  const here = at.value;
  const marked = brush.value;
  return (
    <div
      ref={host}
      class="ky-area"
      style={{ left: `${box.gutter}px`, width: `${width}px`, height: `${room}px` }}
      onPointerMove={move}
      onPointerLeave={() => {
        if (!pressed.current) at.value = null;
      }}
      onPointerDown={(e) => {
        const from = place(e);
        if (e.button !== 0 || !from) return;
        pressed.current = { x: e.clientX, y: e.clientY, place: from };
        if (e.pointerType !== "touch") e.currentTarget.setPointerCapture(e.pointerId);
      }}
      onPointerUp={up}
      onPointerCancel={() => {
        pressed.current = null;
        brush.value = null;
      }}
      onDblClick={props.onReset}
    >
      {opened >= 0 && <Line y={y(opened)} height={box.rowHeight} kind="open" room={room} />}
      {here && <Line y={y(here.row)} height={box.rowHeight} kind="here" room={room} />}
      {here && <div class="ky-x" style={{ transform: `translateX(${here.px / box.ratio}px)` }} />}
      {marked && <div class="ky-brush" style={rectangle(marked, box, width, y)} />}
    </div>
  );
}

function Line({ y, height, kind, room }: { y: number; height: number; kind: string; room: number }) {
  if (y + height < 0 || y > room) return null;
  return <div class={`ky-y ${kind}`} style={{ transform: `translateY(${y}px)`, height: `${height}px` }} />;
}

function rectangle(b: Brush, box: Box, width: number, y: (row: number) => number) {
  const { x, rows } = sidesOf(b, box);
  const [left, right] = x
    ? [Math.min(b.from.px, b.to.px), Math.max(b.from.px, b.to.px)].map((p) => p / box.ratio)
    : [0, width];
  const [top, bottom] = [Math.min(b.from.row, b.to.row), Math.max(b.from.row, b.to.row) + 1].map(y);
  return {
    transform: `translate(${left}px, ${rows ? top : 0}px)`,
    width: `${right! - left!}px`,
    height: rows ? `${bottom! - top!}px` : "100%",
  };
}
