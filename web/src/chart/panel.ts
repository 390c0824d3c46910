import type { BucketColumns, Run, Series } from "../api/types.ts";
import type { PanelSpec, Reduction } from "../api/view.ts";
import { templateRegex } from "./pattern.ts";
import { natural } from "./title.ts";

/** Which series a panel asks for, how they are grouped, and what value a group has: pure functions over documents. */

/** Found is a series of a run that a panel takes. */
export interface Found {
  run: Run;
  series: Series;
}

/** Totals of all points of a series. */
export interface Totals {
  count: number;
  nan: number;
  min: number;
  max: number;
  /** Of the finite points. */
  sum: number;
}

/** Group is what one number of a stat or one cell of a table is made of. */
export interface Group {
  key: string[];
  members: Found[];
}

export interface Valued extends Group {
  value: number | undefined;
}

/** A pattern of a document as a regular expression; its source means the same to the server (RE2). */
export function matcher(pattern: string | undefined): RegExp {
  return new RegExp(templateRegex(pattern || "**").source, "s");
}

export const isNumber = (s: Series): boolean => s.kind === "float64" || s.kind === "int64";

export function takesRun(panel: PanelSpec, run: Run): boolean {
  return matcher(panel.query.runs).test(run.name) && (panel.query.tags ?? []).every((t) => hasTag(run, t));
}

function hasTag(run: Run, pattern: string): boolean {
  const re = matcher(pattern);
  return run.tags.some((tag) => re.test(tag));
}

export function takesLabels(panel: PanelSpec, labels: Record<string, string>): boolean {
  return Object.entries(panel.query.labels ?? {}).every(
    ([name, pattern]) => labels[name] !== undefined && matcher(pattern).test(labels[name]),
  );
}

/** The series of a panel, by run, metric and labels. */
export function select(panel: PanelSpec, all: Found[]): Found[] {
  const metrics = panel.query.metrics.map(matcher);
  const runs = new Map<string, boolean>();
  const takes = (run: Run) => {
    if (!runs.has(run.id)) runs.set(run.id, takesRun(panel, run));
    return runs.get(run.id)!;
  };
  return all
    .filter((f) => isNumber(f.series) && takes(f.run) && metrics.some((m) => m.test(f.series.metric)))
    .filter((f) => takesLabels(panel, f.series.labels))
    .map((f) => ({ f, name: nameOf(f) }))
    .sort((a, b) => natural(a.name, b.name))
    .map((named) => named.f);
}

const units: Record<string, number> = { m: 60e3, h: 3600e3, d: 86_400e3, w: 604_800e3 };

/** The milliseconds of a range of time such as 24h; undefined for any other text. */
export function spanOf(last: string): number | undefined {
  const [, n, unit] = /^([1-9]\d{0,3})([mhdw])$/.exec(last) ?? [];
  return n && unit ? Number(n) * units[unit]! : undefined;
}

/** A range of time, in nanoseconds. */
export interface Span {
  from: number;
  to: number;
}

/** The series that have a point since a range began. */
export function since(found: Found[], span: Span | undefined): Found[] {
  if (!span) return found;
  return found.filter((f) => Number(f.series.last?.time_ns ?? Number.NaN) >= span.from);
}

/** A series in one line: run, metric, scale and labels. */
export function nameOf(f: Found): string {
  const labels = Object.keys(f.series.labels).sort(natural);
  return [
    f.run.name,
    f.series.metric,
    f.series.scale,
    ...labels.map((k) => `${k}=${f.series.labels[k]}`),
  ].join(" ");
}

/** The same for a series in every list of it. */
export const idOf = (f: Found): string => `${f.run.id} ${nameOf(f)}`;

/** The last parts of metrics' names, where these tell them apart. */
export function lastParts(metrics: string[]): string[] {
  const last = metrics.map((name) => name.slice(name.lastIndexOf("/") + 1) || "–");
  return new Set(last).size === last.length ? last : metrics;
}

/** What of the names of some series tells them apart. */
export function shortNames(found: Found[]): string[] {
  const metrics = [...new Set(found.map((f) => f.series.metric))];
  const parted = lastParts(metrics);
  const several = (of: (f: Found) => string) => new Set(found.map(of)).size > 1;
  const labels = [...new Set(found.flatMap((f) => Object.keys(f.series.labels)))].sort(natural);
  const parts: ((f: Found) => string)[] = [(f) => f.run.display_name || f.run.name];
  if (several((f) => f.series.metric)) parts.push((f) => parted[metrics.indexOf(f.series.metric)]!);
  if (several((f) => f.series.scale)) parts.push((f) => f.series.scale);
  for (const name of labels)
    if (several((f) => f.series.labels[name] ?? ""))
      parts.push((f) => (f.series.labels[name] === undefined ? "" : `${name}=${f.series.labels[name]}`));
  if (parts.length > 1 && !several((f) => f.run.id)) parts.shift();
  return found.map((f) =>
    parts
      .map((part) => part(f))
      .filter(Boolean)
      .join(" · "),
  );
}

/** A series' value for a name of "by" or "columns". */
export function keyOf(f: Found, name: string): string {
  if (name === "run") return f.run.display_name || f.run.name;
  if (name === "metric") return f.series.metric;
  return f.series.labels[name.slice("label.".length)] ?? "";
}

