import type { RunGroup } from "../api/table.ts";
import type { Run } from "../api/types.ts";
import { dateTime, full, told } from "../chart/number.ts";
import type { RunList } from "./runlist.ts";

/** Which statistic of a group its rows show. */
export type Show = "mean" | "min" | "max";

/** Line is a row of the table: a group, or a run, which may not be read yet. */
export type Line = { group: RunGroup; open: boolean } | { run: Run | undefined; group?: undefined };

/** The values of a group's keys, as people read them: no two look alike. */
export function groupLabel(group: RunGroup, by: readonly string[]): string {
  const text = (i: number): string => {
    const [value, type] = [group.values[i]!, group.types[i]];
    if (type === "string") return told(value as string);
    if (type === "string_set") return `[${(value as string[]).join(", ")}]`;
    if (type === "time") return `${dateTime(Number(value), true)} (${value} ns)`;
    return type ? full(value as string) : "none";
  };
  return by.map((key, i) => `${key.replace(/^config\//, "")} = ${text(i)}`).join(" · ");
}

/** TableRows is what the table draws: rows by their place, and the reading of those in view. */
export interface TableRows {
  total: number;
  groups: readonly RunGroup[];
  at(row: number): Line;
  /** Reads the runs of these rows. */
  reach(first: number, end: number): void;
  /** Loaded runs, in order. */
  runs: readonly Run[];
}

export function flatRows(list: RunList, runs: readonly Run[], total: number): TableRows {
  return { total, runs, groups: [], at: (row) => ({ run: runs[row] }), reach: (_, end) => list.reach(end) };
}

/** Groups with the runs of those that are open below them. */
export function groupedRows(
  groups: readonly RunGroup[],
  lists: ReadonlyMap<string, RunList>,
  read: (list: RunList) => readonly Run[],
): TableRows {
  const starts: number[] = [];
  const runs: Run[] = [];
  let total = 0;
  for (const g of groups) {
    starts.push(total);
    const list = lists.get(g.member ?? "");
    total += 1 + (list ? g.runs : 0);
    if (list) for (const run of read(list)) runs.push(run);
  }
  const groupAt = (row: number): number => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const at = (row: number): Line => {
    const g = groupAt(row);
    const group = groups[g]!;
    const list = lists.get(group.member ?? "");
    if (starts[g] === row) return { group, open: !!list };
    return { run: list && read(list)[row - starts[g]! - 1] };
  };
  const reach = (first: number, end: number): void => {
    if (groups.length === 0) return;
    for (let g = groupAt(first); g < groups.length && starts[g]! < end; g++)
      lists.get(groups[g]!.member ?? "")?.reach(end - starts[g]! - 1);
  };
  return { total, runs, groups, at, reach };
}
