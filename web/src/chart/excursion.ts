import type { Curve } from "./curve.ts";
import { Points } from "./points.ts";

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
const rare = 0.05; // of the buckets; a trend that is left more often is no trend
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
  const own = spreads(c, all);
  const plain = leaving(c, all, own, 0);
  const about = leavingTrend(c, all, own.trend / least);
  if (plain.length === 0 || about.length === 0) return plain.length ? plain : about;
  const found = new Set([...plain, ...about]);
  return all.filter((i) => found.has(i));
}

/** The buckets that leave what is usual by more than a least distance. */
function leaving(c: Values, all: number[], first: Spreads, least: number, known: Spread[] = []): number[] {
  let outside: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const found = new Set(outside);
    const spread = found.size
      ? spreads(
          c,
          all.filter((i) => !found.has(i)),
        )
      : first;
    const usual = [...known, ...spread.usual];
    const next: number[] = [];
    for (const i of all) if (leaves(c, i, usual, least)) next.push(i);
    if (next.length === outside.length || next.length === all.length) break;
    outside = next;
  }
  return outside;
}

/** The buckets that leave the trend about them by more than a least distance. */
function leavingTrend(c: Curve, all: number[], least: number): number[] {
  const steady = within(c, all);
  const leave = (others: number[]) => {
    const trend = aboutTrend(c, all, others);
    if (all.length >= many && reachOf(trend, all) <= least) return [];
    return leaving(trend, all, spreads(trend, others), least, steady);
  };
  const first = leave(all);
  if (first.length === 0 || first.length > all.length * rare) return first;
  // What is far out bends the trend of those beside it, which then seem to spread far, too.
  const found = new Set(first);
  for (const i of leave(all.filter((i) => !found.has(i)))) found.add(i);
  return all.filter((i) => found.has(i));
}

/** How far a value is from any other at most, or from 0; the points of a bucket are as takePoints has them. */
function reachOf(c: Values, all: number[]): number {
  let [low, high] = [0, 0];
  for (const i of all) {
    const [n, min, max, mean] = [c.count[i]!, c.min[i]!, c.max[i]!, c.mean[i]!];
    const inner = n > 2 ? (n * mean - min - max) / (n - 2) : mean;
    low = Math.min(low, min, mean, inner);
    high = Math.max(high, max, mean, inner);
  }
  return high - low;
}

/** How points spread about a trend that turns within few buckets: as they do within a bucket. */
const within = (c: Values, all: number[]): Spread[] =>
  fewEach(c, all) ? [] : [{ middle: 0, span: normal * innerOf(c, all) }];

/** Half of the buckets have so few points that their min, max and mean tell nearly all. */
function fewEach(c: Values, buckets: number[]): boolean {
  let n = 0;
  for (const i of buckets) if (c.count[i]! <= small) n++;
  return n > Math.floor((buckets.length - 1) / 2);
}

const points = new Points(); // of one quantile after the other

/** The standard deviation within a bucket, of half of them at most. */
function innerOf(c: Values, buckets: number[]): number {
  points.clear();
  for (const i of buckets) {
    const n = c.count[i]!;
    points.add((c.max[i]! - c.min[i]!) * (deviations[n] ?? deviationOf(n)), 1);
  }
  return points.sort().quantile(0.5);
}

/**
 * What is above and below the trend before and after each bucket, by the medians of its neighbours' means; on a slope
 * that is nothing. The first and the last bucket have one side only, and no trend to leave.
 */
function aboutTrend(c: Curve, all: number[], others: number[]): Values {
  const { min, max, mean, means, sorted } = roomFor(c.count.length);
  let total = 0;
  for (const i of all) total += c.count[i]!;
  for (let k = 0; k < others.length; k++) means[k] = c.mean[others[k]!]!;
  const wanted = Math.max(window[0], Math.min(window[1], Math.floor(total / 50)));
  const half = Math.max(narrowest, Math.round((wanted * all.length) / total));
  const median = (from: number, to: number) => {
    for (let n = 0; n < to - from; n++) {
      const value = means[from + n]!;
      let at = n;
      for (; at > 0 && sorted[at - 1]! > value; at--) sorted[at] = sorted[at - 1]!;
      sorted[at] = value;
    }
    return sorted[(to - from - 1) >> 1]!;
  };
  let at = 0; // how many of the others are before the bucket
  for (const i of all) {
    const next = others[at] === i ? at + 1 : at;
    const begin = at;
    at = next;
    if (begin === 0 || next === others.length) continue;
    const before = median(Math.max(0, begin - half), begin);
    const after = median(next, Math.min(others.length, next + half));
    max[i] = apart(c.max[i]!, Math.max(before, after));
    min[i] = apart(c.min[i]!, Math.min(before, after));
    mean[i] = apart(c.mean[i]!, (before + after) / 2);
  }
  return { min, max, mean, count: c.count };
}

