import { authorization, type Page, request } from "./client.ts";
import type { Num, Series } from "./types.ts";

/** Rendering is a video of one episode of one environment. */
export interface Rendering {
  id: string;
  env_id: string;
  episode: number;
  name?: string;
  sha256?: string;
  size_bytes: number;
  frames: number;
  frames_dropped?: number;
  fps: number;
  width: number;
  height: number;
  first_rl_step: number;
  last_rl_step: number;
  complete: boolean;
  tags: string[];
  marks: { name: string; from_frame: number; to_frame: number }[];
  time_ns: number;
  stored: boolean;
  url?: string;
}

export async function renderings(
  run: string,
  env: string,
  cursor: string,
  abort?: AbortSignal,
): Promise<Page<Rendering>> {
  const params = new URLSearchParams({ limit: "200" });
  if (env) params.set("env_id", env);
  if (cursor) params.set("cursor", cursor);
  const page = await request<{ renderings: Rendering[]; next: string | null }>(
    `/runs/${encodeURIComponent(run)}/renderings?${params}`,
    { signal: abort },
  );
  return { items: page.renderings, next: page.next ?? "" };
}

/** Where a video element finds the bytes. A key that was typed in is no cookie: then they are fetched with it. */
export async function videoSource(url: string, abort: AbortSignal): Promise<string> {
  const headers = authorization();
  if (Object.keys(headers).length === 0) return url;
  const res = await fetch(url, { headers, signal: abort });
  if (!res.ok) throw new Error(`the server answered ${res.status}`);
  return URL.createObjectURL(await res.blob());
}

/** One point of a series of documents. */
export interface DocumentPoint<T> {
  step: number | null;
  timeNs: number;
  value: T;
}

/** Points of a series as they were logged, by column. */
export async function points<T>(...args: Parameters<typeof pointsPage>): Promise<T> {
  return (await pointsPage<T>(...args)).columns;
}

/** The same, and where the page after it begins. */
export async function pointsPage<T>(
  run: string,
  { metric, scale, labels }: Series,
  more: Record<string, string>,
  abort?: AbortSignal,
): Promise<{ columns: T; next?: string | null }> {
  const params = new URLSearchParams({ metric, scale, ...more });
  for (const [name, value] of Object.entries(labels)) params.set(`label.${name}`, value);
  return request(`/runs/${encodeURIComponent(run)}/points?${params}`, { signal: abort });
}

/** The points of a series from a step on, at most `limit`; with inherited those of a fork's ancestors among them. */
export async function documents<T>(
  run: string,
  series: Series,
  from: number | null,
  limit: number,
  inherited: boolean,
  abort?: AbortSignal,
): Promise<DocumentPoint<T>[]> {
  const more = {
    limit: String(limit),
    ...(inherited && { include_inherited: "1" }),
    ...(from !== null && { from: String(from) }),
  };
  type Columns = { step?: (Num | null)[]; time_ns: Num[]; value: T[] };
  const columns = await points<Columns>(run, series, more, abort);
  return columns.value.map((value, i) => ({
    step: columns.step?.[i] == null ? null : Number(columns.step[i]),
    timeNs: Number(columns.time_ns[i]),
    value,
  }));
}
