import type { Curve, Low, Mark, MarkKind } from "./curve.ts";
import { short } from "./number.ts";
import type { Range } from "./range.ts";
import type { Smooth } from "./smooth.ts";

/** Line is a curve with how it is drawn. */
export interface Line {
  id: string;
  curve: Curve;
  color: string;
  /** Its own hue, which a line of a crowd is not drawn in until it is brought forward. */
  own: string;
  alpha: number;
  dash: number[];
  /** The min/max band is drawn under the mean. */
  band: boolean;
  /** Buckets with excursions, drawn as opaque stems from min to max. */
  stems: readonly number[];
  /** The smoothed mean, drawn in front; the raw one stays at 30 % behind. */
  smooth?: Smooth;
  /** What the log scale cannot show. */
  low?: Low;
  /** An earlier attempt: drawn faint, and no needle, mark or tooltip of its own. */
  faded: boolean;
  /** The key of its group. */
  group?: string;
  /** One of a crowd that a density stands for: what stands out of it is drawn, itself when it comes forward. */
  hidden?: boolean;
  /** Where a fork goes on by itself; what is in front of it is inherited and drawn dimmed. */
  fork?: number;
}

/** Frame is where a plot draws, in canvas pixels, and what it shows. */
export interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
  x0: number;
  x1: number;
  /** In the scale's own unit: log10 of the value when log. */
  y0: number;
  y1: number;
  log: boolean;
  ratio: number;
}

/** Needle is a value beyond the frame: an arrow at the edge that leads to it. */
export interface Needle {
  px: number;
  up: boolean;
  value: number;
  lo: number;
  hi: number;
  line: Line;
  /** The label's place, once drawn. */
  box?: { left: number; right: number };
}

/** How much of a line's strength what it inherits keeps. */
export const inheritedAlpha = 0.4;

export const laneHeight = 11; // pixels under the curves for NaN and Inf

export function toX(f: Frame, x: number): number {
  return f.left + ((x - f.x0) / (f.x1 - f.x0)) * f.width;
}

const outside = 1e5; // pixels; a canvas holds coordinates as single floats, and drops a line to 1e39

/** A value's place; one far beyond the frame is drawn as far out as a line to it needs. */
export function toY(f: Frame, value: number): number {
  const v = f.log ? Math.log10(value) : value;
  const at = (1 - (v - f.y0) / (f.y1 - f.y0)) * f.height;
  return f.top + Math.max(-outside, Math.min(outside, at));
}

/** Front is what stands out of the others: lines under the pointer, of a run that is pointed at, or pinned. */
export interface Front {
  lines: ReadonlySet<string>;
  /** The other lines keep a third of their strength. */
  dim: boolean;
  /** A group that is pointed at: the others keep a third of their strength. */
  group?: string | null;
}

export const noFront: Front = { lines: new Set(), dim: false };

/** What a group, or a line of it, keeps of its strength. */
export function strengthOf(front: Front, group: string | undefined): number {
  if (front.group !== undefined && front.group !== null) return group === front.group ? 1 : 1 / 3;
  return front.dim ? 1 / 3 : 1;
}

/** The part of a canvas that curves are drawn with, so that they can be written as vectors too. */
export type Context = Pick<
  CanvasRenderingContext2D,
  | "arc"
  | "beginPath"
  | "clip"
  | "closePath"
  | "fill"
  | "fillRect"
  | "fillText"
  | "lineTo"
  | "measureText"
  | "moveTo"
  | "rect"
  | "restore"
  | "save"
  | "setLineDash"
  | "stroke"
> & {
  fillStyle: unknown;
  strokeStyle: unknown;
  font: string;
  globalAlpha: number;
  lineJoin: string;
  lineWidth: number;
  textAlign: string;
  textBaseline: string;
};

