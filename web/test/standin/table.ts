import type { Num } from "../../src/api/types.ts";
import type { StandinRun } from "./data.ts";

/** A run as the stand-in lists it. */
interface Row {
  id: string;
  name: string;
  display_name: string;
  status: string;
  config: Record<string, unknown>;
  summary: Record<string, { value: Num; min?: Num; max?: Num }>;
}

/** What a run is grouped by. */
export const keyOfRun = (run: Row, key: string): unknown =>
  key === "status" ? run.status : (run.config[key.replace(/^config\//, "")] ?? null);

const typeOf = (v: unknown) =>
  v === null ? null : typeof v === "number" ? "float64" : typeof v === "boolean" ? "bool" : "string";

function numberOf(run: Row, column: string): number {
  const metric = /^(last|min|max)\("?(.*?)"?\)$/.exec(column);
  if (!metric) return Number(run.config[column.replace(/^config\//, "")] ?? Number.NaN);
  const summary = run.summary[metric[2]!];
  const of = metric[1] === "last" ? "value" : (metric[1] as "min" | "max");
  return Number(summary?.[of] ?? summary?.value ?? Number.NaN);
}

function statistics(runs: Row[], column: string) {
  const all = runs.map((run) => ({ run, v: numberOf(run, column) })).filter(({ v }) => Number.isFinite(v));
  const n = all.length;
  const mean = all.reduce((sum, { v }) => sum + v, 0) / n;
  const std = Math.sqrt(all.reduce((sum, { v }) => sum + (v - mean) ** 2, 0) / (n - 1));
  const sorted = [...all].sort((a, b) => a.v - b.v);
  const ref = (x: (typeof all)[0] | undefined) =>
    x ? { id: x.run.id, name: x.run.name, display_name: x.run.display_name } : null;
  return {
    ...{ n, mean: n ? mean : null, std: n > 1 ? std : null },
    ...{ min: sorted[0]?.v ?? null, max: sorted.at(-1)?.v ?? null },
    ...{ min_run: ref(sorted[0]), max_run: ref(sorted.at(-1)) },
  };
}

/** The answer of /groups; a member is its keys and values. */
export function groupsOf(runs: Row[], q: URLSearchParams) {
  const by = q.getAll("by");
  const groups = new Map<string, Row[]>();
  if (by.length === 0) groups.set("", []);
  for (const run of runs) {
    const key = by.length ? JSON.stringify([by, by.map((k) => keyOfRun(run, k))]) : "";
    const of = groups.get(key);
    if (of) of.push(run);
    else groups.set(key, [run]);
  }
  const shown = [...groups].map(([member, of]) => ({
    values: by.map((k) => keyOfRun(of[0]!, k)),
    types: by.map((k) => typeOf(keyOfRun(of[0]!, k))),
    ...(member && { member }),
    runs: of.length,
    columns: q.getAll("column").map((c) => statistics(of, c)),
  }));
  shown.sort((a, b) => b.runs - a.runs);
  return { runs: runs.length, groups: shown.length, shown };
}

/** The answer of the routes that change many runs. */
export function edited(
  all: ReadonlyMap<string, StandinRun>,
  what: string,
  body: { runs: string[]; add_tags?: string[]; remove_tags?: string[] },
) {
  const results = body.runs.map((id) => {
    const run = all.get(id);
    if (!run) return { error: { code: "not_found", message: `there is no run ${id}`, hint: "" } };
    const before = JSON.stringify([run.tags, !!run.deleted]);
    if (what === "edits")
      run.tags = [...new Set([...run.tags, ...(body.add_tags ?? [])])]
        .filter((t) => !body.remove_tags?.includes(t))
        .sort();
    else run.deleted = what === "deletions";
    return { id, changed: JSON.stringify([run.tags, !!run.deleted]) !== before };
  });
  return { results };
}

export const csvOf = (runs: Row[], columns: string[]): string =>
  [
    columns,
    ...runs.map((r) =>
      columns.map((c) => (c === "id" || c === "name" || c === "status" ? r[c] : numberOf(r, c))),
    ),
  ]
    .map((line) => `${line.join(",")}\n`)
    .join("");
