import { code } from "../api/kymograph.ts";

/** Order of rows by similarity: average linkage (UPGMA) over the Euclidean distance of their levels. */

/** Distances of all pairs of rows, i < j at pairAt(i, j). */
export const pairAt = (n: number, i: number, j: number): number =>
  i < j ? i * n - (i * (i + 3)) / 2 + j - 1 : pairAt(n, j, i);

/** Lets the page do something else; resolves when the work may go on. */
export type Pause = () => Promise<void>;

const slice = 1 << 19; // cells that are compared, or distances that are looked at, between two pauses: some ms

/**
 * Distances of rows of codes over the columns where both have a value, as if they had it in all columns. Rows that share
 * no column are further apart than any others.
 */
export async function distances(cells: Uint8Array, columns: number, pause: Pause): Promise<Float32Array> {
  const n = columns ? cells.length / columns : 0;
  const out = new Float32Array((n * (n - 1)) / 2);
  const values = new Float32Array(cells.length);
  const has = new Uint8Array(cells.length);
  for (let i = 0; i < cells.length; i++) {
    const c = cells[i]! & ~code.hasNaN;
    if (c < code.below) continue;
    values[i] = c;
    has[i] = 1;
  }
  const whole = !has.includes(0);
  const apart = 128 * Math.sqrt(columns);
  for (let i = 0, at = 0, done = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++, at++) {
      let [sum, shared] = [0, columns];
      if (whole)
        for (let a = i * columns, b = j * columns, k = 0; k < columns; k++) {
          const d = values[a + k]! - values[b + k]!;
          sum += d * d;
        }
      else {
        shared = 0;
        for (let a = i * columns, b = j * columns, k = 0; k < columns; k++) {
          if (!has[a + k] || !has[b + k]) continue;
          const d = values[a + k]! - values[b + k]!;
          sum += d * d;
          shared++;
        }
      }
      out[at] = shared ? Math.sqrt((sum * columns) / shared) : apart;
    }
    done += (n - i) * columns;
    if (done > slice) {
      done = 0;
      await pause();
    }
  }
  return out;
}

/** Merge joins two clusters, which are rows below n and merges above it, at a distance. */
export interface Merge {
  a: number;
  b: number;
  distance: number;
}

/**
 * Average linkage with a chain of nearest neighbours: n² steps. The distances are used up. The merges are in the order in
 * which the chain finds them, each after those that it joins.
 */
export async function averageLinkage(n: number, d: Float32Array, pause: Pause): Promise<Merge[]> {
  const name = Int32Array.from({ length: n }, (_, i) => i); // the cluster that lies in a place
  const size = new Float64Array(n).fill(1);
  const live = Array.from({ length: n }, (_, i) => i);
  const merges: Merge[] = [];
  const chain: number[] = [];
  for (let done = 0; merges.length < n - 1; ) {
    if (chain.length === 0) chain.push(live[0]!);
    const here = chain.at(-1)!;
    const before = chain.at(-2) ?? -1;
    // The one before wins a tie, or the chain would go round.
    let [nearest, least] = [before, before < 0 ? Infinity : d[pairAt(n, here, before)]!];
    for (const k of live) {
      if (k === here) continue;
      const far =
        k > here ? d[here * n - (here * (here + 3)) / 2 + k - 1]! : d[k * n - (k * (k + 3)) / 2 + here - 1]!;
      if (far < least) [nearest, least] = [k, far];
    }
    done += live.length;
    if (nearest === before && before >= 0) {
      chain.length -= 2;
      join(here, before);
      done += live.length;
    } else chain.push(nearest);
    if (done > slice) {
      done = 0;
      await pause();
    }
  }
  return merges;

  function join(i: number, k: number): void {
    const [keep, gone] = i < k ? [i, k] : [k, i];
    merges.push({ a: name[keep]!, b: name[gone]!, distance: d[pairAt(n, keep, gone)]! });
    const [p, q] = [size[keep]!, size[gone]!];
    live.splice(live.indexOf(gone), 1);
    for (const other of live) {
      if (other === keep) continue;
      const at = pairAt(n, keep, other);
      d[at] = (p * d[at]! + q * d[pairAt(n, gone, other)]!) / (p + q);
    }
    size[keep] = p + q;
    name[keep] = n + merges.length - 1;
  }
}

/** The rows from left to right under the tree; of two branches the one with the higher mean comes first. */
export function leaves(n: number, merges: readonly Merge[], means: ArrayLike<number>): number[] {
  const sum = new Float64Array(n + merges.length);
  const size = new Float64Array(n + merges.length).fill(1);
  for (let i = 0; i < n; i++) sum[i] = Number.isFinite(means[i]) ? means[i]! : 0;
  merges.forEach(({ a, b }, i) => {
    sum[n + i] = sum[a]! + sum[b]!;
    size[n + i] = size[a]! + size[b]!;
  });
  const out: number[] = [];
  const stack = n ? [n + merges.length - 1] : [];
  while (stack.length) {
    const at = stack.pop()!;
    if (at < n) {
      out.push(at);
      continue;
    }
    const { a, b } = merges[at - n]!;
    const [first, second] = sum[a]! / size[a]! >= sum[b]! / size[b]! ? [a, b] : [b, a];
    stack.push(second, first);
  }
  return out;
}

/** The mean level of each row, NaN of none. */
function meanLevels(cells: Uint8Array, columns: number): Float64Array {
  const out = new Float64Array(columns ? cells.length / columns : 0);
  for (let row = 0; row < out.length; row++) {
    let [sum, n] = [0, 0];
    for (let k = row * columns; k < (row + 1) * columns; k++) {
      const c = cells[k]! & ~code.hasNaN;
      if (c >= code.below) [sum, n] = [sum + c, n + 1];
    }
    out[row] = n ? sum / n : Number.NaN;
  }
  return out;
}

/** Rows of codes in the order of their similarity. */
export async function similarOrder(cells: Uint8Array, columns: number, pause: Pause): Promise<number[]> {
  const means = meanLevels(cells, columns);
  const n = means.length;
  return leaves(n, await averageLinkage(n, await distances(cells, columns, pause), pause), means);
}
