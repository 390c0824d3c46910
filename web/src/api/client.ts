import { signal } from "@preact/signals";
import type {
  BucketColumns,
  BucketQuery,
  BucketResult,
  EnvAttribute,
  ErrorBody,
  Project,
  Run,
  RunDetail,
  Series,
  Value,
  Writer,
} from "./types.ts";

/** Raised for every answer that is not a success, with what to do about it. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly column: number;
  constructor(status: number, body: ErrorBody) {
    super(body.message);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint;
    this.column = body.column ?? 0;
  }
}

/** True while the server wants a key that we do not have. */
export const locked = signal(false);

/** When the server stopped to answer; 0 while it does. */
export const offlineSince = signal(0);

export function noteServer(answers: boolean): void {
  if (answers) offlineSince.value = 0;
  else offlineSince.value ||= Date.now();
}

/** What the server said last that this reader may do with the project; null before it did. */
const rights = signal<string | null>(null);

/** Whether the page offers what needs a right; where nothing is known the server decides. */
export const may = (scope: "ingest" | "admin"): boolean =>
  rights.value === null || rights.value.split(/,\s*/).includes(scope);

const keyName = "kymogram.key";

/** The key lives as long as the tab, so that a borrowed machine forgets it. */
export function setKey(key: string): void {
  sessionStorage.setItem(keyName, key);
  rights.value = null;
  locked.value = false;
}

export function authorization(): Record<string, string> {
  const key = sessionStorage.getItem(keyName);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** Whatever was thrown as what a page shows; only a fault of the page itself is no ApiError yet. */
export function asApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  return new ApiError(0, { code: "page", message: String(cause), hint: "reload the page" });
}

async function problem(res: Response): Promise<ApiError> {
  const fallback = { code: "http", message: `the server answered ${res.status}`, hint: "" };
  const body = await res.json().catch(() => null);
  return new ApiError(res.status, { ...fallback, ...(body?.error as ErrorBody | undefined) });
}

/** Asks the server; quiet leaves the page open when the server wants a key. */
export async function request<T>(path: string, init: RequestInit = {}, quiet = false): Promise<T> {
  const res = await respond(path, init, quiet);
  return (res.status === 204 ? null : res.json()) as Promise<T>;
}

/** The answer of a success, for what is no JSON. */
export async function respond(path: string, init: RequestInit = {}, quiet = false): Promise<Response> {
  let res: Response;
  try {
    res = await fetch(`/api/v1${path}`, { ...init, headers: { ...authorization(), ...init.headers } });
  } catch (cause) {
    if ((cause as Error).name === "AbortError") throw cause;
    noteServer(false);
    const hint = "is `kymogram serve` still running? This page tries again by itself.";
    throw new ApiError(0, { code: "unreachable", message: "the server does not answer", hint });
  }
  noteServer(true);
  const said = res.headers.get("Kymogram-Rights");
  if (said !== null) rights.value = said;
  if (res.ok) return res;
  if (res.status === 401 && !quiet && path !== "/session") locked.value = true;
  throw await problem(res);
}

export function json(method: string, body: unknown): RequestInit {
  return { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
}

/** A path with its parameters; a list is a parameter for each of its values. */
export function withQuery(
  path: string,
  query: Record<string, string | number | readonly string[] | undefined>,
): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of typeof value === "object" ? value : [value])
      if (one !== undefined && one !== "") params.append(name, String(one));
  return params.size ? `${path}?${params}` : path;
}

export const projectPath = (workspace: string, project: string): string =>
  `/projects/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}`;

export interface Page<T> {
  items: T[];
  next: string;
}

export async function projects(): Promise<Project[]> {
  const all: Project[] = [];
  let cursor = "";
  do {
    const page = await request<{ projects: Project[] | null; next?: string }>(
      withQuery("/projects", { limit: 500, cursor }),
    );
    all.push(...(page.projects ?? []));
    cursor = page.next ?? "";
  } while (cursor);
  return all;
}

export interface RunsQuery {
  q?: string;
  status?: string;
  sort?: string;
  deleted?: number;
  limit?: number;
  cursor?: string;
  /** RunGroup.member: the runs of a group only. */
  group?: string;
  /** Columns whose values a list does not bring by itself. */
  column?: readonly string[];
}

/** Runs, and what the reader may have meant where no run has what the query names; else "". */
export interface RunsPage extends Page<Run> {
  hint: string;
}

export async function runs(
  workspace: string,
  project: string,
  query: RunsQuery,
  abort?: AbortSignal,
): Promise<RunsPage> {
  const path = withQuery(`${projectPath(workspace, project)}/runs`, { ...query });
  const res = await respond(path, { signal: abort });
  const page = (await res.json()) as { runs: Run[] | null; next?: string };
  const hint = unescaped(res.headers.get("Kymogram-Hint") ?? "");
  return { items: (page.runs ?? []).map(normalRun), next: page.next ?? "", hint };
}

/** A header's text: characters beyond ASCII come as \u and their number. */
const unescaped = (text: string): string =>
  text.replace(/\\(?:u([\da-f]{4})|U([\da-f]{8})|\\)/g, (_, short?: string, long?: string) =>
    short || long ? String.fromCodePoint(Number.parseInt((short ?? long)!, 16)) : "\\",
  );

