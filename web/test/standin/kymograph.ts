import type { Curve } from "./data.ts";

interface Query {
  x: string;
  from?: number;
  to?: number;
  columns: number;
  limits?: [number, number];
  cells?: boolean;
}

/** The contract's picture of many curves by the plainest scan there is: each cell is the mean of its points. */
export function picture(curves: (Curve | undefined)[], q: Query): Buffer {
  const rows = curves.map((curve) => {
    const x = curve?.columns[q.x];
    return x ? Array.from(x, (at, i) => ({ x: at, v: curve!.value[i]! })) : [];
  });
  const all = rows.flat();
  const from = q.from ?? least(all.map((p) => p.x));
  const to = q.to ?? -least(all.map((p) => -p.x));
  const width = to - from + 1;
  const dense = Math.max(1, ...rows.map((r) => r.filter((p) => p.x >= from && p.x <= to).length));
  const columns = Math.max(1, Math.min(q.columns, width, dense));
  const cells = rows.map((row) => {
    const at: number[][] = Array.from({ length: columns }, () => []);
    for (const p of row)
      if (p.x >= from && p.x <= to) at[Math.floor(((p.x - from) * columns) / width)]!.push(p.v);
    return at;
  });
  const means = cells.map((row) => row.map((v) => mean(v)));
  const known = means.flat().filter((v) => v !== null);
  const limits = q.limits ?? (known.length ? [least(known), -least(known.map((v) => -v))] : null);
  const columnOf = (c: number) => cells.flatMap((row) => row[c]!);
  const each = Array.from({ length: columns }, (_, c) => c);
  const head = {
    ...{ x: q.x, from, to, columns, limits },
    rows: {
      number: rows.map((_, i) => i),
      last: rows.map((r) => r.at(-1)?.v ?? null),
      ...summary(
        rows.map((r) => r.filter((p) => p.x >= from && p.x <= to).map((p) => p.v)),
        (v) => mean(v),
      ),
    },
    profile: {
      ...summary(each.map(columnOf), () => null),
      mean: each.map((c) => mean(means.flatMap((row) => row[c] ?? []))),
      rows: each.map((c) => means.filter((row) => row[c] !== null).length),
    },
  };
  const code = (v: number[], m: number | null) =>
    (m === null ? Math.sign(v.length) : level(m, limits!)) | (v.some(Number.isNaN) ? 128 : 0);
  const bytes = cells.flatMap((row, r) => row.map((v, c) => code(v, means[r]![c]!)));
  const line = Buffer.from(`${JSON.stringify(head)}\n`);
  return q.cells === false ? line : Buffer.concat([line, Buffer.from(bytes)]);
}

function level(v: number, [lo, hi]: number[]): number {
  if (v < lo!) return 2;
  if (v > hi!) return 67;
  return lo === hi ? 35 : 3 + Math.min(63, Math.floor(((v - lo!) / (hi! - lo!)) * 64));
}

function summary(lists: number[][], meanOf: (v: number[]) => number | null) {
  const finite = lists.map((v) => v.filter(Number.isFinite));
  const counted = (test: (v: number) => boolean) => lists.map((v) => v.filter(test).length);
  return {
    min: finite.map((v) => (v.length ? least(v) : null)),
    max: finite.map((v) => (v.length ? -least(v.map((n) => -n)) : null)),
    mean: lists.map(meanOf),
    count: finite.map((v) => v.length),
    nan: counted(Number.isNaN),
    pos_inf: counted((v) => v === Infinity),
    neg_inf: counted((v) => v === -Infinity),
  };
}

/** Without spreading, which has a limit. */
const least = (v: number[]): number => v.reduce((a, b) => Math.min(a, b), v[0] ?? 0);

function mean(values: number[]): number | null {
  const finite = values.filter(Number.isFinite);
  return finite.length ? finite.reduce((n, v) => n + v / finite.length, 0) : null;
}