/** A dashed upright where a fork leaves its parent. */
function paintFork(ctx: Context, f: Frame, at: number, line: Line): void {
  ctx.strokeStyle = line.color;
  ctx.globalAlpha = 0.8 * line.alpha;
  ctx.lineWidth = f.ratio;
  ctx.setLineDash([3 * f.ratio, 3 * f.ratio]);
  ctx.beginPath();
  const x = Math.round(toX(f, at)) + 0.5 * f.ratio;
  ctx.moveTo(x, f.top);
  ctx.lineTo(x, f.top + f.height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** Stretches of buckets that are inherited or not; a stretch of a line begins where the one before ended. */
export function stretches(c: Curve): { from: number; to: number; inherited: boolean }[] {
  const out: { from: number; to: number; inherited: boolean }[] = [];
  for (let i = 0; i < c.x.length; i++) {
    const inherited = c.inherited?.[i] === 1;
    const last = out.at(-1);
    if (last?.inherited === inherited) last.to = i + 1;
    else out.push({ from: i, to: i + 1, inherited });
  }
  return out;
}

const isAhead = (front: Front) => (line: Line) => !line.faded && front.lines.has(line.id);

/** Everything that is drawn by `paint` stays within the frame. */
export function clipped(ctx: Context, f: Frame, paint: () => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(f.left, f.top, f.width, f.height);
  ctx.clip();
  ctx.lineJoin = "round";
  paint();
  ctx.restore();
}

/** Draws the lines that are not in front: earlier attempts, then the others; of a density only a group that is pointed at. */
export function paintBehind(ctx: Context, f: Frame, lines: readonly Line[], front: Front): void {
  const ahead = isAhead(front);
  const shown = (line: Line) =>
    !ahead(line) && (!line.hidden || (line.group !== undefined && line.group === front.group));
  const behind = lines.filter(shown);
  for (const line of behind) if (line.faded) paintLine(ctx, f, line, strengthOf(front, line.group));
  // Bands lie under all lines, and many of them stay a haze in which lines are told apart.
  const banded = behind.filter((line) => line.band && line.curve.banded);
  const opacity = bandOpacity * Math.min(1, clearBands / banded.length);
  for (const line of banded) paintBand(ctx, f, line, strengthOf(front, line.group) * opacity);
  for (const line of behind) if (!line.faded) paintLine(ctx, f, line, strengthOf(front, line.group));
}

/** Draws what stands out of the lines, then the lines in front. */
export function paintAhead(ctx: Context, f: Frame, lines: readonly Line[], front: Front): void {
  const ahead = lines.filter(isAhead(front));
  for (const line of lines)
    if (!ahead.includes(line)) paintStems(ctx, f, line, strengthOf(front, line.group));
  for (const line of ahead) {
    const own = { ...line, color: line.own, alpha: 1 };
    if (line.band && line.curve.banded) paintBand(ctx, f, own, bandOpacity);
    paintLine(ctx, f, own, 0);
  }
  for (const line of ahead) paintStems(ctx, f, line, 1);
  for (const line of lines) if (line.fork !== undefined) paintFork(ctx, f, line.fork, line);
}

/** A line at a share of its strength; one of the front, which has none to share, is wider. */
function paintLine(ctx: Context, f: Frame, line: Line, share: number): void {
  const { curve, smooth } = line;
  const alpha = line.alpha * (share || 1);
  ctx.strokeStyle = line.color;
  ctx.fillStyle = line.color;
  const parts = stretches(curve);
  ctx.setLineDash(line.dash.map((d) => d * f.ratio));
  ctx.lineWidth = (share ? (line.group === undefined ? 1.25 : 1) : 2) * f.ratio;
  for (const p of parts) {
    // From the bucket before: the way from the parent's last point to the fork's first is the fork's.
    const from = Math.max(0, p.from - 1);
    ctx.globalAlpha = dimmed(smooth ? alpha * 0.3 : alpha, p);
    paintPath(ctx, f, curve.x, curve.mean, from, p.to);
    if (!smooth) paintDots(ctx, f, curve, p.from, p.to);
    if (!smooth) continue;
    ctx.globalAlpha = dimmed(alpha, p);
    paintPath(ctx, f, smooth.x, smooth.y, from, p.to);
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** What a stem spans: its bucket, or the way from the line to a single point. */
function stemOf(c: Curve, i: number): [number, number] {
  const [min, max] = [c.min[i]!, c.max[i]!];
  if (min < max) return [min, max];
  const beside = [c.mean[i - 1], c.mean[i + 1]].filter((v) => Number.isFinite(v)) as number[];
  const [first = max, second = first] = beside.sort((a, b) => Math.abs(a - max) - Math.abs(b - max));
  // Between its neighbours a point is on a slope.
  const from = (first - max) * (second - max) < 0 ? max : first;
  return [Math.min(from, max), Math.max(from, max)];
}

/** Excursions, in the line's own hue, on whole pixels and at least three of them; one beyond the frame stands at its edge. */
function paintStems(ctx: Context, f: Frame, line: Line, strength: number): void {
  const { curve: c } = line;
  const [width, shortest, bottom] = [Math.round(1.5 * f.ratio), 3 * f.ratio, f.top + f.height];
  const inside = (y: number) => Math.max(f.top, Math.min(bottom, y));
  ctx.fillStyle = line.own;
  ctx.globalAlpha = strength;
  for (const i of line.stems) {
    if (c.hi[i]! < f.x0 || c.lo[i]! > f.x1 || !drawable(f, c.max[i]!)) continue;
    const [least, most] = stemOf(c, i);
    const high = inside(toY(f, most));
    const low = drawable(f, least) ? inside(toY(f, least)) : bottom;
    const height = Math.max(shortest, low - high);
    const top = Math.min(high - Math.max(0, shortest - (low - high)) / 2, bottom - height);
    ctx.fillRect(Math.round(toX(f, c.x[i]!) - width / 2), Math.max(f.top, top), width, height);
  }
  ctx.globalAlpha = 1;
}

export function dimmed(alpha: number, part: { inherited: boolean }): number {
  return part.inherited ? alpha * inheritedAlpha : alpha;
}

/** Whether a value can be drawn on this scale. */
function drawable(f: Frame, v: number): boolean {
  return Number.isFinite(v) && (!f.log || v > 0);
}

function paintPath(ctx: Context, f: Frame, x: Float64Array, y: Float64Array, from: number, to: number): void {
  ctx.beginPath();
  let open = false;
  for (let i = from; i < to; i++) {
    const v = y[i]!;
    if (!drawable(f, v)) {
      open = false;
      continue;
    }
    if (open) ctx.lineTo(toX(f, x[i]!), toY(f, v));
    else ctx.moveTo(toX(f, x[i]!), toY(f, v));
    open = true;
  }
  ctx.stroke();
}

const bandOpacity = 0.18;
const clearBands = 2; // so many may lie on each other

/** A line's band from the least to the greatest of each bucket. */
function paintBand(ctx: Context, f: Frame, line: Line, share: number): void {
  ctx.fillStyle = line.color;
  for (const p of stretches(line.curve)) {
    ctx.globalAlpha = dimmed(line.alpha * share, p);
    bandStretch(ctx, f, line.curve, p.from, p.to);
  }
  ctx.globalAlpha = 1;
}

function bandStretch(ctx: Context, f: Frame, c: Curve, from: number, to: number): void {
  ctx.beginPath();
  let i = from;
  while (i < to) {
    if (!drawable(f, c.max[i]!)) {
      i++;
      continue;
    }
    let end = i;
    while (end < to && drawable(f, c.max[end]!)) end++;
    bandPiece(ctx, f, c, i, end);
    i = end;
  }
  ctx.fill();
}

function bandPiece(ctx: Context, f: Frame, c: Curve, from: number, to: number): void {
  const bottom = f.top + f.height;
  const half = 0.5 * f.ratio; // a piece of one bucket is still a pixel wide
  ctx.moveTo(toX(f, c.x[from]!) - half, toY(f, c.max[from]!));
  for (let i = from; i < to; i++) ctx.lineTo(toX(f, c.x[i]!), toY(f, c.max[i]!));
  ctx.lineTo(toX(f, c.x[to - 1]!) + half, toY(f, c.max[to - 1]!));
  for (let i = to - 1; i >= from; i--) {
    const low = c.min[i]!;
    ctx.lineTo(toX(f, c.x[i]!) + (i === to - 1 ? half : 0), drawable(f, low) ? toY(f, low) : bottom);
  }
  ctx.closePath();
}

/** Points are marked where they are few, or where a point has no neighbour to draw a line to. */
function paintDots(ctx: Context, f: Frame, c: Curve, from: number, to: number): void {
  const few = c.x.length < f.width / f.ratio / 12;
  ctx.beginPath();
  for (let i = from; i < to; i++) {
    if (!drawable(f, c.mean[i]!)) continue;
    const alone = !drawable(f, c.mean[i - 1] ?? Number.NaN) && !drawable(f, c.mean[i + 1] ?? Number.NaN);
    if (!few && !alone) continue;
    const [px, py] = [toX(f, c.x[i]!), toY(f, c.mean[i]!)];
    ctx.moveTo(px + 2 * f.ratio, py);
    ctx.arc(px, py, 2 * f.ratio, 0, 2 * Math.PI);
  }
  ctx.fill();
}

/** The buckets whose max or min leaves the frame, the furthest of each neighbourhood. */
export function needlesOf(f: Frame, lines: Line[], range: Range): Needle[] {
  if (!range.clipped) return [];
  const all: Needle[] = [];
  for (const line of lines) {
    if (line.faded) continue;
    const c = line.curve;
    for (let i = 0; i < c.x.length; i++) {
      if (c.hi[i]! < f.x0 || c.lo[i]! > f.x1) continue;
      const at = { px: toX(f, c.x[i]!), lo: c.lo[i]!, hi: c.hi[i]!, line };
      if (c.max[i]! > range.max) all.push({ ...at, up: true, value: c.max[i]! });
      if (c.min[i]! < range.min && drawable(f, c.min[i]!)) all.push({ ...at, up: false, value: c.min[i]! });
    }
  }
  return thin(all, 9 * f.ratio);
}

function thin(needles: Needle[], space: number): Needle[] {
  const far = (n: Needle) => Math.abs(n.value);
  const kept: Needle[] = [];
  for (const n of needles.sort((a, b) => far(b) - far(a)))
    if (!kept.some((k) => k.up === n.up && Math.abs(k.px - n.px) < space)) kept.push(n);
  return kept;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const meets = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const mostLabels = 3; // a side

/**
 * Arrows at the frame's edge. Those with room get their value, and the exact x where it is known: lines of the front
 * first, then the furthest; beside the arrow, else a line further in, never over another arrow or label.
 */
export function paintNeedles(
  ctx: Context,
  f: Frame,
  needles: Needle[],
  look: { label: (n: Needle) => string; front: Front; text: string; card: string },
): void {
  ctx.save();
  ctx.font = `${10.5 * f.ratio}px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const n of needles) {
    const y = n.up ? f.top + 1 * f.ratio : f.top + f.height - 1 * f.ratio;
    triangle(ctx, n.px, y, (n.up ? 1 : -1) * 7 * f.ratio, 4 * f.ratio);
    ctx.fillStyle = n.line.own;
    ctx.fill();
    n.box = { left: n.px - 7 * f.ratio, right: n.px + 7 * f.ratio };
  }
  for (const up of [true, false]) {
    const side = needles.filter((n) => n.up === up);
    const first = side.filter((n) => look.front.lines.has(n.line.id));
    const taken = side.map((n) => arrowBox(f, n));
    let labels = 0;
    for (const n of new Set([...first, ...side]))
      if (labels < mostLabels && paintLabel(ctx, f, n, look.label(n), taken, look)) labels++;
  }
  ctx.restore();
}

function arrowBox(f: Frame, n: Needle): Box {
  const [x, y] = [4 * f.ratio, n.up ? f.top : f.top + f.height - 8 * f.ratio];
  return { left: n.px - x, right: n.px + x, top: y, bottom: y + 8 * f.ratio };
}

/** The first place where a label lies over nothing: right, left, then the same a line further in. */
function labelBox(f: Frame, n: Needle, width: number, taken: Box[]): Box | undefined {
  const [gap, line] = [5 * f.ratio, 13 * f.ratio];
  for (const row of [0, 1])
    for (const left of [n.px + gap, n.px - gap - width]) {
      const top = n.up ? f.top + row * line : f.top + f.height - (row + 1) * line;
      const box = { left, right: left + width, top, bottom: top + line };
      const inside = left >= f.left && box.right <= f.left + f.width;
      if (inside && !taken.some((t) => meets(t, box))) return box;
    }
  return undefined;
}

function paintLabel(
  ctx: Context,
  f: Frame,
  n: Needle,
  text: string,
  taken: Box[],
  look: { text: string; card: string },
): boolean {
  const pad = 2 * f.ratio;
  const box = labelBox(f, n, ctx.measureText(text).width + 2 * pad, taken);
  if (!box) return false;
  taken.push(box);
  n.box = { left: Math.min(n.box!.left, box.left), right: Math.max(n.box!.right, box.right) };
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = look.card;
  ctx.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  ctx.globalAlpha = 1;
  ctx.fillStyle = look.text;
  ctx.fillText(text, box.left + pad, (box.top + box.bottom) / 2);
  if (meets(box, { ...arrowBox(f, n), left: f.left, right: f.left + f.width })) return true;
  // Further in, a bar in the line's colour tells whose label it is.
  ctx.fillStyle = n.line.own;
  const right = box.left < n.px;
  ctx.fillRect(right ? box.right - pad : box.left - pad / 2, box.top + pad, pad / 2, 9 * f.ratio);
  return true;
}

/** A triangle with its tip at (x, y); height > 0 points up. */
function triangle(ctx: Context, x: number, y: number, height: number, half: number): void {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + half, y + height);
  ctx.lineTo(x - half, y + height);
  ctx.closePath();
}

const order: MarkKind[] = ["nan", "posInf", "negInf", "low"];

/** The lane on the x axis: NaN ▽, +Inf △, −Inf ▼, ≤ 0 on a log scale ◇, in the text's colour, one where several would overlap. */
export function paintLane(ctx: Context, f: Frame, lines: Line[], text: string): void {
  ctx.save();
  ctx.strokeStyle = text;
  ctx.fillStyle = text;
  ctx.lineWidth = 1.1 * f.ratio;
  const base = f.top + f.height;
  const half = 3.6 * f.ratio;
  const height = 6.5 * f.ratio;
  for (const kind of order) {
    let last = -Infinity;
    for (const px of markPlaces(f, lines, kind)) {
      if (px - last < 4 * f.ratio) continue;
      last = px;
      if (kind === "low") diamond(ctx, px, base - 2 * f.ratio - height / 2, height / 2);
      else if (kind === "posInf") triangle(ctx, px, base - 2 * f.ratio - height, height, half);
      else triangle(ctx, px, base - 2 * f.ratio, -height, half);
      if (kind === "negInf") ctx.fill();
      ctx.stroke();
    }
  }
  ctx.restore();
}

function diamond(ctx: Context, x: number, y: number, half: number): void {
  ctx.beginPath();
  ctx.moveTo(x, y - half);
  ctx.lineTo(x + half, y);
  ctx.lineTo(x, y + half);
  ctx.lineTo(x - half, y);
  ctx.closePath();
}

/** What a line cannot show of itself; an earlier attempt says nothing. */
export function marksOf(line: Line): Mark[] {
  if (line.faded) return [];
  return line.low ? [...line.curve.marks, ...line.low.marks] : line.curve.marks;
}

function markPlaces(f: Frame, lines: Line[], kind: MarkKind): number[] {
  const places: number[] = [];
  for (const line of lines)
    for (const mark of marksOf(line))
      if (mark.kind === kind && mark.hi >= f.x0 && mark.lo <= f.x1)
        places.push(toX(f, mark.lo + (mark.hi - mark.lo) / 2));
  return places.sort((a, b) => a - b);
}

/** What no line shows, of all lines, for the card's head; more: the values at or below 0 may be more than these. */
export interface Specials extends Record<MarkKind, number> {
  more: boolean;
}

export function specials(lines: Line[]): Specials {
  const total: Specials = { nan: 0, posInf: 0, negInf: 0, low: 0, more: false };
  for (const line of lines) {
    if (line.faded) continue;
    total.nan += line.curve.nan;
    total.posInf += line.curve.posInf;
    total.negInf += line.curve.negInf;
    total.low += line.low?.count ?? 0;
    total.more ||= line.low?.more ?? false;
  }
  return total;
}

export function needleText(value: number, x: string): string {
  return x ? `${short(value)} @ ${x}` : short(value);
}
