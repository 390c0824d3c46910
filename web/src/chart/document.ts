/** Histograms and scatters: one point of such a series is a document (api/openapi.yaml). */

export interface Histogram {
  bin_edges: number[];
  counts?: number[];
  densities?: number[];
}

export interface Scatter {
  x: (number | string)[];
  y: (number | string)[];
  z?: (number | string)[] | null;
  x_title?: string;
  y_title?: string;
  z_title?: string;
}

/** Mass of each bin: what its area stands for, whichever of the two forms it came in. */
export function masses(h: Histogram): number[] {
  if (h.counts) return h.counts;
  return (h.densities ?? []).map((d, i) => d * (h.bin_edges[i + 1]! - h.bin_edges[i]!));
}

/** The least range that holds every bin of all. */
export function rangeOf(all: Histogram[]): [number, number] {
  let [lo, hi] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const h of all) {
    lo = Math.min(lo, h.bin_edges[0]!);
    hi = Math.max(hi, h.bin_edges.at(-1)!);
  }
  return lo < hi ? [lo, hi] : [0, 1];
}

/**
 * Shares of a histogram's mass over equal rows of a range; a bin that spans several
 * rows is spread over them evenly. They add up to 1, or to 0 for an empty one.
 */
export function rebin(h: Histogram, [lo, hi]: [number, number], rows: number): Float64Array {
  const out = new Float64Array(rows);
  const mass = masses(h);
  const total = mass.reduce((a, b) => a + b, 0);
  if (!(total > 0)) return out;
  const step = (hi - lo) / rows;
  mass.forEach((m, i) => {
    const [a, b] = [h.bin_edges[i]!, h.bin_edges[i + 1]!];
    const first = clamp(Math.floor((a - lo) / step), rows);
    const last = clamp(Math.ceil((b - lo) / step) - 1, rows);
    for (let row = first; row <= last; row++) {
      const from = Math.max(a, lo + row * step);
      const to = Math.min(b, lo + (row + 1) * step);
      out[row]! += (m / total) * (first === last ? 1 : Math.max(0, to - from) / (b - a));
    }
  });
  return out;
}

function clamp(row: number, rows: number): number {
  return Math.min(Math.max(row, 0), rows - 1);
}

/** Colour of a share of the largest one: from the card's ground to the accent, by its square root. */
export function shade(share: number, from: [number, number, number], to: [number, number, number]): string {
  const t = Math.sqrt(Math.min(Math.max(share, 0), 1));
  return `rgb(${from.map((c, i) => Math.round(c + (to[i]! - c) * t)).join(" ")})`;
}

/** The finite dots of a scatter, with their z. */
export function dots(s: Scatter): { x: number; y: number; z: number | null }[] {
  const out: { x: number; y: number; z: number | null }[] = [];
  s.x.forEach((vx, i) => {
    const [x, y] = [Number(vx), Number(s.y[i])];
    const z = s.z ? Number(s.z[i]) : null;
    if (Number.isFinite(x) && Number.isFinite(y)) out.push({ x, y, z: Number.isFinite(z) ? z : null });
  });
  return out;
}

/** The range of numbers, widened where they are all one. */
export function span(values: number[]): [number, number] {
  let [lo, hi] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const v of values) {
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  }
  if (!(lo <= hi)) return [0, 1];
  const pad = lo === hi ? Math.abs(lo) / 2 || 1 : (hi - lo) * 0.04;
  return [lo - pad, hi + pad];
}

/** Points of a series that are shown at once. */
export const shown = 400;

/** Where the newest points begin, when there are more than are shown. */
export function windowStart(series: {
  count: number;
  last?: { step?: number | string } | null;
}): number | null {
  const last = Number(series.last?.step ?? Number.NaN);
  if (series.count <= shown || !Number.isFinite(last)) return null;
  return Math.max(0, Math.floor(last - (last / series.count) * (shown - 1)));
}
