import { json, projectPath, type RunsQuery, request, respond, withQuery } from "./client.ts";
import type { ErrorBody, Value } from "./types.ts";

export interface Ref {
  id: string;
  name: string;
  display_name: string;
}

/** Of the finite values of a column. */
export interface Statistics {
  n: number;
  not_finite?: number;
  mean: number | null;
  std: number | null;
  min: number | null;
  max: number | null;
  min_run: Ref | null;
  max_run: Ref | null;
}

export interface RunGroup {
  /** Of each key; null where its runs have none. */
  values: Value[];
  /** Of the values: 1 and "1" are two groups. */
  types: (string | null)[];
  member?: string;
  runs: number;
  columns: Statistics[];
}

export interface Groups {
  runs: number;
  groups: number;
  shown: RunGroup[];
}

/** All runs of a filter, by what they have in common; one group of all without a key. */
export function groups(
  workspace: string,
  project: string,
  query: RunsQuery,
  by: string[],
  column: string[],
  abort?: AbortSignal,
): Promise<Groups> {
  const path = withQuery(`${projectPath(workspace, project)}/groups`, { ...query, by, column });
  return request(path, { signal: abort });
}

export type Edited = { id: string; changed: boolean } | { error: ErrorBody };

/** Changes at most 500 runs. */
export async function edit(
  what: "edits" | "deletions" | "restorations",
  runs: string[],
  change: { add_tags?: string[]; remove_tags?: string[] } = {},
): Promise<Edited[]> {
  return (await request<{ results: Edited[] }>(`/${what}`, json("POST", { runs, ...change }))).results;
}

/** All runs of a filter as CSV, piece by piece. A broken connection is an error, never a short file. */
export async function csv(
  workspace: string,
  project: string,
  query: RunsQuery,
  column: string[],
  each: (piece: Uint8Array<ArrayBuffer>) => void,
  abort: AbortSignal,
): Promise<void> {
  const path = withQuery(`${projectPath(workspace, project)}/runs`, { ...query, column, format: "csv" });
  const res = await respond(path, { signal: abort });
  const reader = res.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    each(value);
  }
}
