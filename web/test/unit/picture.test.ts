/**
 * Random cards, drawn by the page's own functions from the buckets of a plain scan, against what a naive program computes
 * from the points. PICTURES is how many (500), SEED where they begin (1: a change is judged by the same cards).
 */
import { describe, expect, test } from "vitest";
import type { BucketColumns } from "../../src/api/types.ts";
import { axisFor, storedRange, unitOf, type XAxis } from "../../src/chart/axis.ts";
import { darkPalette, lightPalette, slots } from "../../src/chart/color.ts";
import { type Curve, curveOf, extent } from "../../src/chart/curve.ts";
import { type Layer, layersOf, type Statistic, statistics } from "../../src/chart/layer.ts";
import { justBefore, leadOf } from "../../src/chart/lead.ts";
import { type Context, type Frame, type Line, laneHeight, noFront, specials } from "../../src/chart/paint.ts";
import { type Range, rangeOf, resolution, withLane } from "../../src/chart/range.ts";
import { paintScene, type Scene } from "../../src/chart/scene.ts";
import { coarser, reach, type Smoothing, smoothed } from "../../src/chart/smooth.ts";
import { lineOf, styleOf } from "../../src/chart/style.ts";
import { Vector } from "../../src/chart/vector.ts";
import { buckets } from "../standin/bucket.ts";
import { random } from "../standin/data.ts";

const pictures = Number(process.env.PICTURES ?? 500);
const seed = Number(process.env.SEED ?? 1);
const startNs = 1_790_000_000e9;

interface Random {
  (): number;
  whole(from: number, to: number): number;
  pick<T>(of: readonly T[]): T;
  normal(): number;
}

function randomOf(from: number): Random {
  const r = random(from);
  return Object.assign(() => r(), {
    whole: (a: number, b: number) => a + Math.floor(r() * (b - a + 1)),
    pick: <T>(of: readonly T[]): T => of[Math.floor(r() * of.length)]!,
    normal: () => Math.sqrt(-2 * Math.log(1 - r())) * Math.cos(2 * Math.PI * r()),
  });
}

/** The points of one run, in the order of each axis. */
interface Run {
  createdNs: number;
  columns: { step: Float64Array; time_ns: Float64Array };
  value: Float64Array;
}

const trends: ((t: number) => number)[] = [
  () => 0,
  (t) => 6 * Math.exp(-5 * t),
  (t) => 4 * t,
  (t) => 2 * Math.sin(12 * t),
  (t) => (t < 0.6 ? 3 : 0),
];

function makeRun(r: Random, points: number, positive: boolean, huge: boolean): Run {
  const step = new Float64Array(points);
  const time = new Float64Array(points);
  const value = new Float64Array(points);
  const createdNs = startNs + r.whole(0, 1e6) * 1e9;
  const [pause, again, broken] = [r.pick([0, 0, 2 / points]), r.pick([0, 0.05]), r.pick([0, 0, 0.01, 0.1])];
  const [trend, noise, memory] = [r.pick(trends), r.pick([0, 0.01, 0.3, 1]), r.pick([0, 0, 0.9])];
  const every = r.pick([1, 1, 10]);
  const size = 10 ** r.whole(-6, 6);
  let [at, now, drift] = [r.whole(0, 100), createdNs + 5e9, 0];
  for (let i = 0; i < points; i++) {
    const stopped = r() < pause;
    at += every + (stopped ? r.whole(0, points) : 0);
    // Points of one moment share their time; a resumed run was away for long.
    if (r() >= again) now += 1e7 * r.whole(1, 200) + (stopped ? 1e9 * r.whole(1, points) : 0);
    drift = memory * drift + r.normal() * noise;
    const plain = trend(i / points) + drift;
    step[i] = at;
    time[i] = now;
    value[i] = size * (positive ? Math.exp(plain / 2) : plain);
    const odd = [Number.NaN, Number.NaN, Infinity, -Infinity];
    if (r() < broken) value[i] = r.pick(positive ? [...odd, -size, 0] : odd);
  }
  for (let k = r.pick([0, 1, 1, 2, 4]); k > 0 && points > 60; k--)
    value[r.whole(0, points - 1)] = size * r.pick([1, 1, -1]) * 10 ** (1.2 + 3 * r()) * (huge ? 1e140 : 1);
  return { createdNs, columns: { step, time_ns: time }, value };
}

/** What one operation left on the canvas. */
interface Mark {
  kind: "stroke" | "fill";
  color: unknown;
  alpha: number;
  width: number;
  /** Pieces of a path. */
  pieces: [number, number][][];
}

