import type { Curve } from "./curve.ts";

const far = 3; // robust spans, which is what must be seen …
const near = 2.2; // … and what is looked at, since buckets tell only about how far it is
const normal = 2.563; // q90 − q10 of a normal distribution, in standard deviations
const small = 6; // points of a bucket, of which its min, max and mean tell nearly all
const passes = 3; // what was found widens the span no more
const many = 25; // buckets, of which none holds so many points that a quantile may be any of them
const pieces = 4; // values that stand for the points of a bucket on each side of its mean
const fewest = 8; // buckets of which a span can be told

const least = 2; // a part of the whole span that a step out of the trend has at least: noise may be larger at first
const window = [5, 20] as const; // points on each side that tell the trend: a fiftieth of all, but so many
const narrowest = 2; // buckets on each side that tell it
const rounding = 1e-12; // of a value: so far is the mean of equal values from them

const known = new WeakMap<Curve, readonly number[]>();

/** Values is what a bucket's values are told by. */
type Values = Pick<Curve, "min" | "max" | "mean" | "count">;

/**
 * The buckets with values that lie more than three robust spans (q90 − q10) from the middle of their series, or from its
 * trend by those about it, as far as buckets tell. They are drawn so that they are seen, however many runs share the card.
 */
export function excursionsOf(c: Curve): readonly number[] {
  let found = known.get(c);
  if (!found) {
    found = find(c);
    known.set(c, found);
  }
  return found;
}

function find(c: Curve): number[] {
  const all: number[] = [];
  for (let i = 0; i < c.count.length; i++) if (c.count[i]! > 0) all.push(i);
  // A few buckets of many points, as on both sides of a pause of days, tell nothing about their spread.
  if (all.length < fewest) return all.filter((i) => c.count[i]! > 2);
  const whole = quantile(pick(c.mean, all), pick(c.count, all));
  const found = new Set([
    ...leaving(c, all, 0),
    ...leaving(aboutTrend(c, all), all, (whole(0.9) - whole(0.1)) / least, within(c, all)),
  ]);
  return all.filter((i) => found.has(i));
}

/** The buckets that leave what is usual by more than a least distance. */
function leaving(c: Values, all: number[], least: number, known: Spread[] = []): number[] {
  let outside: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const found = new Set(outside);
    const others = found.size ? all.filter((i) => !found.has(i)) : all;
    const usual = [...known, ...spreads(c, others)];
    const next = all.filter((i) => leaves(c, i, usual, least));
    if (next.length === outside.length || next.length === all.length) break;
    outside = next;
  }
  return outside;
}

/** How points spread about a trend that turns within few buckets: as they do within a bucket. */
const within = (c: Values, all: number[]): Spread[] =>
  typicalOf(c, all) > small ? [{ middle: 0, span: normal * innerOf(c, all) }] : [];

/** How many points half of the buckets have at most. */
function typicalOf(c: Values, buckets: number[]): number {
  const first = c.count[buckets[0]!]!;
  return buckets.every((i) => c.count[i] === first) ? first : quantile(pick(c.count, buckets))(0.5);
}

/** The standard deviation within a bucket, of half of them at most. */
function innerOf(c: Values, buckets: number[]): number {
  let [n, share] = [0, 0]; // most buckets have as many points as the one before
  const one = (i: number) => {
    if (c.count[i] !== n) {
      n = c.count[i]!;
      share = deviationOf(n);
    }
    return (c.max[i]! - c.min[i]!) * share;
  };
  return quantile(each(buckets, one))(0.5);
}

/**
 * What is above and below the trend before and after each bucket, by the medians of its neighbours' means; on a slope
 * that is nothing. The first and the last bucket have one side only, and no trend to leave.
 */
function aboutTrend(c: Curve, all: number[]): Values {
  const [min, max, mean] = [c.min, c.max, c.mean].map(() => new Float64Array(c.count.length));
  const points = all.reduce((n, i) => n + c.count[i]!, 0);
  const wanted = Math.max(window[0], Math.min(window[1], Math.floor(points / 50)));
  const half = Math.max(narrowest, Math.round((wanted * all.length) / points));
  const means = pick(c.mean, all);
  const sorted = new Float64Array(half);
  const median = (from: number, to: number) => {
    for (let n = 0; n < to - from; n++) {
      const value = means[from + n]!;
      let at = n;
      for (; at > 0 && sorted[at - 1]! > value; at--) sorted[at] = sorted[at - 1]!;
      sorted[at] = value;
    }
    return sorted[(to - from - 1) >> 1]!;
  };
  for (let k = 1; k < all.length - 1; k++) {
    const i = all[k]!;
    const before = median(Math.max(0, k - half), k);
    const after = median(k + 1, Math.min(all.length, k + 1 + half));
    max![i] = apart(c.max[i]!, Math.max(before, after));
    min![i] = apart(c.min[i]!, Math.min(before, after));
    mean![i] = apart(c.mean[i]!, (before + after) / 2);
  }
  return { min: min!, max: max!, mean: mean!, count: c.count };
}

