/** Ticks at 1, 2, 2.5 and 5 × 10^k: the finest of these with at most `most` ticks within min…max. */
export function linearTicks(min: number, max: number, most: number): number[] {
  const span = max - min;
  if (!(span > 0) || most < 1) return [];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const fits = (step: number) => Math.floor(max / step + 1e-9) - Math.ceil(min / step - 1e-9) + 1 <= most;
  const step = [1, 2, 2.5, 5, 10, 20].map((m) => m * power).find(fits) ?? 50 * power;
  return multiples(min, max, step);
}

function multiples(min: number, max: number, step: number): number[] {
  const out: number[] = [];
  // Multiplying an integer keeps 0.1 × 3 from drifting as adding would.
  for (let k = Math.ceil(min / step - 1e-9); k * step <= max + step * 1e-9; k++) {
    const inverse = 1 / step;
    out.push(step < 1 ? k / (Math.round(inverse * 1e6) / 1e6) : k * step);
  }
  return out;
}

/** Ticks of a log axis given in log10: decades, thinned or with 2 and 5 between so that there are about `most`. */
export function logTicks(min: number, max: number, most: number): number[] {
  const decades = max - min;
  if (decades <= 0) return [];
  if (decades < 0.7)
    return linearTicks(10 ** min, 10 ** max, most)
      .filter((v) => v > 0)
      .map(Math.log10);
  const mantissas = decades * 3 <= most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / most));
  const out: number[] = [];
  for (let k = Math.floor(min); k <= Math.ceil(max); k++)
    for (const m of k % every === 0 ? mantissas : []) {
      const at = k + Math.log10(m);
      if (at >= min && at <= max) out.push(at);
    }
  return out.length >= 2
    ? out
    : linearTicks(10 ** min, 10 ** max, most)
        .filter((v) => v > 0)
        .map(Math.log10);
}

const second = 1;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * second),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
  ...[1, 2, 3, 6, 12].map((n) => n * hour),
  ...[1, 2, 7, 14, 30, 60, 180, 365].map((n) => n * day),
];

/** Ticks of a time axis in seconds; offset is the zone's, so that ticks fall on local midnight. */
export function timeTicks(min: number, max: number, most: number, offset = 0): number[] {
  const raw = (max - min) / most;
  if (!(raw > 0)) return [];
  if (raw < 1) return linearTicks(min, max, most);
  const step = steps.find((s) => s >= raw) ?? Math.ceil(raw / (365 * day)) * 365 * day;
  return multiples(min + offset, max + offset, step).map((t) => t - offset);
}
