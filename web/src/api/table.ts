import { authorization, locked, type RunsQuery, request } from "./client.ts";
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
  member?: string;
  runs: number;
  columns: Statistics[];
}

export interface Groups {
  runs: number;
  groups: number;
  shown: RunGroup[];
}

const projectPath = (workspace: string, project: string): string =>
  `/projects/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}`;

function search(query: RunsQuery, more: Record<"by" | "column", string[]>): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") params.set(name, String(value));
  for (const [name, values] of Object.entries(more)) for (const v of values) params.append(name, v);
  return params;
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
  const path = `${projectPath(workspace, project)}/groups?${search(query, { by, column })}`;
  return request(path, { signal: abort });
}

export type Edited = { id: string; changed: boolean } | { error: ErrorBody };

/** Changes at most 500 runs. */
export async function edit(
  what: "edits" | "deletions" | "restorations",
  runs: string[],
  change: { add_tags?: string[]; remove_tags?: string[] } = {},
): Promise<Edited[]> {
  const body = JSON.stringify({ runs, ...change });
  const headers = { "Content-Type": "application/json" };
  return (await request<{ results: Edited[] }>(`/${what}`, { method: "POST", body, headers })).results;
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
  const params = search({ ...query }, { by: [], column });
  params.set("format", "csv");
  const res = await fetch(`/api/v1${projectPath(workspace, project)}/runs?${params}`, {
    headers: authorization(),
    signal: abort,
  });
  if (res.status === 401) locked.value = true;
  if (!res.ok) {
    const doc = (await res.json().catch(() => null)) as { error?: ErrorBody } | null;
    throw new Error(doc?.error?.message ?? `the server answered ${res.status}`);
  }
  const reader = res.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    each(value);
  }
}
