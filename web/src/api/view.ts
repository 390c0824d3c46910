import { ApiError, json, projectPath, request, respond } from "./client.ts";

/** A view document, as docs/format/view.md has it. The server refuses any other. */
export interface ViewDocument {
  format: 1;
  title: string;
  description?: string;
  /** How far back the panels look at first, such as 24h. */
  last?: string;
  /** What lines show of an axis at first. */
  axes?: Record<string, [number, number]>;
  /** A view has panels, or a page. */
  panels?: PanelSpec[];
  page?: PageSpec;
}

/** How the page of a project shows its runs and charts. Fields that this version does not know are kept. */
export interface PageSpec {
  params?: Record<string, string>;
  pinned?: string[];
  sections?: Section[];
  /** Sections that come first, and those that show only their name: +TITLE, /PREFIX, or pinned. */
  order?: string[];
  folded?: string[];
}

/** Charts in the order of a reader: in a section that was made, or the first ones of a prefix. */
export interface Section {
  title: string;
  made?: boolean;
  metrics?: string[];
}

export interface PanelSpec {
  title: string;
  description?: string;
  kind: "line" | "stat" | "table";
  query: { metrics: string[]; runs?: string; tags?: string[]; labels?: Record<string, string> };
  axis?: string;
  reduce?: Reduction;
  by?: string[];
  columns?: string;
  order?: "asc" | "desc";
  top?: number;
  unit?: string;
}

export type Reduction = "last" | "mean" | "min" | "max" | "count" | "nan" | "time";

export interface ViewInfo {
  name: string;
  title: string;
  /** 0 for a view of the project's page. */
  panels: number;
  etag: string;
  changed_ns: number;
}

const base = (workspace: string, project: string) => `${projectPath(workspace, project)}/views`;

/** The views of a project; quiet as for request. */
export async function views(workspace: string, project: string, quiet = false): Promise<ViewInfo[]> {
  return (await request<{ views: ViewInfo[] }>(base(workspace, project), {}, quiet)).views;
}

const one = (workspace: string, project: string, name: string) =>
  `${base(workspace, project)}/${encodeURIComponent(name)}`;

export function view(workspace: string, project: string, name: string): Promise<ViewDocument> {
  return request<ViewDocument>(one(workspace, project, name));
}

/** A document, and the etag that a change of it names. */
export interface Tagged {
  doc: ViewDocument;
  etag: string;
}

const tagOf = (res: Response): string => (res.headers.get("ETag") ?? "").replaceAll('"', "");

export async function taggedView(workspace: string, project: string, name: string): Promise<Tagged> {
  const res = await respond(one(workspace, project, name), {}, true);
  return { doc: await res.json(), etag: tagOf(res) };
}

/** Stores a document, unless another was stored since `etag`; "" where there was none. Returns the new etag. */
export async function putView(
  workspace: string,
  project: string,
  name: string,
  doc: ViewDocument,
  etag: string,
): Promise<string> {
  const init = json("PUT", doc);
  const condition: HeadersInit = etag ? { "If-Match": `"${etag}"` } : { "If-None-Match": "*" };
  return tagOf(
    await respond(
      one(workspace, project, name),
      { ...init, headers: { ...init.headers, ...condition } },
      true,
    ),
  );
}

export async function deleteView(
  workspace: string,
  project: string,
  name: string,
  etag: string,
): Promise<void> {
  const headers: HeadersInit = etag ? { "If-Match": `"${etag}"` } : {};
  await respond(one(workspace, project, name), { method: "DELETE", headers }, true);
}

/** Somebody else was faster. */
export const isConflict = (cause: unknown): boolean => cause instanceof ApiError && cause.status === 409;

/** The key may read, and not write. */
export const isForbidden = (cause: unknown): boolean =>
  cause instanceof ApiError && (cause.status === 401 || cause.status === 403);

export const isMissing = (cause: unknown): boolean => cause instanceof ApiError && cause.status === 404;