type Room = Record<"min" | "max" | "mean" | "means" | "sorted", Float64Array>;

let room: Room | undefined; // of one series after the other

/** Empty columns of so many buckets. */
function roomFor(buckets: number): Room {
  if (!room || room.min.length < buckets) {
    const column = () => new Float64Array(2 * buckets);
    room = { min: column(), max: column(), mean: column(), means: column(), sorted: column() };
  }
  for (const column of [room.min, room.max, room.mean]) column.fill(0, 0, buckets);
  return room;
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
    const out = Math.max(max - mean, mean - min, beside(c, i, i - 1), beside(c, i, i + 1));
    if (off > far * span || out > (near * span) / 4) return true;
  }
  return false;
}

/** How far the mean of a bucket is from another's; 0 where there is none. */
const beside = (c: Values, i: number, other: number): number =>
  other >= 0 && other < c.count.length ? Math.abs(c.mean[i]! - c.mean[other]!) || 0 : 0;

/** Spreads is what is usual of some buckets, and how far their means spread alone. */
interface Spreads {
  usual: Spread[];
  trend: number;
}

/** How the values of these buckets spread, as far as buckets tell. */
function spreads(c: Values, buckets: number[]): Spreads {
  // Points spread by their trend, which means show, and within their buckets.
  points.clear();
  for (const i of buckets) points.add(c.mean[i]!, c.count[i]!);
  const means = spreadOfPoints();
  const usual = [{ middle: means.middle, span: Math.hypot(means.span, normal * innerOf(c, buckets)) }];
  if (fewEach(c, buckets)) usual.push(spreadOf(c, buckets, takePoints));
  if (buckets.length < many) usual.push(spreadOf(c, buckets, spreadPoints));
  return { usual, trend: means.span };
}

function spreadOfPoints(): Spread {
  points.sort();
  return { middle: points.quantile(0.5), span: points.quantile(0.9) - points.quantile(0.1) };
}

/** How the points spread that these buckets are taken to have. */
function spreadOf(c: Values, buckets: number[], take: typeof takePoints): Spread {
  points.clear();
  for (const i of buckets) take(c, i);
  return spreadOfPoints();
}

/** The standard deviation of n points of a normal distribution that are 1 apart, within 20 %. */
const deviationOf = (n: number): number => (n < 2 ? 0 : Math.sqrt(1 - 1 / n) / (3.08 * Math.log10(n) ** 0.7));

const deviations = Array.from({ length: 256 }, (_, n) => deviationOf(n));

/** Takes what is known of a bucket's points, as values and how many have it: up to three points these are all. */
function takePoints(c: Values, i: number): void {
  const [n, min, max] = [c.count[i]!, c.min[i]!, c.max[i]!];
  points.add(min, 1);
  if (n > 1) points.add(max, 1);
  if (n > 2) points.add((n * c.mean[i]! - min - max) / (n - 2), n - 2);
}

/**
 * Takes a bucket's points as a trend has them: evenly from min to mean and from there to max, as many on each side as give
 * the mean.
 */
function spreadPoints(c: Values, i: number): void {
  const [n, min, max] = [c.count[i]!, c.min[i]!, c.max[i]!];
  const span = max - min;
  if (n < 3 || !(span > 0 && span < Infinity)) {
    takePoints(c, i);
    return;
  }
  const inner = Math.max(min, Math.min(max, (n * c.mean[i]! - min - max) / (n - 2)));
  const below = (max - inner) / span;
  points.add(min, 1);
  points.add(max, 1);
  for (let k = 0; k < pieces; k++) {
    const share = (k + 0.5) / pieces;
    points.add(min + (inner - min) * share, ((n - 2) * below) / pieces);
    points.add(inner + (max - inner) * share, ((n - 2) * (1 - below)) / pieces);
  }
}
