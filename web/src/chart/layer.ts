import type { Line } from "./paint.ts";
import {
  ascending,
  bootstrap,
  iqm,
  mean,
  median,
  quantile,
  resampling,
  type Sample,
  std,
  stderr,
  sum,
} from "./stat.ts";

/** What a group's line and band are. */
export type Statistic = "iqr" | "deciles" | "std" | "stderr" | "range" | "iqm";

export const statistics: [Statistic, string][] = [
  ["iqr", "median, 25–75 %"],
  ["deciles", "median, 10–90 %"],
  ["std", "mean ± std"],
  ["stderr", "mean ± stderr"],
  ["range", "mean, min–max"],
  ["iqm", "IQM, 95 % interval"],
];

/** Layer is a group's line and band. */
export interface Layer {
  key: string;
  label: string;
  color: string;
  dash: number[];
  /** Where a value stands, and the stretch of x that it stands for. */
  x: Float64Array;
  lo: Float64Array;
  hi: Float64Array;
  centre: Float64Array;
  low: Float64Array;
  high: Float64Array;
  /** Members with a value there, and the sum of their values. */
  n: Float64Array;
  sum: Float64Array;
  /** Members, with a value there or not. */
  members: number;
}

/** Cells are stretches of x that all members are read in. */
export interface Cells {
  lo: Float64Array;
  hi: Float64Array;
  x: Float64Array;
  /** The members' buckets are the cells: nothing lies between them. */
  shared: boolean;
}

/** What is drawn of a member: its smoothed line where there is one. */
interface Drawn {
  x: Float64Array;
  y: Float64Array;
}

const drawnOf = ({ curve, smooth }: Line): Drawn => smooth ?? { x: curve.x, y: curve.mean };

const same = (a: Float64Array, b: Float64Array): boolean =>
  a.length === b.length && a.every((v, i) => v === b[i]);

/**
 * The cells of some lines in view: their own buckets where all have the same, which runs of one length do; else stretches
 * of equal width, as many as the line with the most buckets has.
 */
export function cellsOf(lines: readonly Line[], [x0, x1]: [number, number]): Cells {
  const first = lines[0]?.curve;
  if (first && lines.every((l) => same(l.curve.lo, first.lo) && same(l.curve.hi, first.hi)))
    return { lo: first.lo, hi: first.hi, x: drawnOf(lines[0]!).x, shared: true };
  const [from, to] = ends(lines, x0, x1);
  const n = Math.max(0, ...lines.map((l) => inView(l, from, to)));
  const width = (to - from) / n;
  const lo = Float64Array.from({ length: n }, (_, i) => from + width * i);
  const hi = lo.map((at, i) => (i === n - 1 ? to : at + width));
  return { lo, hi, x: lo.map((at) => at + width / 2), shared: false };
}

function ends(lines: readonly Line[], x0: number, x1: number): [number, number] {
  let [from, to] = [Infinity, -Infinity];
  for (const { curve: c } of lines)
    if (c.lo.length) [from, to] = [Math.min(from, c.lo[0]!), Math.max(to, c.hi[c.hi.length - 1]!)];
  return [Math.max(x0, from), Math.min(x1, to)];
}

function inView({ curve: c }: Line, from: number, to: number): number {
  return c.lo.reduce((n, lo, i) => n + (c.hi[i]! >= from && lo <= to ? 1 : 0), 0);
}

/**
 * A member's value in every cell, NaN where it has none: the mean of its buckets there, by their points; in a cell between
 * two of its buckets what its line shows; before its first and after its last point nothing.
 */
