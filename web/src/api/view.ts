import { request } from "./client.ts";

/** A view document, as docs/format/view.md has it. The server refuses any other. */
export interface ViewDocument {
  title: string;
  description?: string;
  /** How far back the panels look at first, such as 24h. */
  last?: string;
  /** What lines show of an axis at first. */
  axes?: Record<string, [number, number]>;
  panels: PanelSpec[];
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
  panels: number;
  etag: string;
  changed_ns: number;
}

const base = (workspace: string, project: string) =>
  `/projects/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}/views`;

export async function views(workspace: string, project: string): Promise<ViewInfo[]> {
  return (await request<{ views: ViewInfo[] }>(base(workspace, project))).views;
}

export function view(workspace: string, project: string, name: string): Promise<ViewDocument> {
  return request<ViewDocument>(`${base(workspace, project)}/${encodeURIComponent(name)}`);
}
