import type { Curve } from "./curve.ts";

const far = 3; // robust spans, which is what must be seen …
const near = 2.2; // … and what is looked at, since buckets tell only about how far it is
const normal = 2.563; // q90 − q10 of a normal distribution, in standard deviations
const small = 6; // points of a bucket, of which its min, max and mean tell nearly all
const passes = 3; // what was found widens the span no more
const fewest = 8; // buckets of which a span can be told

const known = new WeakMap<Curve, number[]>();

/**
 * The buckets with values that lie more than three robust spans (q90 − q10) of their series away from its middle, as far
 * as buckets tell. They are drawn so that they are seen, however many runs share the card.
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
  let outside: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const found = new Set(outside);
    const usual = spreads(
      c,
      all.filter((i) => !found.has(i)),
    );
    const next = all.filter((i) => usual.some((u) => leaves(c, i, u)));
    if (next.length === outside.length || next.length === all.length) break;
    outside = next;
  }
  return outside;
}

/** Spread is the middle of a series and its robust span. */
interface Spread {
  middle: number;
  span: number;
}

/** Whether a bucket leaves what is usual: far, or less far where it stands out of what is around, as no trend does. */
function leaves(c: Curve, i: number, { middle, span }: Spread): boolean {
  const [min, max, mean] = [c.min[i]!, c.max[i]!, c.mean[i]!];
  const off = Math.max(max - middle, middle - min);
  if (!(off > near * span)) return false;
  const apart = (other: number | undefined) => Math.abs(mean - (other ?? mean)) || 0;
  const out = Math.max(max - mean, mean - min, apart(c.mean[i - 1]), apart(c.mean[i + 1]));
  return off > far * span || out > (near * span) / 4;
}

/** How the values of these buckets spread, as far as buckets tell. */
function spreads(c: Curve, buckets: number[]): Spread[] {
  // Points spread by their trend, which means show, and within their buckets.
  const means = quantile(buckets.map((i) => [c.mean[i]!, c.count[i]!]));
  const inner = quantile(buckets.map((i) => [deviation(c, i), 1]))(0.5);
  const all = { middle: means(0.5), span: Math.hypot(means(0.9) - means(0.1), normal * inner) };
  const typical = quantile(buckets.map((i) => [c.count[i]!, 1]))(0.5);
  if (typical > small) return [all];
  const points = quantile(buckets.flatMap((i) => pointsOf(c, i)));
  return [all, { middle: points(0.5), span: points(0.9) - points(0.1) }];
}

/** The standard deviation that points of a normal distribution have about their bucket's mean when they are so far apart. */
function deviation(c: Curve, i: number): number {
  const n = c.count[i]!;
  if (n < 2) return 0;
  const apart = 3.08 * Math.log10(n) ** 0.7; // of n points, in standard deviations, within 20 %
  return ((c.max[i]! - c.min[i]!) / apart) * Math.sqrt(1 - 1 / n);
}

/** What is known of a bucket's points, as values and how many have it: up to three points these are all. */
function pointsOf(c: Curve, i: number): [number, number][] {
  const [n, min, max] = [c.count[i]!, c.min[i]!, c.max[i]!];
  if (n < 2) return [[min, 1]];
  const ends: [number, number][] = [
    [min, 1],
    [max, 1],
  ];
  return n < 3 ? ends : [...ends, [(n * c.mean[i]! - min - max) / (n - 2), n - 2]];
}

/** Quantiles of values that stand for so many points each. */
function quantile(values: [number, number][]): (q: number) => number {
  const sorted = values.sort((a, b) => a[0] - b[0]);
  const total = sorted.reduce((n, [, points]) => n + points, 0);
  return (q) => {
    let seen = 0;
    for (const [value, points] of sorted) {
      seen += points;
      if (seen > q * (total - 1)) return value;
    }
    return 0;
  };
}
