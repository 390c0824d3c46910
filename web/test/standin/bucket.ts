import type { Curve } from "./data.ts";

export interface BucketColumns {
  lo: number[];
  hi: number[];
  min: (number | null)[];
  max: (number | null)[];
  mean: (number | null)[];
  count: number[];
  nan: number[];
  pos_inf: number[];
  neg_inf: number[];
  inherited?: number[];
}

/** The contract's buckets by the plainest scan there is: this is also the oracle of the browser tests. */
export function buckets(curve: Curve, axis: string, n: number, from?: number, to?: number): BucketColumns {
  const out: BucketColumns = {
    lo: [],
    hi: [],
    min: [],
    max: [],
    mean: [],
    count: [],
    nan: [],
    pos_inf: [],
    neg_inf: [],
  };
  const x = curve.columns[axis];
  if (!x) return out;
  if (curve.inherited) out.inherited = [];
  let first = 0;
  let last = x.length - 1;
  while (from !== undefined && first <= last && x[first]! < from) first++;
  while (to !== undefined && last >= first && x[last]! > to) last--;
  if (first > last) return out;
  const width = (x[last]! - x[first]!) / n;
  let i = first;
  for (let b = 1; b <= n && i <= last; b++) {
    const edge = b === n ? x[last]! : x[first]! + width * b;
    if (x[i]! > edge) continue;
    const lo = x[i]!;
    let [min, max, sum, count, nan, pinf, ninf] = [Infinity, -Infinity, 0, 0, 0, 0, 0];
    let [hi, inherited] = [lo, 0];
    for (; i <= last && x[i]! <= edge; i++) {
      const v = curve.value[i]!;
      hi = x[i]!;
      inherited += curve.inherited?.[i] ?? 0;
      if (Number.isNaN(v)) nan++;
      else if (v === Infinity) pinf++;
      else if (v === -Infinity) ninf++;
      else {
        count++;
        sum += v;
        if (v < min) min = v;
        if (v > max) max = v;
      }
    }
    out.lo.push(lo);
    out.hi.push(hi);
    out.min.push(count ? min : null);
    out.max.push(count ? max : null);
    out.mean.push(count ? sum / count : null);
    out.count.push(count);
    out.nan.push(nan);
    out.pos_inf.push(pinf);
    out.neg_inf.push(ninf);
    out.inherited?.push(inherited);
  }
  return out;
}
