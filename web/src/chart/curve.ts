import type { BucketColumns } from "../api/types.ts";

/** A curve is the buckets of one series in typed arrays, x in the unit of its axis; NaN where a bucket has no finite value. */
export interface Curve {
  lo: Float64Array;
  hi: Float64Array;
  /** Where the bucket is drawn: its middle. */
  x: Float64Array;
  min: Float64Array;
  max: Float64Array;
  mean: Float64Array;
  count: Float64Array;
  marks: Mark[];
  nan: number;
  posInf: number;
  negInf: number;
  /** Points in all buckets, those that are not finite too. */
  points: number;
  /** 1 for each bucket whose points are all of ancestors; absent when there is none. */
  inherited?: Uint8Array;
  /** Some bucket holds more than one value, so that there is a band to draw. */
  banded: boolean;
}

/** Values that no line can show; low is at or below 0 on a log scale. */
export type MarkKind = "nan" | "posInf" | "negInf" | "low";

/** A mark is the place of values that no line can show. */
export interface Mark {
  kind: MarkKind;
  lo: number;
  hi: number;
  count: number;
}

/** Low is what a log scale cannot show of a curve. */
export interface Low {
  count: number;
  /** There may be more: of a bucket on both sides of 0 only its min is known. */
  more: boolean;
  marks: Mark[];
}

export function lowOf(c: Curve): Low {
  const low: Low = { count: 0, more: false, marks: [] };
  for (let i = 0; i < c.count.length; i++) {
    if (!(c.min[i]! <= 0)) continue;
    const all = c.max[i]! <= 0;
    const count = all ? c.count[i]! : 1;
    low.count += count;
    low.more ||= !all && c.count[i]! > 2;
    low.marks.push({ kind: "low", lo: c.lo[i]!, hi: c.hi[i]!, count });
  }
  return low;
}

/** How stored x (int64) becomes drawn x: (v − origin) × factor. */
export interface Unit {
  origin: number;
  factor: number;
}

export const identity: Unit = { origin: 0, factor: 1 };

function column(values: readonly unknown[] | undefined, length: number, empty: number): Float64Array {
  const out = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const v = values?.[i] ?? empty;
    out[i] = typeof v === "number" ? v : Number(v);
  }
  return out;
}

function projected(values: readonly unknown[], unit: Unit): Float64Array {
  const out = column(values, values.length, 0);
  if (unit.origin === 0 && unit.factor === 1) return out;
  for (let i = 0; i < out.length; i++) out[i] = (out[i]! - unit.origin) * unit.factor;
  return out;
}

function middles(lo: Float64Array, hi: Float64Array): Float64Array {
  const out = new Float64Array(lo.length);
  for (let i = 0; i < lo.length; i++) out[i] = lo[i]! + (hi[i]! - lo[i]!) / 2;
  return out;
}

const made = new WeakMap<BucketColumns, { unit: Unit; curve: Curve }>();

/** The curve of an answer; the same answer in the same unit gives the same curve. */
export function curveOf(columns: BucketColumns, unit: Unit = identity): Curve {
  const known = made.get(columns);
  if (known && known.unit.origin === unit.origin && known.unit.factor === unit.factor) return known.curve;
  const curve = newCurve(columns, unit);
  made.set(columns, { unit, curve });
  return curve;
}

function newCurve(columns: BucketColumns, unit: Unit): Curve {
  const length = columns.lo.length;
  const lo = projected(columns.lo, unit);
  const hi = projected(columns.hi, unit);
  const count = column(columns.count, length, 0);
  const marks: Mark[] = [];
  const nan = mark(marks, "nan", columns.nan, lo, hi);
  const posInf = mark(marks, "posInf", columns.pos_inf, lo, hi);
  const negInf = mark(marks, "negInf", columns.neg_inf, lo, hi);
  let [points, banded] = [nan + posInf + negInf, false];
  for (const c of count) {
    points += c;
    banded ||= c > 1;
  }
  return {
    ...{ lo, hi, x: middles(lo, hi), count, marks, nan, posInf, negInf, points, banded },
    min: column(columns.min, length, Number.NaN),
    max: column(columns.max, length, Number.NaN),
    mean: column(columns.mean, length, Number.NaN),
    ...inheritedOf(columns, length),
  };
}

function inheritedOf(columns: BucketColumns, length: number): { inherited?: Uint8Array } {
  if (!columns.inherited) return {};
  const of = (values: readonly unknown[] | undefined, i: number) => Number(values?.[i] ?? 0);
  const inherited = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const all = [columns.count, columns.nan, columns.pos_inf, columns.neg_inf];
    const points = all.reduce((n, values) => n + of(values, i), 0);
    inherited[i] = of(columns.inherited, i) === points ? 1 : 0;
  }
  return { inherited };
}

/**
 * Where a fork goes on by itself: at its fork step where the axis tells it, else between the last bucket of its
 * ancestors and the next; undefined when that is not in sight.
 */
export function forkPlace(curve: Curve, step?: number): number | undefined {
  const { inherited, lo, hi } = curve;
  if (!inherited) return undefined;
  const last = inherited.lastIndexOf(1);
  if (last < 0 || last + 1 >= lo.length) return undefined;
  const [from, to] = [hi[last]!, lo[last + 1]!];
  return step !== undefined && step >= from && step <= to ? step : (from + to) / 2;
}

/** Adds the marks of one kind and says how many values they stand for. */
function mark(
  marks: Mark[],
  kind: MarkKind,
  counts: readonly unknown[] | undefined,
  lo: Float64Array,
  hi: Float64Array,
): number {
  let total = 0;
  for (let i = 0; counts && i < counts.length; i++) {
    const count = Number(counts[i]);
    if (count > 0) marks.push({ kind, lo: lo[i]!, hi: hi[i]!, count });
    total += count;
  }
  return total;
}

/** The first and last x of curves, or null when there is no bucket. */
export function extent(curves: Curve[]): [number, number] | null {
  let [first, last] = [Infinity, -Infinity];
  for (const c of curves) {
    if (c.lo.length === 0) continue;
    first = Math.min(first, c.lo[0]!);
    last = Math.max(last, c.hi[c.hi.length - 1]!);
  }
  return first <= last ? [first, last] : null;
}

/** The index of the bucket nearest to x, −1 when there is none. */
export function nearest(curve: Curve, x: number): number {
  const { lo, hi } = curve;
  if (lo.length === 0) return -1;
  let [a, b] = [0, lo.length - 1];
  while (a < b) {
    const middle = (a + b) >> 1;
    if (hi[middle]! < x) a = middle + 1;
    else b = middle;
  }
  if (a > 0 && x < lo[a]! && x - hi[a - 1]! < lo[a]! - x) return a - 1;
  return a;
}

/** Points a bucket, rounded: the N of "bucketed 1:N"; 1 when every point is its own bucket. */
export function ratio(curves: Curve[]): number {
  let most = 1;
  for (const c of curves) if (c.lo.length) most = Math.max(most, Math.round(c.points / c.lo.length));
  return most;
}

/** The last finite mean of a curve that holds single points; undefined when the last bucket is a summary of many. */
export function lastPoint(curve: Curve): number | undefined {
  const i = curve.lo.length - 1;
  if (i < 0) return undefined;
  return curve.count[i]! <= 1 && Number.isFinite(curve.mean[i]) ? curve.mean[i] : undefined;
}