/** A canvas that keeps what is drawn on it. */
class Recorder implements Context {
  readonly marks: Mark[] = [];
  fillStyle: unknown = "";
  strokeStyle: unknown = "";
  font = "";
  globalAlpha = 1;
  lineJoin = "";
  lineWidth = 1;
  textAlign = "";
  textBaseline = "";
  #pieces: [number, number][][] = [];
  beginPath() {
    this.#pieces = [];
  }
  moveTo(x: number, y: number) {
    this.#pieces.push([[x, y]]);
  }
  lineTo(x: number, y: number) {
    this.#pieces.at(-1)!.push([x, y]);
  }
  closePath() {
    this.#pieces.at(-1)!.push(this.#pieces.at(-1)![0]!);
  }
  arc(x: number, y: number, r: number) {
    this.#pieces.at(-1)!.push([x - r, y], [x, y - r], [x, y + r]);
  }
  rect() {}
  clip() {}
  save() {}
  restore() {}
  setLineDash() {}
  fillText() {}
  /** As wide as in a saved picture: a label that fits in one and not in the other moves. */
  measureText(text: string) {
    return { width: text.length * 6.2 } as TextMetrics;
  }
  stroke() {
    this.#keep("stroke", this.strokeStyle, this.#pieces);
  }
  fill() {
    this.#keep("fill", this.fillStyle, this.#pieces);
  }
  fillRect(x: number, y: number, w: number, h: number) {
    this.#keep("fill", this.fillStyle, [
      [
        [x, y],
        [x + w, y],
        [x + w, y + h],
        [x, y + h],
        [x, y],
      ],
    ]);
  }
  #keep(kind: Mark["kind"], color: unknown, pieces: [number, number][][]) {
    this.marks.push({ kind, color, alpha: this.globalAlpha, width: this.lineWidth, pieces });
  }
}

/** Whether a mark covers (x ± dx, y ± dy): a line by its way through these columns, an area by what is between its edges. */
function covers(mark: Mark, x: number, dx: number, y: number, dy: number): boolean {
  for (const piece of mark.pieces) {
    let [low, high] = [Infinity, -Infinity];
    for (let k = 0; k < piece.length; k++) {
      const [ax, ay] = piece[k]!;
      const [bx, by] = piece[Math.min(k + 1, piece.length - 1)]!;
      if (Math.max(ax, bx) < x - dx || Math.min(ax, bx) > x + dx) continue;
      // The part of this edge that lies in the columns.
      const part = (px: number) => (ax === bx ? ay : ay + ((by - ay) * (px - ax)) / (bx - ax));
      const [from, to] = [Math.max(Math.min(ax, bx), x - dx), Math.min(Math.max(ax, bx), x + dx)];
      const ys = ax === bx ? [ay, by] : [part(from), part(to)];
      const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
      if (mark.kind === "stroke" && top - dy <= y && y <= bottom + dy) return true;
      low = Math.min(low, top);
      high = Math.max(high, bottom);
    }
    if (mark.kind === "fill" && low - dy <= y && y <= high + dy) return true;
  }
  return false;
}

