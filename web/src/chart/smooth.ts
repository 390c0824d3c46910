export type Smoothing = { kind: "none" } | { kind: "ema"; weight: number } | { kind: "gauss"; width: number };

/** Smooths values over drawn buckets; places without a finite value stay empty and change nothing around them. */
export function smooth(x: Float64Array, y: Float64Array, how: Smoothing): Float64Array {
  if (how.kind === "ema") return ema(y, how.weight);
  if (how.kind === "gauss") return gauss(x, y, how.width);
  return y;
}

/** Exponential moving average, de-biased: the k-th value is divided by 1 − weight^k, so the start does not sag to 0. */
export function ema(y: Float64Array, weight: number): Float64Array {
  const out = new Float64Array(y.length).fill(Number.NaN);
  let [sum, norm] = [0, 0];
  for (let i = 0; i < y.length; i++) {
    const v = y[i]!;
    if (!Number.isFinite(v)) continue;
    sum = weight * sum + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    out[i] = sum / norm;
  }
  return out;
}

/** Gaussian over x with a standard deviation of width × the drawn span, renormalised where the window leaves the curve. */
export function gauss(x: Float64Array, y: Float64Array, width: number): Float64Array {
  const out = new Float64Array(y.length).fill(Number.NaN);
  const span = x.length > 1 ? x[x.length - 1]! - x[0]! : 0;
  const sigma = width * span;
  if (!(sigma > 0)) return y.slice();
  let first = 0;
  for (let i = 0; i < y.length; i++) {
    if (!Number.isFinite(y[i])) continue;
    while (x[i]! - x[first]! > 3 * sigma) first++;
    let [sum, norm] = [0, 0];
    for (let j = first; j < y.length && x[j]! - x[i]! <= 3 * sigma; j++) {
      if (!Number.isFinite(y[j])) continue;
      const d = (x[j]! - x[i]!) / sigma;
      const w = Math.exp(-0.5 * d * d);
      sum += w * y[j]!;
      norm += w;
    }
    out[i] = sum / norm;
  }
  return out;
}