export function valuesIn(line: Line, cells: Cells): Float64Array {
  const { x, y } = drawnOf(line);
  if (cells.shared) return y;
  const { lo, hi, count } = line.curve;
  const out = new Float64Array(cells.x.length).fill(Number.NaN);
  let i = 0;
  for (let cell = 0; cell < out.length; cell++) {
    const [from, to, last] = [cells.lo[cell]!, cells.hi[cell]!, cell === out.length - 1];
    while (i < x.length && x[i]! < from) i++;
    let [total, points] = [0, 0];
    for (let k = i; k < x.length && (x[k]! < to || (last && x[k]! === to)); k++)
      if (Number.isFinite(y[k])) [total, points] = [total + y[k]! * count[k]!, points + count[k]!];
    const at = cells.x[cell]!;
    const inside = x.length > 0 && at >= lo[0]! && at <= hi[hi.length - 1]!;
    if (points > 0) out[cell] = total / points;
    else if (inside && !(x[i]! < to)) out[cell] = between(x, y, i, at);
  }
  return out;
}

/** The line at `at`, between x[i − 1] and x[i]. */
function between(x: Float64Array, y: Float64Array, i: number, at: number): number {
  if (i === 0) return y[0]!;
  if (i === x.length) return y[i - 1]!;
  const share = (at - x[i - 1]!) / (x[i]! - x[i - 1]!);
  return y[i - 1]! * (1 - share) + y[i]! * share;
}

/** Line, lower and upper edge of a sample. */
export type Summary = (s: Sample) => [number, number, number];

/** How a statistic is computed; a resampling is made once for each size of sample. */
export function summaryOf(statistic: Statistic): Summary {
  if (statistic === "iqr") return (s) => [median(s), quantile(s, 0.25), quantile(s, 0.75)];
  if (statistic === "deciles") return (s) => [median(s), quantile(s, 0.1), quantile(s, 0.9)];
  if (statistic === "range") return (s) => [mean(s), s[0] ?? Number.NaN, s[s.length - 1] ?? Number.NaN];
  if (statistic === "iqm") return interquartile();
  const spread = statistic === "std" ? std : stderr;
  return (s) => {
    const [m, by] = [mean(s), spread(s)];
    return [m, m - by, m + by];
  };
}

function interquartile(): Summary {
  const known = new Map<number, Float64Array>();
  return (s) => {
    const weights = known.get(s.length) ?? resampling(s.length);
    known.set(s.length, weights);
    return [iqm(s), ...bootstrap(s, weights)];
  };
}

/** What a layer is drawn like and made of. */
export interface Part {
  key: string;
  label: string;
  color: string;
  dash: number[];
  lines: readonly Line[];
}

/** A group's line and band over the cells, from every one of its members. */
export function layerOf(part: Part, cells: Cells, summary: Summary): Layer {
  const { lines, ...look } = part;
  const values = lines.map((line) => valuesIn(line, cells));
  const empty = () => new Float64Array(cells.x.length).fill(Number.NaN);
  const [centre, low, high, n, total] = [empty(), empty(), empty(), empty(), empty()];
  for (let cell = 0; cell < cells.x.length; cell++) {
    const s = ascending(values.map((v) => v[cell]!));
    [centre[cell], low[cell], high[cell]] = summary(s);
    [n[cell], total[cell]] = [s.length, sum(s)];
  }
  const { x, lo, hi } = cells;
  return { ...look, x, lo, hi, centre, low, high, n, sum: total, members: lines.length };
}

/** The layers of a card, over cells that they share. */
export function layersOf(parts: readonly Part[], x: [number, number], statistic: Statistic): Layer[] {
  const filled = parts.filter((p) => p.lines.length > 0);
  const cells = cellsOf(
    filled.flatMap((p) => p.lines),
    x,
  );
  const summary = summaryOf(statistic);
  return filled.map((part) => layerOf(part, cells, summary));
}

/** The cell of a layer at x, −1 where it has no value. */
export function cellAt(layer: Layer, x: number): number {
  let [a, b] = [0, layer.lo.length - 1];
  while (a < b) {
    const middle = (a + b) >> 1;
    if (layer.hi[middle]! < x) a = middle + 1;
    else b = middle;
  }
  return layer.n[a]! > 0 ? a : -1;
}