function normalRun(run: Run): Run {
  return { ...run, tags: run.tags ?? [], config: asMap(run.config), summary: run.summary ?? {} };
}

type Pairs = Record<string, Value> | { path: string; value: Value }[] | null | undefined;

function asMap(pairs: Pairs): Record<string, Value> {
  if (!Array.isArray(pairs)) return pairs ?? {};
  return Object.fromEntries(pairs.map((pair) => [pair.path, pair.value]));
}

/** The id of the run of a name in a project. */
export async function resolve(workspace: string, project: string, name: string): Promise<string> {
  const found = await request<{ id: string }>(
    withQuery("/resolve", { run: `${workspace}/${project}/${name}` }),
  );
  return found.id;
}

export async function run(id: string, abort?: AbortSignal): Promise<RunDetail> {
  return normalDetail(await request(`/runs/${encodeURIComponent(id)}`, { signal: abort }));
}

function normalDetail(doc: Record<string, unknown>): RunDetail {
  const ledger = (doc.ledger ?? {}) as Partial<RunDetail["ledger"]>;
  return {
    ...normalRun(doc as unknown as Run),
    attributes: asMap(doc.attributes as Pairs),
    envAttributes: (doc.env_attributes as EnvAttribute[] | null) ?? [],
    attempts: (doc.attempts as RunDetail["attempts"] | null) ?? [],
    writers: Array.isArray(doc.writers) ? (doc.writers as Writer[]) : [],
    ledger: {
      logged: 0,
      stored: 0,
      superseded: 0,
      refused: 0,
      dropped: 0,
      spooled: null,
      ...ledger,
      skipped: ledger.skipped ?? [],
      damaged: ledger.damaged ?? [],
    },
    lineage: { ancestors: [], broken: null, forks: [], ...(doc.lineage as Partial<RunDetail["lineage"]>) },
    shared: (doc.shared_environments as RunDetail["shared"] | null) ?? [],
    seriesCount: Number(doc.series ?? doc.series_count ?? 0),
  };
}

export function edit(
  id: string,
  change: { tags?: string[]; display_name?: string; description?: string },
): Promise<Run> {
  return request<Run>(`/runs/${encodeURIComponent(id)}`, json("PATCH", change)).then(normalRun);
}

/** Regular expressions (RE2) on a metric's name: all of q must match, and none of not. */
export interface Search {
  q: readonly string[];
  not: readonly string[];
}

export interface SeriesQuery {
  q?: string | readonly string[];
  not?: readonly string[];
  kind?: readonly string[];
  limit?: number;
  cursor?: string;
  preview?: number;
  /** 1 without a word. */
  include_inherited?: 0 | 1;
}

export async function series(id: string, query: SeriesQuery, abort?: AbortSignal): Promise<Page<Series>> {
  const path = withQuery(`/runs/${encodeURIComponent(id)}/series`, { include_inherited: 1, ...query });
  return seriesPage(await request(path, { signal: abort }));
}

interface SeriesDoc {
  series?: Series[] | null;
  next?: string;
}

function seriesPage(page: SeriesDoc): Page<Series> {
  const items = (page.series ?? []).map((s) => ({ ...s, labels: s.labels ?? {}, axes: s.axes ?? [] }));
  return { items, next: page.next ?? "" };
}

export interface Overview {
  /** null where it was not asked for. */
  detail: RunDetail | null;
  series: Page<Series>;
}

export interface OverviewsQuery {
  q?: string;
  limit: number;
  preview: number;
  summary?: boolean;
  detail?: boolean;
  metrics?: boolean;
}

export interface Overviews {
  /** Each run with the first of its series, or with why it cannot be read. */
  list: (Overview | ApiError)[];
  /** The metrics of all of them, where these were asked for. */
  metrics: { metric: string; scale: string }[];
  cut: boolean;
}

/** Many runs, each with the first of its series. */
export async function overviews(
  ids: string[],
  query: OverviewsQuery,
  abort?: AbortSignal,
): Promise<Overviews> {
  const body = json("POST", { runs: ids, ...query, include_inherited: true });
  type Doc = SeriesDoc & { run?: Record<string, unknown>; error?: ErrorBody };
  type Answer = { overviews: Doc[]; metrics?: Overviews["metrics"]; metrics_cut?: boolean };
  const answer = await request<Answer>("/overviews", { ...body, signal: abort });
  const list = answer.overviews.map((doc) =>
    doc.error
      ? new ApiError(200, doc.error)
      : { detail: doc.run ? normalDetail(doc.run) : null, series: seriesPage(doc) },
  );
  return { list, metrics: answer.metrics ?? [], cut: answer.metrics_cut ?? false };
}

const columns: (keyof BucketColumns)[] = [
  ...(["lo", "hi", "min", "max", "mean", "count"] as const),
  ...(["nan", "pos_inf", "neg_inf", "inherited"] as const), // named, so that they come only where they are not all 0
];

export async function buckets(queries: BucketQuery[], digits: number): Promise<BucketResult[]> {
  const body = json("POST", { queries, columns, digits });
  return (await request<{ results: BucketResult[] }>("/buckets", body)).results;
}

/** Ends the session of the page and forgets the key of this tab. */
export async function logout(): Promise<void> {
  sessionStorage.removeItem(keyName);
  await request("/session", { method: "DELETE" });
}

export function login(token: string): Promise<unknown> {
  return request("/session", json("POST", { token }));
}