/** WCAG's contrast of two colours like #3666d5. */
function contrast(a: string, b: string): number {
  const light = (c: string) => {
    const [r, g, bl] = [1, 3, 5].map((i) => {
      const v = Number.parseInt(c.slice(i, i + 2), 16) / 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * bl! + 0.05;
  };
  return Math.max(light(a), light(b)) / Math.min(light(a), light(b));
}

/** A card as the page would draw it. */
interface Card {
  runs: Run[];
  axis: XAxis;
  zoom: [number, number] | null;
  smoothing: Smoothing;
  log: boolean;
  full: boolean;
  dark: boolean;
  front: number;
  /** The runs are in so many groups; 0 is none. */
  groups: number;
  statistic: Statistic;
  dense: boolean;
  width: number;
  height: number;
  ratio: number;
}

function groupsOf(r: Random, many: number): Pick<Card, "groups" | "statistic" | "dense"> {
  const groups = many > 2 ? r.pick([0, 0, 1, 2, 5]) : 0;
  return { groups, statistic: r.pick(statistics)[0], dense: many > slots && r() < 0.6 };
}

/** Makes runs such as those of a sweep, which log the same steps, and values of one size. */
function align(runs: Run[]): void {
  const n = Math.min(...runs.map((run) => run.value.length));
  const { columns, createdNs } = runs[0]!;
  for (const run of runs) {
    const size = Math.max(...run.value.filter(Number.isFinite).map(Math.abs)) || 1;
    run.createdNs = createdNs;
    run.columns = { step: columns.step.slice(0, n), time_ns: columns.time_ns.slice(0, n) };
    run.value = run.value.slice(0, n).map((v) => v / size);
  }
}

function makeCard(r: Random): Card {
  const many = r.pick([1, 1, 2, r.whole(3, 8), r.whole(9, 24), r.whole(25, 60), r.whole(61, 200)]);
  const log = r() < 0.25;
  const points = Math.ceil(10 ** (0.5 + 3.3 * r()) / (many > 24 ? 6 : many > 2 ? 3 : 1));
  const huge = r() < 0.05;
  const make = () => makeRun(r, Math.max(1, r.whole(points >> 1, points)), log, huge);
  const runs = Array.from({ length: many }, make);
  const axis = axisFor(["step"], r.pick(["step", "wall", "relative"]));
  const from = r();
  const whole = ends(runs, axis);
  const zoom: [number, number] | null =
    r() < 0.4 && whole[1] > whole[0]
      ? [
          whole[0] + from * (whole[1] - whole[0]),
          whole[0] + (from + (1 - from) * r()) * (whole[1] - whole[0]),
        ]
      : null;
  // An EMA forgets a point at a billionth of its weight; of 1e140 that would still be seen.
  const none = { kind: "none" } as const;
  const smoothing: Smoothing = r.pick([
    none,
    { kind: "ema", weight: r.pick([0.6, 0.9, 0.97, 0.99, 0.999]) },
    { kind: "gauss", width: r.pick([0.01, 0.03, 0.1]) },
  ] as const);
  const card = {
    ...{ runs, axis, zoom, smoothing: huge ? none : smoothing, log, full: r() < 0.2, dark: r() < 0.5 },
    ...{ front: r() < 0.3 ? r.whole(0, many - 1) : -1, ratio: r.pick([1, 2]) },
    ...{ width: r.whole(60, 1300), height: r.whole(80, 600) },
    ...groupsOf(r, many),
  };
  if (r() < 0.5 && card.groups && !log) align(runs);
  return card;
}

/** The drawn x of a point, by the definition of the axes. */
function placeOf(run: Run, axis: XAxis, i: number): number {
  if (axis.kind === "number") return run.columns.step[i]!;
  return (run.columns.time_ns[i]! - (axis.kind === "relative" ? run.createdNs : 0)) / 1e9;
}

function ends(runs: Run[], axis: XAxis): [number, number] {
  const all = runs.flatMap((run) => [placeOf(run, axis, 0), placeOf(run, axis, run.value.length - 1)]);
  return [Math.min(...all), Math.max(...all)];
}

interface Drawn {
  lines: Line[];
  layers: readonly Layer[];
  x: [number, number];
  y: Range;
  frame: Frame;
  marks: Mark[];
  scene: Scene;
  /** Pixels of one bucket. */
  bucket: number;
}

/** Asks, projects, styles and paints as the page does. */
async function draw(card: Card): Promise<Drawn> {
  const { runs, axis, zoom, smoothing, log } = card;
  const n = smoothed(resolution(card.width, runs.length), smoothing);
  const palette = card.dark ? darkPalette : lightPalette;
  const lines: Line[] = [];
  for (const [i, run] of runs.entries()) {
    const { columns, value } = run;
    const spec = { metric: "m", scale: "ML_STEP", labels: {}, axes: ["step"], attempt: 1 };
    const curve = { ...spec, columns: { ...columns }, value };
    const unit = unitOf(axis, run.createdNs);
    const range = zoom && storedRange(zoom, unit);
    const asked = (part: { from?: number; to?: number }, many: number): BucketColumns =>
      buckets(curve, axis.name, many, part.from, part.to) as BucketColumns;
    const lead =
      range && smoothing.kind === "ema"
        ? await leadOf(
            async (part) => asked(part, Math.min(n, 512)),
            justBefore(range.from),
            Math.min(n, 512),
            reach(smoothing.weight),
          )
        : undefined;
    const found: Curve = curveOf(asked(range ?? {}, n), unit);
    if (found.lo.length === 0) continue;
    const group = card.groups
      ? { key: String(i % card.groups), color: lightPalette.text, slot: 0 }
      : undefined;
    const place = {
      lines: runs.length,
      runs: runs.length,
      slot: i,
      set: 0,
      sets: 1,
      ...(group && { group }),
    };
    const style = styleOf(place, palette, card.dark);
    if (!group && contrast(style.own, palette.card) < 3)
      throw new Error(`run ${i}: ${style.own} is too faint`);
    // Each line gets a colour that no other has, so that its marks are known.
    const known = { ...style, color: `line ${i}`, own: `own ${i}` };
    const how = {
      ...{ id: String(i), faded: false, lines: runs.length, smoothing, lead, log, dense: card.dense },
      ...(group && { group: group.key }),
    };
    lines.push(lineOf(found, known, how));
  }
  const curves = lines.map((l) => l.curve);
  const whole = extent(curves) ?? [0, 1];
  const x = zoom ?? (whole[0] === whole[1] ? [whole[0] - 0.5, whole[1] + 0.5] : whole);
  const y = rangeOf(curves, x[0], x[1], card.full, log);
  const s = specials(lines);
  const lane = s.nan + s.posInf + s.negInf + s.low > 0 ? laneHeight : 0;
  const scaled = log ? [Math.log10(y.min), Math.log10(y.max)] : [y.min, y.max];
  const [y0, y1] = withLane(scaled[0]!, scaled[1]!, lane, card.height);
  const { ratio } = card;
  const size = { width: card.width * ratio, height: card.height * ratio };
  const frame: Frame = { left: 40 * ratio, top: 6 * ratio, ...size, x0: x[0], x1: x[1], y0, y1, log, ratio };
  const dim = runs.length > slots || card.groups > 0;
  const front = card.front < 0 ? noFront : { lines: new Set([String(card.front)]), dim };
  const parts = Array.from({ length: card.groups || (card.dense ? 1 : 0) }, (_, k) => ({
    ...{ key: String(k), label: String(k), color: `layer ${k}`, dash: [] },
    lines: card.groups ? lines.filter((l) => l.group === String(k)) : lines,
  }));
  const layers = layersOf(parts, x, card.statistic);
  const scene = {
    ...{ lines, layers, density: card.dense, axis, x, y, log, palette, front },
    ...{ version: "", needleLabel: () => "1", endLabel: () => "run" },
  };
  const canvas = new Recorder();
  paintScene(canvas, frame, scene);
  return { lines, layers, x, y, frame, marks: canvas.marks, scene, bucket: (size.width / n) * 1.001 };
}

/** The points of a run in view, by a scan. */
function inView(run: Run, axis: XAxis, x: [number, number]): { at: number; value: number }[] {
  const out: { at: number; value: number }[] = [];
  for (let i = 0; i < run.value.length; i++) {
    const at = placeOf(run, axis, i);
    // A double holds nanoseconds since 1970 to 256.
    const slack = axis.kind === "number" ? 0 : 1e-6;
    if (at >= x[0] - slack && at <= x[1] + slack) out.push({ at, value: run.value[i]! });
  }
  return out;
}

const sorted = (values: number[]) => values.slice().sort((a, b) => a - b);

const quantile = (values: number[]) => {
  const s = sorted(values);
  return (share: number) => s[Math.floor(share * (s.length - 1))]!;
};

/**
 * Values more than three times q90 − q10 away from the median; or that far, by the spread about these, beyond the medians
 * of the points before and after, and by more than the whole spread.
 */
function excursions(points: { at: number; value: number }[]): { at: number; value: number }[] {
  const finite = points.filter((p) => Number.isFinite(p.value));
  if (finite.length < 20) return [];
  const values = finite.map((p) => p.value);
  const half = Math.max(5, Math.min(20, Math.floor(values.length / 50)));
  const trends = values.map((v, i): [number, number] => {
    if (i < half || i + half >= values.length) return [v, v];
    return [values.slice(i - half, i), values.slice(i + 1, i + half + 1)].map((v) =>
      quantile(v)(0.5),
    ) as never;
  });
  const [q, about] = [
    quantile(values),
    quantile(values.map((v, i) => v - (trends[i]![0] + trends[i]![1]) / 2)),
  ];
  const [span, spanAbout] = [q(0.9) - q(0.1), about(0.9) - about(0.1)];
  const told = values.length >= 100; // of fewer points a trend is a guess
  return finite.filter((_, i) => {
    const [v, trend] = [values[i]!, trends[i]!];
    const beyond = Math.max(v - Math.max(...trend), Math.min(...trend) - v);
    return Math.abs(v - q(0.5)) > 3 * span || (told && beyond > 3 * spanAbout && beyond > span);
  });
}

/** Where a naive program puts a point. */
function pixel(d: Drawn, at: number, value: number): { px: number; py: number } {
  const { frame: f, x, y } = d;
  const lane = f.y0 < (f.log ? Math.log10(y.min) : y.min) ? laneHeight * f.ratio : 0;
  const [low, high] = f.log ? [Math.log10(y.min), Math.log10(y.max)] : [y.min, y.max];
  const part = ((f.log ? Math.log10(value) : value) - low) / (high - low);
  return {
    px: f.left + (f.width * (at - x[0])) / (x[1] - x[0]),
    py: f.top + (f.height - lane) * (1 - part),
  };
}

/** The value of an EMA over points at every point, by its definition. */
function emaOf(run: Run, axis: XAxis, weight: number): { at: number; value: number }[] {
  let [sum, norm] = [0, 0];
  const out: { at: number; value: number }[] = [];
  run.value.forEach((v, i) => {
    if (!Number.isFinite(v)) return;
    sum = weight * sum + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    out.push({ at: placeOf(run, axis, i), value: sum / norm });
  });
  return out;
}

/** The normalised sum under a Gauss bell of so many spans of x. */
function gaussOf(points: { at: number; value: number }[], width: number, at: number): number {
  const finite = points.filter((p) => Number.isFinite(p.value));
  const sigma = width * (points.at(-1)!.at - points[0]!.at);
  if (sigma === 0) return finite.reduce((all, p) => all + p.value, 0) / finite.length;
  let [sum, norm] = [0, 0];
  for (const p of finite) {
    if (Math.abs(p.at - at) > 4 * sigma) continue;
    const w = Math.exp(-((p.at - at) ** 2) / (2 * sigma ** 2));
    sum += w * p.value;
    norm += w;
  }
  return sum / norm;
}

/** What is wrong with a picture; "" when nothing is. */
function faultOf(card: Card, d: Drawn, r: Random): string {
  const { frame: f } = d;
  for (const m of d.marks)
    for (const [px, py] of m.pieces.flat())
      if (!(Math.abs(px) < 1e7 && Math.abs(py) < 3e5)) return `a mark at ${px}, ${py}`;
  const lane = (low: number, high: number) =>
    d.marks.some(
      (m) =>
        m.color === d.scene.palette.text &&
        m.pieces.some(
          (p) => p[0]![0] >= low && p[0]![0] <= high && p[0]![1] > f.top + f.height - 12 * f.ratio,
        ),
    );
  const want = { nan: 0, posInf: 0, negInf: 0, low: 0 };
  for (const line of d.lines) {
    const i = Number(line.id);
    const points = inView(card.runs[i]!, card.axis, d.x);
    const own = d.marks.filter((m) => m.color === line.own || m.color === line.color);
    const near = d.bucket + 1.5 * f.ratio;
    for (const p of points) {
      const odd = !Number.isFinite(p.value) || (card.log && p.value <= 0);
      if (!odd) continue;
      if (Number.isNaN(p.value)) want.nan++;
      else if (p.value === Infinity) want.posInf++;
      else if (p.value === -Infinity) want.negInf++;
      else want.low++;
      const { px } = pixel(d, p.at, 1);
      const reachPx = near + 5 * f.ratio;
      if (!lane(px - reachPx, px + reachPx))
        return `line ${i}: no mark in the lane for ${p.value} at ${p.at}`;
    }
    const drawable = points.filter((p) => Number.isFinite(p.value) && (!card.log || p.value > 0));
    if (!d.y.clipped)
      for (const p of drawable) {
        if (p.value >= d.y.min && p.value <= d.y.max) continue;
        // A bucket tells its least value: with one at or below 0 it goes to the bottom of a log scale.
        const beside = (o: { at: number }) =>
          Math.abs(pixel(d, o.at, 1).px - pixel(d, p.at, 1).px) <= d.bucket;
        if (card.log && p.value < d.y.min && points.some((o) => o.value <= 0 && beside(o))) continue;
        return `line ${i}: ${p.value} is out of the range`;
      }
    const few = card.runs.length <= slots && !card.groups;
    for (let k = 0; few && k < 25 && drawable.length; k++) {
      const p = r.pick(drawable);
      const { px, py } = pixel(d, p.at, p.value);
      if (py < f.top || py > f.top + f.height) continue;
      if (!own.some((m) => covers(m, px, near, py, 1.5 * f.ratio)))
        return `line ${i}: nothing drawn at ${p.at}, ${p.value} (${px}, ${py})`;
    }
    const strong = card.front < 0 || few || i === card.front ? 1 : 1 / 3;
    const solid = own.filter((m) => m.color === line.own && m.kind === "fill" && m.alpha >= strong - 1e-9);
    const middle = drawable.length ? quantile(drawable.map((p) => p.value))(0.5) : 0;
    for (const p of excursions(points).filter((e) => !card.log || e.value > 0)) {
      const { px, py } = pixel(d, p.at, p.value);
      // Less than a pixel from the median nobody sees it, as where a step of 1e-3 is a tenth of the points.
      if (Math.abs(py - pixel(d, p.at, middle).py) < f.ratio) continue;
      const inside = Math.max(f.top, Math.min(f.top + f.height, py));
      if (!solid.some((m) => covers(m, px, near, inside, 2 * f.ratio)))
        return `line ${i}: the excursion ${p.value} at ${p.at} is not seen`;
    }
    if (
      i === card.front &&
      !own.some((m) => m.color === line.own && m.width === 2 * f.ratio && m.alpha === 1)
    )
      if (own.some((m) => m.kind === "stroke" && m.pieces.length > 0)) return `line ${i}: is not in front`;
  }
  const s = specials(d.lines);
  for (const kind of ["nan", "posInf", "negInf"] as const)
    if (s[kind] !== want[kind]) return `${s[kind]} ${kind} of ${want[kind]}`;
  if (s.more ? s.low > want.low : s.low !== want.low) return `${s.low} values ≤ 0 of ${want.low}`;
  return smoothFault(card, d) || densityFault(card, d, r) || layerFault(card, d, r);
}

/** Whether a density covers where its lines are. */
function densityFault(card: Card, d: Drawn, r: Random): string {
  if (!card.dense || card.smoothing.kind !== "none" || d.lines.length === 0) return "";
  const { frame: f } = d;
  const cells = d.marks.filter(
    (m) => m.kind === "fill" && m.color === d.scene.palette.crowd && m.alpha >= 0.02,
  );
  for (let k = 0; k < 20; k++) {
    const line = r.pick(d.lines);
    const { lo, hi } = line.curve;
    const i = r.whole(0, lo.length - 1);
    const inside = inView(card.runs[Number(line.id)]!, card.axis, [lo[i]! - 1e-6, hi[i]! + 1e-6]);
    const values = inside.map((p) => p.value).filter(Number.isFinite);
    const mean = values.reduce((all, v) => all + v / values.length, 0);
    if (values.length === 0 || (card.log && mean <= 0)) continue;
    const { px, py } = pixel(d, (lo[i]! + hi[i]!) / 2, mean);
    const seen = px > f.left && px < f.left + f.width && py > f.top && py < f.top + f.height;
    if (seen && !cells.some((m) => covers(m, px, 3 * f.ratio, py, 3 * f.ratio)))
      return `line ${line.id}: no density at ${px}, ${py}`;
  }
  return "";
}

/** The least and the most that a member may have about a stretch of x; null where one cannot tell whether it has a value. */
function boundsOf(
  run: Run,
  axis: XAxis,
  x: [number, number],
  [from, to]: [number, number],
  near: number,
): [number, number] | "none" | null {
  const slack = near + (axis.kind === "number" ? 0 : 1e-6);
  const points = inView(run, axis, x);
  if (points.length === 0) return "none";
  // Of buckets that all members have, the cell is one: only its own finite points count.
  if (near === 0) {
    const inside = points.filter((p) => p.at >= from - slack && p.at <= to + slack).map((p) => p.value);
    const finite = inside.filter(Number.isFinite);
    return finite.length ? [Math.min(...finite), Math.max(...finite)] : "none";
  }
  const [first, last] = [points[0]!.at, points.at(-1)!.at];
  if (first > to + slack || last < from - slack) return "none";
  if (first > from - slack || last < to + slack) return null;
  // Where nothing was logged, what the line shows there: the buckets before and after it.
  const before = points.findLast((p) => p.at < from - slack)!.at;
  const after = points.find((p) => p.at > to + slack)!.at;
  const about = points.filter((p) => p.at >= before - slack && p.at <= after + slack).map((p) => p.value);
  // Of a bucket that holds both, only the finite ones are in its mean.
  return about.every(Number.isFinite) ? [Math.min(...about), Math.max(...about)] : null;
}

/** What a statistic is, by its definition: of the line, and where that grows with every value, of the edges. */
function naive(statistic: Statistic, values: number[]): [number, number?, number?] {
  const s = sorted(values);
  const q = (share: number) => {
    const at = share * (s.length - 1);
    const [low, high] = [s[Math.floor(at)]!, s[Math.ceil(at)]!];
    return low + (high - low) * (at - Math.floor(at));
  };
  const mean = (v: number[]) => v.reduce((all, x) => all + x / v.length, 0);
  const cut = Math.floor(s.length / 4);
  if (statistic === "iqr") return [q(0.5), q(0.25), q(0.75)];
  if (statistic === "deciles") return [q(0.5), q(0.1), q(0.9)];
  if (statistic === "range") return [mean(s), s[0]!, s.at(-1)!];
  return statistic === "iqm" ? [mean(s.slice(cut, s.length - cut))] : [mean(s)];
}

/**
 * Whether the line and the band of every group lie where they may: each of these statistics grows with every member's
 * value, so that the least and the most that members have about a place bound it.
 */
function layerFault(card: Card, d: Drawn, r: Random): string {
  if (card.smoothing.kind !== "none") return "";
  const { frame: f } = d;
  const bucketsOf = (l: Line) => `${l.curve.lo} ${l.curve.hi}`;
  const shared = new Set(d.lines.map(bucketsOf)).size === 1;
  for (const layer of d.layers) {
    const members = card.groups
      ? card.runs.filter((_, i) => i % card.groups === Number(layer.key))
      : card.runs;
    const own = d.marks.filter((m) => m.color === layer.color);
    if (layer.members !== members.length && !card.zoom) return `group ${layer.key}: ${layer.members} members`;
    for (let k = 0; k < 8; k++) {
      const i = r.whole(0, layer.x.length - 1);
      const cell: [number, number] = [layer.lo[i]!, layer.hi[i]!];
      const near = shared ? 0 : (d.bucket / f.width) * (d.x[1] - d.x[0]);
      const all = members.map((run) => boundsOf(run, card.axis, d.x, cell, near));
      if (all.includes(null)) continue;
      const bounds = all.filter((b) => b !== "none") as [number, number][];
      if (layer.n[i] !== bounds.length) return `group ${layer.key}: N is ${layer.n[i]} of ${bounds.length}`;
      if (bounds.length === 0) continue;
      const low = naive(
        card.statistic,
        bounds.map((b) => b[0]),
      );
      const high = naive(
        card.statistic,
        bounds.map((b) => b[1]),
      );
      const [least, most] = [low, high].map((b) =>
        pixel(d, layer.x[i]!, Math.max(card.log ? 1e-300 : -Infinity, b[0])),
      );
      const { px } = most!;
      if (px < f.left || px > f.left + f.width || (card.log && low[0] <= 0)) continue;
      // What lies far beyond the frame is drawn somewhere out there.
      const far = (y: number) => Math.max(-9e4, Math.min(9e4, y));
      const [top, bottom] = [far(most!.py), far(least!.py)];
      const stroke = own.find((m) => m.kind === "stroke" && m.width === 2 * f.ratio);
      const there = stroke?.pieces
        .flat()
        .some(([x, y]) => Math.abs(x - px) < 0.01 + 1e-9 * px && far(y) >= top - 1 && far(y) <= bottom + 1);
      if (!there && top < 8e4 && bottom > -8e4)
        return `group ${layer.key}: its line is not at ${layer.x[i]}, ${low[0]} to ${high[0]}`;
      if (low[2] === undefined || (card.log && high[1]! <= 0)) continue;
      // All between the highest lower edge and the lowest upper one is in the band, and nothing beyond the others.
      const band = (value: number, dy: number) => {
        const { py } = pixel(d, layer.x[i]!, value);
        const fills = own.filter((m) => m.kind === "fill");
        return Math.abs(py) < 8e4 ? fills.some((m) => covers(m, px, 0.01, py, dy)) : undefined;
      };
      if (high[1]! < low[2] && [high[1]!, low[2]].some((v) => band(v, 1.5) === false))
        return `group ${layer.key}: no band at ${layer.x[i]}, ${high[1]} to ${low[2]}`;
      const pixels = (d.y.max - d.y.min) / f.height;
      const beyond = card.log
        ? [low[1]! / 1.2, high[2]! * 1.2]
        : [low[1]! - 4 * pixels, high[2]! + 4 * pixels];
      const clear = (v: number) =>
        pixel(d, layer.x[i]!, v).py - pixel(d, layer.x[i]!, v === beyond[0] ? low[1]! : high[2]!).py;
      // Where two cells share a pixel, the band is a slope.
      const apart = [i - 1, i + 1].every(
        (k) => !(Math.abs(pixel(d, layer.x[k] ?? Number.NaN, 1).px - px) < 2),
      );
      if (apart && beyond.some((v) => Math.abs(clear(v)) > 3 * f.ratio && (!card.log || v > 0) && band(v, 0)))
        return `group ${layer.key}: a band beyond ${low[1]} to ${high[2]} at ${layer.x[i]}`;
    }
  }
  return "";
}

/** Whether each smoothed value that is drawn lies within 1 % of the range of one over the points. */
function smoothFault(card: Card, d: Drawn): string {
  const { smoothing, axis } = card;
  if (smoothing.kind === "none" || coarser(d.lines, d.y, card.log)) return "";
  const most = 0.01 * d.frame.height + 0.01;
  for (const line of d.lines) {
    const run = card.runs[Number(line.id)]!;
    const points = inView(run, axis, d.x);
    const ema = smoothing.kind === "ema" ? emaOf(run, axis, smoothing.weight) : [];
    let k = -1;
    const drawn = d.marks
      .filter((m) => m.kind === "stroke" && (m.color === line.color || m.color === line.own))
      .at(-1);
    for (const [px, py] of drawn?.pieces.flat() ?? []) {
      const at = d.x[0] + ((px - d.frame.left) / d.frame.width) * (d.x[1] - d.x[0]);
      const slack = 1e-9 * (d.x[1] - d.x[0]) + (axis.kind === "number" ? 0 : 1e-6);
      while (k + 1 < ema.length && ema[k + 1]!.at <= at + slack) k++;
      const value = smoothing.kind === "ema" ? ema[k]!.value : gaussOf(points, smoothing.width, at);
      const want = pixel(d, at, value);
      if (Math.abs(want.py) > 5e4) continue;
      // Beyond the frame nobody sees it: there 1 % of how far it is.
      const share = Math.max(1, Math.abs(want.py / d.frame.height - 0.5) * 2);
      if (!(Math.abs(want.py - py) <= most * share))
        return `line ${line.id}: smoothed ${py} px at ${at}, by the points ${want.py}; 1 % is ${most}`;
    }
  }
  return "";
}

describe("pictures", () => {
  test(`${pictures} random cards from seed ${seed} show what their points say`, async () => {
    const faults: string[] = [];
    const seen = { smooth: 0, exact: 0, excursions: 0, low: 0, layers: 0, dense: 0 };
    for (let i = 0; i < pictures && faults.length < 12; i++) {
      const r = randomOf(seed + i);
      const card = makeCard(r);
      const d = await draw(card);
      const fault = faultOf(card, d, r);
      const { kind } = card.smoothing;
      const what = `${card.runs.length} runs, ${card.width} px, ${card.axis.key}, ${kind}${card.groups ? `, ${card.groups} groups (${card.statistic})` : ""}${card.dense ? ", density" : ""}${card.log ? ", log" : ""}${card.zoom ? ", zoomed" : ""}`;
      if (fault) faults.push(`PICTURES=1 SEED=${seed + i}: ${what}: ${fault}`);
      if (kind !== "none") seen.smooth++;
      if (kind !== "none" && !coarser(d.lines, d.y, card.log)) seen.exact++;
      seen.excursions += d.lines.reduce((n, l) => n + l.stems.length, 0);
      seen.low += specials(d.lines).low;
      seen.layers += d.layers.length;
      if (card.dense) seen.dense++;
    }
    expect(faults).toEqual([]);
    // The cards are ones that say something.
    if (pictures >= 100) for (const n of Object.values(seen)) expect(n).toBeGreaterThan(pictures / 10);
  }, 600_000);

  test.each([
    [23387, "a group's line far beyond the frame"],
    [24089, "a dip two buckets away from a value far out"],
  ])("card %d: %s", async (at) => {
    const r = randomOf(at);
    const card = makeCard(r);
    expect(faultOf(card, await draw(card), r)).toBe("");
  });

  test("a saved picture has what the canvas has", async () => {
    for (let i = 0; i < 20; i++) {
      const d = await draw(makeCard(randomOf(seed + i)));
      const file = new Vector();
      paintScene(file, d.frame, d.scene);
      const drawn = file.parts.filter((p) => /^<(path|rect)/.test(p));
      expect(drawn.length).toBe(d.marks.filter((m) => m.pieces.length > 0).length);
    }
  });
});