/** How far a value is from another; equal values may differ by rounding. */
function apart(a: number, b: number): number {
  const by = a - b;
  return Math.abs(by) <= rounding * Math.abs(b) ? 0 : by;
}

/** Spread is the middle of a series and its robust span. */
interface Spread {
  middle: number;
  span: number;
}

/** Whether a bucket leaves something usual: far, or less far where it stands out of what is around, as no trend does. */
function leaves(c: Values, i: number, usual: readonly Spread[], least: number): boolean {
  const [min, max, mean] = [c.min[i]!, c.max[i]!, c.mean[i]!];
  for (const { middle, span } of usual) {
    const off = Math.max(apart(max, middle), -apart(min, middle));
    if (!(off > near * span) || off <= least) continue;
    const beside = (other: number | undefined) => Math.abs(mean - (other ?? mean)) || 0;
    const out = Math.max(max - mean, mean - min, beside(c.mean[i - 1]), beside(c.mean[i + 1]));
    if (off > far * span || out > (near * span) / 4) return true;
  }
  return false;
}

/** How the values of these buckets spread, as far as buckets tell. */
function spreads(c: Values, buckets: number[]): Spread[] {
  // Points spread by their trend, which means show, and within their buckets.
  const means = quantile(pick(c.mean, buckets), pick(c.count, buckets));
  const all = { middle: means(0.5), span: Math.hypot(means(0.9) - means(0.1), normal * innerOf(c, buckets)) };
  const out = [all];
  if (typicalOf(c, buckets) <= small) out.push(spreadOf(c, buckets, pointsOf));
  if (buckets.length < many) out.push(spreadOf(c, buckets, spreadPoints));
  return out;
}

/** How the points spread that these buckets are taken to have. */
function spreadOf(c: Values, buckets: number[], points: typeof pointsOf): Spread {
  const [values, counts]: number[][] = [[], []];
  const take = (value: number, count: number) => {
    values!.push(value);
    counts!.push(count);
  };
  for (const i of buckets) points(c, i, take);
  const q = quantile(Float64Array.from(values!), Float64Array.from(counts!));
  return { middle: q(0.5), span: q(0.9) - q(0.1) };
}

/** The standard deviation of n points of a normal distribution that are 1 apart, within 20 %. */
const deviationOf = (n: number): number => (n < 2 ? 0 : Math.sqrt(1 - 1 / n) / (3.08 * Math.log10(n) ** 0.7));

/** What is known of a bucket's points, as values and how many have it: up to three points these are all. */
function pointsOf(c: Values, i: number, take: (value: number, count: number) => void): void {
  const [n, min, max] = [c.count[i]!, c.min[i]!, c.max[i]!];
  take(min, 1);
  if (n > 1) take(max, 1);
  if (n > 2) take((n * c.mean[i]! - min - max) / (n - 2), n - 2);
}

/**
 * A bucket's points as a trend has them: evenly from min to mean and from there to max, as many on each side as give the
 * mean.
 */
function spreadPoints(c: Values, i: number, take: (value: number, count: number) => void): void {
  const [n, min, max] = [c.count[i]!, c.min[i]!, c.max[i]!];
  const span = max - min;
  if (n < 3 || !(span > 0 && span < Infinity)) {
    pointsOf(c, i, take);
    return;
  }
  const inner = Math.max(min, Math.min(max, (n * c.mean[i]! - min - max) / (n - 2)));
  const below = (max - inner) / span;
  take(min, 1);
  take(max, 1);
  for (let k = 0; k < pieces; k++) {
    const share = (k + 0.5) / pieces;
    take(min + (inner - min) * share, ((n - 2) * below) / pieces);
    take(inner + (max - inner) * share, ((n - 2) * (1 - below)) / pieces);
  }
}

const pick = (values: ArrayLike<number>, buckets: number[]): Float64Array => each(buckets, (i) => values[i]!);

/** A number for each bucket; a loop takes a quarter of the time of Float64Array.from. */
function each(buckets: number[], of: (i: number) => number): Float64Array {
  const out = new Float64Array(buckets.length);
  for (let k = 0; k < out.length; k++) out[k] = of(buckets[k]!);
  return out;
}

/** Quantiles of values, which stand for so many points each; for one, where no counts are given. */
function quantile(values: Float64Array, counts?: Float64Array): (q: number) => number {
  if (counts?.every((n) => n === counts[0])) return evenly(values, counts[0] ?? 1);
  if (!counts) return evenly(values, 1);
  const order = Uint32Array.from(values, (_, k) => k).sort((a, b) => values[a]! - values[b]!);
  const total = counts.reduce((n, points) => n + points, 0);
  return (q) => {
    let seen = 0;
    for (const k of order) {
      seen += counts[k]!;
      if (seen > q * (total - 1)) return values[k]!;
    }
    return 0;
  };
}

/** Quantiles of values that stand for equally many points. */
function evenly(values: Float64Array, count: number): (q: number) => number {
  const sorted = values.sort();
  return (q) => sorted[Math.floor((q * (sorted.length * count - 1)) / count)] ?? 0;
}