export function groups(found: Found[], by: string[]): Group[] {
  const out = new Map<string, Group>();
  for (const f of found) {
    const key = by.map((name) => keyOf(f, name));
    const id = JSON.stringify(key);
    const group = out.get(id) ?? { key, members: [] };
    group.members.push(f);
    out.set(id, group);
  }
  return [...out.values()].sort((a, b) => compareKeys(a.key, b.key));
}

function compareKeys(a: string[], b: string[]): number {
  for (let i = 0; i < a.length; i++) {
    const order = natural(a[i]!, b[i]!);
    if (order) return order;
  }
  return 0;
}

/** Totals of a series from the one bucket that holds all of its points. */
export function totalsOf(columns: BucketColumns): Totals {
  const out: Totals = { count: 0, nan: 0, min: Infinity, max: -Infinity, sum: 0 };
  columns.lo.forEach((_, i) => {
    const n = Number(columns.count[i]);
    out.nan += Number(columns.nan?.[i] ?? 0);
    if (n === 0) return;
    out.count += n;
    out.min = Math.min(out.min, Number(columns.min[i]));
    out.max = Math.max(out.max, Number(columns.max[i]));
    out.sum += n * Number(columns.mean[i]);
  });
  return out;
}

/** Whether a reduction needs more than the list of series says. */
export const needsTotals = (r: Reduction): boolean => r !== "last" && r !== "time";

/** One value of all points of a group, as if it were one series; undefined where it has none. */
export function reduce(
  how: Reduction,
  members: Found[],
  totals: (f: Found) => Totals | undefined,
): number | undefined {
  if (!needsTotals(how)) return newest(how, members);
  const all = members.map(totals).filter((t) => t !== undefined);
  if (all.length === 0) return undefined;
  const sum = (of: (t: Totals) => number) => all.reduce((n, t) => n + of(t), 0);
  const count = sum((t) => t.count);
  if (how === "count") return count;
  if (how === "nan") return sum((t) => t.nan);
  if (count === 0) return undefined;
  if (how === "mean") return sum((t) => t.sum) / count;
  return how === "min" ? Math.min(...all.map((t) => t.min)) : Math.max(...all.map((t) => t.max));
}

function newest(how: Reduction, members: Found[]): number | undefined {
  let at = -Infinity;
  let value: number | undefined;
  for (const { series } of members) {
    const time = Number(series.last?.time_ns ?? Number.NaN);
    if (!series.last || !(time > at)) continue;
    at = time;
    value = how === "time" ? time : Number(series.last.value);
  }
  return value;
}

/** Sorts by value and keeps the first; what has no value comes last. */
export function ranked<T extends { value: number | undefined }>(all: T[], panel: PanelSpec): T[] {
  if (!panel.order) return all;
  const sign = panel.order === "asc" ? 1 : -1;
  const rank = (v: number | undefined) => (v === undefined || Number.isNaN(v) ? Infinity : sign * v);
  const sorted = [...all].sort((a, b) =>
    rank(a.value) < rank(b.value) ? -1 : rank(a.value) > rank(b.value) ? 1 : 0,
  );
  return panel.top ? sorted.slice(0, panel.top) : sorted;
}

/** The names that a panel's groups are made by; undefined: each series is one. */
export function namesOf(panel: PanelSpec): string[] | undefined {
  return panel.by ?? (panel.kind === "table" ? ["run"].filter((n) => n !== panel.columns) : undefined);
}

export interface TableOf {
  columns: string[];
  rows: { key: string[]; value: number | undefined; cells: (number | undefined)[] }[];
}

/** The rows and columns of a table; a row's value, by which it is sorted, is its first cell. */
export function tableOf(panel: PanelSpec, found: Found[], totals: (f: Found) => Totals | undefined): TableOf {
  const by = panel.columns ?? "metric";
  const how = panel.reduce ?? "last";
  const columns = columnsOf(panel, found, by);
  const rows = groups(found, namesOf(panel)!).map((row) => {
    const cells = columns.map((column) =>
      reduce(
        how,
        row.members.filter((f) => keyOf(f, by) === column),
        totals,
      ),
    );
    return { key: row.key, value: cells[0], cells };
  });
  return { columns, rows: ranked(rows, panel) };
}

/** Metrics are columns in the order in which the document names them, all else by name. */
function columnsOf(panel: PanelSpec, found: Found[], by: string): string[] {
  const names = [...new Set(found.map((f) => keyOf(f, by)))].sort(natural);
  if (by !== "metric") return names;
  const asked = panel.query.metrics.map(matcher);
  const place = (name: string) => asked.findIndex((m) => m.test(name));
  return names.sort((a, b) => place(a) - place(b) || natural(a, b));
}

/** The names nearest to one that is not there: at most a third of its letters differ. */
export function nearest(name: string, names: Iterable<string>, most = 3): string[] {
  const limit = Math.max(1, Math.floor(name.length / 3));
  return [...new Set(names)]
    .map((other) => ({ other, far: distance(name.toLowerCase(), other.toLowerCase()) }))
    .filter((n) => n.far <= limit)
    .sort((a, b) => a.far - b.far || natural(a.other, b.other))
    .slice(0, most)
    .map((n) => n.other);
}

/** Levenshtein's distance. */
export function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
