/**
 * Statistics of a set of values, as NumPy and SciPy define them by default. What takes a sample takes finite numbers in
 * ascending order (see ascending); of an empty one every statistic is NaN.
 */
export type Sample = Float64Array;

/** The finite values, in order. */
export function ascending(values: Iterable<number>): Sample {
  return Float64Array.from(values).filter(Number.isFinite).sort();
}

export function sum(s: Sample): number {
  return s.reduce((all, v) => all + v, 0);
}

/** Adds parts of the mean, which stays finite where the sum would not. */
export function mean(s: Sample): number {
  return s.length ? s.reduce((all, v) => all + v / s.length, 0) : Number.NaN;
}

/** numpy.quantile: linear between the two nearest values. */
export function quantile(s: Sample, share: number): number {
  if (s.length === 0) return Number.NaN;
  const at = share * (s.length - 1);
  const low = Math.floor(at);
  const [a, b] = [s[low]!, s[Math.min(low + 1, s.length - 1)]!];
  return a === b ? a : a * (1 - (at - low)) + b * (at - low);
}

export const median = (s: Sample): number => quantile(s, 0.5);

/** numpy.std with ddof=1: of one value there is none. */
export function std(s: Sample): number {
  if (s.length < 2) return Number.NaN;
  const m = mean(s);
  const most = Math.max(m - s[0]!, s[s.length - 1]! - m);
  if (!(most > 0)) return 0;
  // By parts of the furthest, so that no square overflows.
  const squares = s.reduce((all, v) => all + ((v - m) / most) ** 2, 0);
  return most * Math.sqrt(squares / (s.length - 1));
}

export const stderr = (s: Sample): number => std(s) / Math.sqrt(s.length);

/** The interquartile mean: scipy.stats.trim_mean(s, 0.25), which leaves out whole values only. */
export function iqm(s: Sample): number {
  const cut = Math.floor(s.length * 0.25);
  return mean(s.subarray(cut, s.length - cut));
}

const resamples = 400;
const confidence = 0.95;

/** For each resample of n ranked values, the share of each rank in its interquartile mean; the same draws every time. */
export function resampling(n: number): Float64Array {
  const weights = new Float64Array(resamples * n);
  const counts = new Uint32Array(n);
  const cut = Math.floor(n * 0.25);
  let seed = 0x9e3779b9 ^ n;
  for (let b = 0; b < resamples; b++) {
    counts.fill(0);
    for (let i = 0; i < n; i++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      counts[Math.floor((seed / 4294967296) * n)]!++;
    }
    let rank = 0; // of the first value that is left in counts
    for (let i = 0; i < n; i++) {
      const next = rank + counts[i]!;
      const kept = Math.min(next, n - cut) - Math.max(rank, cut);
      if (kept > 0) weights[b * n + i] = kept / (n - 2 * cut);
      rank = next;
    }
  }
  return weights;
}

/** The percentile bootstrap interval of the interquartile mean, at 95 %. */
export function bootstrap(s: Sample, weights: Float64Array): [number, number] {
  const n = s.length;
  if (n < 2) return [iqm(s), iqm(s)];
  const found = new Float64Array(resamples);
  for (let b = 0; b < resamples; b++) for (let i = 0; i < n; i++) found[b]! += weights[b * n + i]! * s[i]!;
  found.sort();
  return [quantile(found, (1 - confidence) / 2), quantile(found, (1 + confidence) / 2)];
}

/** Ranks from 1, equal values sharing the mean of theirs: scipy.stats.rankdata. */
export function ranks(values: readonly number[]): number[] {
  // Typed arrays sort as numbers, without a call for each pair; infinite values have a place, too.
  const sorted = Float64Array.from(values).sort();
  const rank = new Map<number, number>();
  for (let i = 0; i < sorted.length; ) {
    let end = i + 1;
    while (sorted[end] === sorted[i]) end++;
    rank.set(sorted[i]!, (i + 1 + end) / 2);
    i = end;
  }
  return values.map((v) => rank.get(v)!);
}

/** Kruskal–Wallis H with its correction for ties; 0 when all values are equal. Ranks of all values need no other ones. */
export function kruskal(groups: readonly (readonly number[])[], isRanked = false): number {
  const all = groups.flat();
  const n = all.length;
  const ranked = isRanked ? all : ranks(all);
  let [at, h] = [0, 0];
  for (const { length } of groups) {
    let r = 0;
    for (let i = 0; i < length; i++) r += ranked[at++]!;
    if (length) h += (r * r) / length;
  }
  const ties = new Map<number, number>();
  for (const r of ranked) ties.set(r, (ties.get(r) ?? 0) + 1);
  let tied = 0;
  for (const t of ties.values()) tied += t ** 3 - t;
  const correction = 1 - tied / (n ** 3 - n);
  return correction > 0 ? ((12 / (n * (n + 1))) * h - 3 * (n + 1)) / correction : 0;
}

/** η² = (H − k + 1) / (n − k): the part of the differences in rank that the groups explain, at least 0. */
export function separation(groups: readonly (readonly number[])[], isRanked = false): number {
  const filled = groups.filter((g) => g.length > 0);
  const n = filled.reduce((all, g) => all + g.length, 0);
  const k = filled.length;
  return k < 2 || n <= k ? 0 : Math.max(0, (kruskal(filled, isRanked) - k + 1) / (n - k));
}

/** Spearman's rank correlation; NaN where one side does not vary. y may be ranks of all values. */
export function spearman(x: readonly number[], y: readonly number[], isRanked = false): number {
  const [a, b] = [ranks(x), isRanked ? y : ranks(y)];
  const middle = (x.length + 1) / 2;
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const [u, v] = [a[i]! - middle, b[i]! - middle];
    ab += u * v;
    aa += u * u;
    bb += v * v;
  }
  return ab / Math.sqrt(aa * bb);
}
