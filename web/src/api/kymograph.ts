import { json, respond } from "./client.ts";
import type { BucketColumns, Num } from "./types.ts";

export type Reduction = "mean" | "min" | "max";

export interface KymographRow {
  run: string;
  metric: string;
  scale: string;
  labels: Record<string, string>;
}

export interface KymographQuery {
  rows: KymographRow[];
  x: string;
  from?: number;
  to?: number;
  columns: number;
  reduce: Reduction;
  limits?: [number, number];
  cells?: false;
  /** Fewer columns where the points lie further apart. */
  fit?: true;
  include_inherited?: true;
}

export const mostRows = 4096; // that the server takes
export const mostColumns = 2048;

type List = (Num | null)[];

/** What the server says of rows and columns; NaN and Infinity come as text. */
interface Head {
  x: string;
  from: Num;
  to: Num;
  columns: number;
  limits: [Num, Num] | null;
  rows: Record<"number" | "last" | "min" | "max" | "mean" | "count" | "nan" | "pos_inf" | "neg_inf", List>;
  profile: Record<"min" | "max" | "mean" | "count" | "nan" | "pos_inf" | "neg_inf", List>;
}

/** Picture is many series at the same columns: what is known of rows and columns, and a byte for each cell. */
export interface Picture {
  from: number;
  to: number;
  columns: number;
  /** The values of the lowest and the highest level; null when no cell has a finite value. */
  limits: [number, number] | null;
  rows: RowStats;
  profile: BucketColumns;
  cells: Uint8Array;
}

/** RowStats has a value for each row, NaN where it has none. */
export interface RowStats {
  number: Float64Array;
  last: Float64Array;
  min: Float64Array;
  max: Float64Array;
  mean: Float64Array;
  nan: Float64Array;
}

/** The codes of a cell: CellFirst to CellFirst + levels − 1 are the levels of the scale; HasNaN is added to any. */
export const code = { missing: 0, empty: 1, below: 2, first: 3, above: 67, hasNaN: 128 } as const;
export const levels = 64;

export async function kymograph(query: KymographQuery, abort?: AbortSignal): Promise<Picture> {
  const res = await respond("/kymograph", { ...json("POST", shared(query)), signal: abort });
  return decode(new Uint8Array(await res.arrayBuffer()));
}

/** What all rows have in common is said once. */
function shared(query: KymographQuery): unknown {
  const first = query.rows[0]!;
  const rows = query.rows.map((row) => ({
    ...(row.run !== first.run && { run: row.run }),
    ...(row.metric !== first.metric && { metric: row.metric }),
    ...(row.scale !== first.scale && { scale: row.scale }),
    labels: row.labels,
  }));
  const { run, metric, scale } = first;
  return { ...query, run, metric, scale, rows };
}

/** A line of JSON, then the cells row by row. */
export function decode(bytes: Uint8Array): Picture {
  const end = bytes.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))) as Head;
  const { from, to, columns, limits, rows, profile } = head;
  return {
    ...{ from: Number(from), to: Number(to), columns },
    limits: limits && [Number(limits[0]), Number(limits[1])],
    rows: {
      number: numbers(rows.number),
      last: numbers(rows.last),
      min: numbers(rows.min),
      max: numbers(rows.max),
      mean: numbers(rows.mean),
      nan: numbers(rows.nan),
    },
    profile: profileOf(Number(from), Number(to), columns, profile),
    cells: bytes.subarray(end + 1),
  };
}

const numbers = (list: List): Float64Array =>
  Float64Array.from(list, (v) => (v === null ? Number.NaN : Number(v)));

/** The first x of a column of a picture; that of the column after the last is where the picture ends. */
export function columnStart(p: { from: number; to: number; columns: number }, column: number): number {
  return p.from + Math.ceil((column * (p.to - p.from + 1)) / p.columns);
}

/** The columns as buckets of a curve, those with a point. */
function profileOf(from: number, to: number, columns: number, profile: Head["profile"]): BucketColumns {
  const grid = { from, to, columns };
  const kept: number[] = [];
  for (let i = 0; i < columns; i++)
    if (
      Number(profile.count[i]) +
      Number(profile.nan[i]) +
      Number(profile.pos_inf[i]) +
      Number(profile.neg_inf[i])
    )
      kept.push(i);
  const pick = (list: List) => kept.map((i) => list[i] ?? null);
  const counts = (list: List) => kept.map((i) => list[i] ?? 0);
  return {
    lo: kept.map((i) => columnStart(grid, i)),
    hi: kept.map((i) => columnStart(grid, i + 1) - 1),
    ...{ min: pick(profile.min), max: pick(profile.max), mean: pick(profile.mean) },
    count: counts(profile.count),
    ...{ nan: counts(profile.nan), pos_inf: counts(profile.pos_inf), neg_inf: counts(profile.neg_inf) },
  };
}
