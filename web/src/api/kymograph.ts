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
  fit?: true | undefined;
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
  profile: Record<"min" | "max" | "mean" | "count" | "nan" | "pos_inf" | "neg_inf" | "rows", List>;
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

/** The picture of as many rows as the server takes. */
export async function kymograph(query: KymographQuery, abort?: AbortSignal): Promise<Picture> {
  const [head, cells] = await ask(query, abort);
  return pictureOf(head, cells);
}

/**
 * What is known of any number of rows, without cells. Of more rows than the server takes, each question has every n-th
 * one: its limits are nearly those of all. read is called with how many rows are read.
 */
export async function kymographHead(
  query: KymographQuery,
  abort?: AbortSignal,
  read: (rows: number) => void = () => {},
): Promise<Picture> {
  const parts = Math.ceil(query.rows.length / mostRows);
  const asked = Array.from({ length: parts }, (_, k): KymographQuery => {
    return { ...query, cells: false, rows: query.rows.filter((_, i) => i % parts === k) };
  });
  const heads: Head[] = [];
  let done = 0;
  for (const part of asked) {
    heads.push((await ask(part, abort))[0]);
    done += part.rows.length;
    read(done);
  }
  const grid = commonGrid(heads, query.columns);
  for (const [k, head] of heads.entries())
    if (!sameGrid(head, grid)) heads[k] = (await ask({ ...asked[k]!, ...grid, fit: undefined }, abort))[0];
  return pictureOf(joined(heads, query.rows.length), new Uint8Array(0));
}

async function ask(query: KymographQuery, abort?: AbortSignal): Promise<[Head, Uint8Array]> {
  const res = await respond("/kymograph", { ...json("POST", shared(query)), signal: abort });
  return split(new Uint8Array(await res.arrayBuffer()));
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
export const decode = (bytes: Uint8Array): Picture => pictureOf(...split(bytes));

function split(bytes: Uint8Array): [Head, Uint8Array] {
  const end = bytes.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))) as Head;
  return [head, bytes.subarray(end + 1)];
}

function pictureOf({ from, to, columns, limits, rows, profile }: Head, cells: Uint8Array): Picture {
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
    cells,
  };
}

interface Grid {
  from: number;
  to: number;
  columns: number;
}

const sameGrid = (head: Head, { from, to, columns }: Grid): boolean =>
  Number(head.from) === from && Number(head.to) === to && head.columns === columns;

/** The columns over all parts that have a point: as wide as the points of the densest are apart. */
function commonGrid(heads: Head[], most: number): Grid {
  const filled = heads.filter((h) => counts.some((name) => h.profile[name].some((n) => Number(n) > 0)));
  const grids = (filled.length ? filled : heads.slice(0, 1)).map((h) => ({
    ...{ from: Number(h.from), to: Number(h.to), columns: h.columns },
  }));
  const [from, to] = [Math.min(...grids.map((g) => g.from)), Math.max(...grids.map((g) => g.to))];
  if (grids.every((g) => g.from === from && g.to === to))
    return { from, to, columns: Math.max(...grids.map((g) => g.columns)) };
  const density = grids.map((g) => (g.to > g.from ? (g.columns - 1) / (g.to - g.from) : 1));
  const columns = Math.ceil((to - from + 1) * Math.max(...density) - 1e-9);
  return { from, to, columns: Math.max(1, Math.min(most, columns)) };
}

/** The heads of parts of which each has every n-th row, on one grid, as that of all rows. */
function joined(heads: Head[], rows: number): Head {
  const [first] = heads as [Head];
  if (heads.length === 1) return first;
  const interleaved = (name: keyof Head["rows"]): List =>
    Array.from(
      { length: rows },
      (_, i) => heads[i % heads.length]!.rows[name][Math.floor(i / heads.length)]!,
    );
  const columns = (name: keyof Head["profile"], of: (values: number[], rows: number[]) => number): List =>
    first.profile[name].map((_, c) => {
      const filled = heads.filter((h) => h.profile[name][c] !== null);
      const values = (list: keyof Head["profile"]) => filled.map((h) => Number(h.profile[list][c]));
      return filled.length ? of(values(name), values("rows")) : null;
    });
  const sum = (values: number[]) => values.reduce((all, v) => all + v, 0);
  const limits = heads.flatMap((h) => (h.limits ? [h.limits.map(Number)] : []));
  const end = (i: number) => limits.reduce((all, l) => all + l[i]! / limits.length, 0);
  return {
    ...first,
    limits: limits.length ? [end(0), end(1)] : null,
    rows: fromNames(Object.keys(first.rows) as (keyof Head["rows"])[], interleaved),
    profile: {
      ...fromNames([...counts, "rows"], (name) => columns(name, sum)),
      min: columns("min", (values) => Math.min(...values)),
      max: columns("max", (values) => Math.max(...values)),
      mean: columns("mean", (values, rows) =>
        values.reduce((all, v, i) => all + (v * rows[i]!) / sum(rows), 0),
      ),
    },
  };
}

const counts = ["count", "nan", "pos_inf", "neg_inf"] as const;

const fromNames = <N extends string>(names: readonly N[], of: (name: N) => List): Record<N, List> =>
  Object.fromEntries(names.map((name) => [name, of(name)])) as Record<N, List>;

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
