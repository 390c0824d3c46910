import type { Curve } from "./curve.ts";
import type { Range } from "./range.ts";

export type Smoothing = { kind: "none" } | { kind: "ema"; weight: number } | { kind: "gauss"; width: number };

/** Buckets are what smoothing needs to know of a curve: it weighs each by its points, so that no width changes it. */
export type Buckets = Pick<Curve, "min" | "max" | "mean" | "count">;

/** Smooth is a smoothed line and how far it may be from one over the points. */
export interface Smooth {
  x: Float64Array;
  y: Float64Array;
  /** How far a bucket's hidden order can move the line, at most, in the unit of y. */
  doubt: number;
  /** The same as a part of y. */
  relative: number;
  /** Some bucket holds more than half of a half-life. */
  coarse: boolean;
}

const finer = 4; // times the buckets: a smoothed line is as exact as its buckets are small
const few = 4; // points of a bucket that are often in order
const fine = 16; // buckets of a Gaussian's standard deviation; more would only take time
const forgotten = 1e-9; // the weight from which on an EMA knows a point no more, also a spike of a million times the others

/** A curve smoothed over its points; lead is what lies before it and still has weight in an EMA. */
export function smooth(c: Curve, how: Smoothing, lead?: Buckets): Smooth | undefined {
  if (how.kind === "ema") return ema(c, how.weight, lead);
  if (how.kind === "gauss") return gauss(c, how.width);
  return undefined;
}

/** How many buckets to ask for where n are drawn. */
export function smoothed(n: number, how: Smoothing): number {
  return how.kind === "none" || (how.kind === "gauss" && how.width * n >= fine) ? n : n * finer;
}

/** How many points an EMA remembers. */
export function reach(weight: number): number {
  return Math.ceil(Math.log(forgotten) / Math.log(weight));
}

/** Memory is an EMA between two buckets; doubts of buckets are independent, so that their squares add up. */
interface Memory {
  sum: number;
  norm: number;
  doubt2: number;
}

/**
 * Exponential moving average over points, de-biased: a value stands for all points up to its bucket's end, and is drawn
 * there. A bucket of n points is a step of weight^n; places without a finite value stay empty and change nothing.
 */
function ema(c: Curve, weight: number, lead?: Buckets): Smooth {
  const memory: Memory = { sum: 0, norm: 0, doubt2: 0 };
  for (let i = 0; lead && i < lead.count.length; i++) step(memory, lead, i, weight);
  const y = new Float64Array(c.mean.length).fill(Number.NaN);
  const most = Math.log(0.5) / Math.log(weight) / 2;
  let [doubt, relative, coarse] = [0, 0, false];
  for (let i = 0; i < y.length; i++) {
    if (!step(memory, c, i, weight)) continue;
    y[i] = memory.sum / memory.norm;
    const by = Math.sqrt(memory.doubt2) / memory.norm;
    doubt = Math.max(doubt, by);
    if (by > 0) relative = Math.max(relative, by / Math.abs(y[i]!));
    coarse ||= c.count[i]! > Math.max(1, most);
  }
  return { x: c.hi, y, doubt, relative, coarse };
}

function step(memory: Memory, b: Buckets, i: number, weight: number): boolean {
  const n = b.count[i]!;
  if (!(n > 0) || !Number.isFinite(b.mean[i])) return false;
  const keep = weight ** n;
  memory.sum = keep * memory.sum + (1 - keep) * b.mean[i]!;
  memory.norm = keep * memory.norm + (1 - keep);
  memory.doubt2 = keep * keep * memory.doubt2 + doubtOf(b, i, weight) ** 2;
  return true;
}

/**
 * What the order of points in a bucket, which is not known, may change: the weights of its first and last point differ.
 */
function doubtOf(b: Buckets, i: number, weight: number): number {
  const n = b.count[i]!;
  return n < 2 ? 0 : (((1 - weight) * (1 - weight ** (n - 1))) / 2) * unplaced(b, i);
}

/**
 * The part of a bucket's sum that may be anywhere in it: its furthest point, or what parts its mean from its neighbours'.
 * A few points may well rise from the least to the greatest.
 */
function unplaced(b: Buckets, i: number): number {
  const n = b.count[i]!;
  if (!(n > 1)) return 0;
  const m = b.mean[i]!;
  const spike = (Math.max(b.max[i]! - m, m - b.min[i]!) * n) / (n - 1);
  const rising = n > few ? 0 : ((b.max[i]! - b.min[i]!) * n * (n + 1)) / (6 * (n - 1));
  return Math.max(spike, rising, (n * Math.max(jumpTo(b, i, i - 1), jumpTo(b, i, i + 1))) / 2);
}

function jumpTo(b: Buckets, i: number, other: number): number {
  const by = Math.abs(b.mean[i]! - (b.mean[other] ?? Number.NaN));
  return Number.isFinite(by) ? by : 0;
}

/** Whether a smoothed line of these may be more than 1 % of the visible range away from one over the points. */
export function coarser(lines: { smooth?: Smooth }[], y: Range, log: boolean): boolean {
  const range = log ? Math.log(y.max / y.min) : y.max - y.min;
  return lines.some(({ smooth: s }) => s && (s.coarse || (log ? s.relative : s.doubt) > 0.01 * range));
}

const bell = 4; // standard deviations on each side

/**
 * Gaussian over x with a standard deviation of width × the drawn span, over points and renormalised where the window
 * leaves the curve. Where in its bucket a point lies is not known, and shifts its weight.
 */
function gauss(c: Curve, width: number): Smooth {
  const { x, mean, count } = c;
  const y = new Float64Array(mean.length).fill(Number.NaN);
  const sigma = x.length ? width * (c.hi[x.length - 1]! - c.lo[0]!) : 0;
  if (!(sigma > 0)) return { x, y: mean, doubt: 0, relative: 0, coarse: false };
  const half = x.map((at, i) => (c.hi[i]! - at) / sigma);
  const loose = mean.map((_, i) => unplaced(c, i));
  let [doubt, relative, first] = [0, 0, 0];
  for (let i = 0; i < mean.length; i++) {
    if (!Number.isFinite(mean[i])) continue;
    while (x[i]! - x[first]! > bell * sigma) first++;
    let [sum, norm, doubt2] = [0, 0, 0];
    for (let j = first; j < mean.length && x[j]! - x[i]! <= bell * sigma; j++) {
      if (!Number.isFinite(mean[j])) continue;
      const d = Math.abs(x[j]! - x[i]!) / sigma;
      const w = Math.exp(-0.5 * d * d);
      sum += count[j]! * w * mean[j]!;
      norm += count[j]! * w;
      const near = d + half[j]!;
      doubt2 += (w * (near > bell ? 1 : half[j]! * near) * loose[j]!) ** 2;
    }
    y[i] = sum / norm;
    const by = Math.sqrt(doubt2) / norm;
    doubt = Math.max(doubt, by);
    if (by > 0) relative = Math.max(relative, by / Math.abs(y[i]!));
  }
  return { x, y, doubt, relative, coarse: half.some((h, i) => count[i]! > 1 && h > 0.25) };
}
