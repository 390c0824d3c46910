import type { Direction } from "./direction.ts";
import { keysOf, partsOf, readKey, type Subject } from "./grouping.ts";
import { ascending, median, separation, spearman } from "./stat.ts";
import { natural } from "./title.ts";

/** Importance is how a parameter and a metric go together over some runs. It is a correlation, and no cause. */
export interface Importance {
  key: string;
  /** Runs with both values. */
  runs: number;
  /** Spearman's rank correlation; undefined where values are no numbers or do not vary. */
  rho: number | undefined;
  /** η² of Kruskal–Wallis over the values, or five bins of them; undefined where there are more than n/3 values. */
  eta: number | undefined;
  /** The value, or bin, whose runs have the best median. */
  best: { label: string; median: number; runs: number } | undefined;
}

const fewest = 3; // runs of which a correlation says anything

/** The parameters by how much of the metric's ranks they explain, the most first. */
export function importanceOf(
  runs: readonly Subject[],
  metric: string,
  direction: Direction | undefined,
): Importance[] {
  const read = (run: Subject) => readKey(run, `summary/${metric}`) as number | undefined;
  const known = runs.filter((r) => Number.isFinite(read(r) ?? Number.NaN));
  if (known.length < fewest) return [];
  const rows = keysOf(known).config.map((key) =>
    rowOf(known, key, read as (run: Subject) => number, direction),
  );
  return rows.sort((a, b) => strength(b) - strength(a) || natural(a.key, b.key));
}

/** The share of the differences in rank that a parameter explains, by the measure that explains more. */
export function strength({ rho = 0, eta = 0 }: Importance): number {
  return Math.max(rho * rho, eta);
}

function rowOf(
  known: readonly Subject[],
  key: string,
  read: (run: Subject) => number,
  direction: Direction | undefined,
): Importance {
  const { parts, numbers } = partsOf(known, key);
  const of = new Map(known.map((r) => [r.id, r]));
  const values = parts.map((p) => p.runs.map((id) => read(of.get(id)!)));
  const set = parts.flatMap((p) => p.runs.map((id) => of.get(id)!));
  const rho = numbers
    ? spearman(
        set.map((r) => readKey(r, key) as number),
        set.map(read),
      )
    : Number.NaN;
  const told = parts.length >= 2 && parts.length <= known.length / 3;
  return {
    ...{ key, runs: set.length },
    rho: Number.isNaN(rho) ? undefined : rho,
    eta: told ? separation(values) : undefined,
    best: direction && told ? bestPart(parts, values, direction) : undefined,
  };
}

function bestPart(parts: { label: string }[], values: number[][], direction: Direction): Importance["best"] {
  const sign = direction === "up" ? 1 : -1;
  const all = parts.map((p, i) => ({
    label: p.label,
    median: median(ascending(values[i]!)),
    runs: values[i]!.length,
  }));
  return all.sort((a, b) => sign * (b.median - a.median))[0];
}
