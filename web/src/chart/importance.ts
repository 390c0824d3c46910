import type { Direction } from "./direction.ts";
import { keysOf, partsOf, readKey, type Subject } from "./grouping.ts";
import { ascending, median, ranks, separation, spearman } from "./stat.ts";
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
  const values = known.map((r) => read(r) as number);
  const ranked = ranks(values);
  const metricOf = new Map(known.map((r, i) => [r.id, { run: r, value: values[i]!, rank: ranked[i]! }]));
  const rows = keysOf(known).config.map((key) => rowOf(known, key, metricOf, direction));
  return rows.sort((a, b) => strength(b) - strength(a) || natural(a.key, b.key));
}

interface Measured {
  run: Subject;
  value: number;
  /** Among all runs. */
  rank: number;
}

/** The share of the differences in rank that a parameter explains, by the measure that explains more. */
export function strength({ rho = 0, eta = 0 }: Importance): number {
  return Math.max(rho * rho, eta);
}

function rowOf(
  known: readonly Subject[],
  key: string,
  metricOf: ReadonlyMap<string, Measured>,
  direction: Direction | undefined,
): Importance {
  const { parts, rest, numbers } = partsOf(known, key);
  const measured = parts.map((p) => p.runs.map((id) => metricOf.get(id)!));
  const set = measured.flat();
  // Where every run has the parameter, the ranks are those of all runs.
  const every = rest.length === 0;
  const read = every ? (m: Measured) => m.rank : (m: Measured) => m.value;
  const x = numbers ? set.map(({ run }) => readKey(run, key) as number) : [];
  const rho = numbers ? spearman(x, set.map(read), every) : Number.NaN;
  const told = parts.length >= 2 && parts.length <= known.length / 3;
  const values = () => measured.map((part) => part.map((m) => m.value));
  return {
    ...{ key, runs: set.length },
    rho: Number.isNaN(rho) ? undefined : rho,
    eta: told
      ? separation(
          measured.map((part) => part.map(read)),
          every,
        )
      : undefined,
    best: direction && told ? bestPart(parts, values(), direction) : undefined,
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

/** The parameter whose values separate the runs best; keys with more than n/3 values are no offer. */
export function offerOf(rows: readonly Importance[]): Importance | undefined {
  const told = rows.filter((row) => row.eta !== undefined);
  return told.sort((a, b) => b.eta! - a.eta!)[0];
}
