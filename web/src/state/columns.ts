import type { Run } from "../api/types.ts";
import { quoted, unquoted } from "./complete.ts";
import { directionOf } from "./direction.ts";
import { escapeName, unescapeName } from "./escape.ts";

/**
 * Column is one of the table of runs. Names are those of a run's own (name, status, …), config/PATH, summary/METRIC,
 * min(METRIC), max(METRIC), best(METRIC), at(METRIC, STEP) and spark(METRIC).
 */
export interface Column {
  name: string;
  /** Chosen by the reader; without it a column fits its content. */
  width?: number;
  pinned?: boolean;
}

export const ownColumns = ["name", "status", "tags", "created", "duration", "attempts"];

/** All that is known of columns, as one text: it is in the address, in a saved view, and kept for the project. */
export function columnsText(columns: readonly Column[]): string {
  return columns
    .map((c) => `${c.pinned ? "~" : ""}${escapeName(c.name)}${c.width ? `~${Math.round(c.width)}` : ""}`)
    .join(",");
}

/** Reads columnsText. In older links the columns of the run itself are not named; they had all of them. */
export function parseColumns(text: string): Column[] {
  const seen = new Set<string>();
  const columns: Column[] = [];
  for (const item of text === "none" ? [] : text.split(",")) {
    const [, pin, name, width] = /^(~?)([^~]*)(?:~(\d+))?$/s.exec(item) ?? [];
    if (!name || seen.has(unescapeName(name))) continue;
    seen.add(unescapeName(name));
    const column: Column = { name: unescapeName(name) };
    if (width) column.width = clampWidth(Number(width));
    if (pin) column.pinned = true;
    columns.push(column);
  }
  if (!seen.has("name")) columns.unshift(...ownColumns.filter((c) => !seen.has(c)).map((name) => ({ name })));
  return pinnedFirst(columns);
}

export const clampWidth = (w: number): number => Math.max(44, Math.min(1200, Math.round(w)));

export const pinnedFirst = (columns: readonly Column[]): Column[] => [
  ...columns.filter((c) => c.pinned),
  ...columns.filter((c) => !c.pinned),
];

/** Puts a column before another; it is pinned when that one is. */
export function moved(columns: readonly Column[], name: string, before: string): Column[] {
  const from = columns.find((c) => c.name === name);
  const to = columns.find((c) => c.name === before);
  if (!from || !to || from === to) return [...columns];
  const rest = columns.filter((c) => c !== from);
  const down = columns.indexOf(from) < columns.indexOf(to);
  rest.splice(rest.indexOf(to) + (down ? 1 : 0), 0, { ...from, pinned: to.pinned });
  return pinnedFirst(rest);
}

export interface Aggregate {
  of: "last" | "min" | "max" | "best" | "at" | "spark";
  metric: string;
  step: string;
}

/** The metric of a column, and which of its values; null for what is no metric. */
export function aggregateOf(name: string): Aggregate | null {
  if (name.startsWith("summary/")) return { of: "last", metric: name.slice(8), step: "" };
  const m = /^(last|min|max|best|at|spark)\((.*)\)$/s.exec(name);
  if (!m) return null;
  if (m[1] !== "at") return { of: m[1] as Aggregate["of"], metric: unquoted(m[2]!.trim()), step: "" };
  const at = /^(.*),\s*(-?\d{1,18})\s*$/s.exec(m[2]!);
  return at && { of: "at", metric: unquoted(at[1]!.trim()), step: at[2]! };
}

export const aggregateName = (of: Aggregate["of"], metric: string, step = ""): string =>
  of === "last" ? `summary/${metric}` : `${of}(${quoted(metric)}${step && `, ${step}`})`;

/** A column as the server names it; "" for what it cannot compare. best is what the reader calls best. */
export function serverColumn(name: string): string {
  const a = aggregateOf(name);
  if (!a) return name.startsWith("config/") ? name : "";
  const of = a.of === "spark" ? "last" : aggregated(a);
  return of && `${of}(${quoted(a.metric)}${a.step && `, ${a.step}`})`;
}

/** "" is the best value of a metric where nobody has said which way it is better. */
function aggregated({ of, metric }: Aggregate): string {
  if (of !== "best") return of;
  return { up: "max", down: "min", "": "" }[directionOf(metric) ?? ""];
}

/** What a list leaves out of runs that have very many parameters or metrics. */
export interface Cut {
  config: boolean;
  summary: boolean;
}

const mostAsked = 48_000; // bytes of an address, of which the server takes 64 KiB

/** Columns whose values a list does not bring by itself. */
export function askedColumns(columns: readonly Column[], cut: Cut): string[] {
  const asked = columns.filter(({ name }) => {
    const of = aggregateOf(name)?.of;
    return of === "at" || (of ? cut.summary && of !== "spark" : cut.config && name.startsWith("config/"));
  });
  let bytes = 0;
  return asked
    .map((c) => serverColumn(c.name))
    .filter((name) => {
      if (name) bytes += encodeURIComponent(name).length + "&column=".length;
      return name && bytes <= mostAsked;
    });
}

/** A name may be one that every object has, such as __proto__. */
const own = <T>(of: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(of, name) ? of[name] : undefined;

export function cellOf(run: Run, name: string): Run["config"][string] | undefined {
  if (name.startsWith("config/"))
    return own(run.config, name.slice(7)) ?? own(run.config, name) ?? own(run.values ?? {}, name);
  const a = aggregateOf(name);
  if (!a) return undefined;
  const summary = own(run.summary, a.metric);
  if (a.of === "at" || !summary) return own(run.values ?? {}, serverColumn(name));
  const of = aggregated(a);
  if (of === "min" || of === "max") return summary?.[of];
  return of ? summary?.value : undefined;
}

/** Which way a column is better, where it has a way. */
export function bestWay(name: string): "up" | "down" | undefined {
  const a = aggregateOf(name);
  return a && a.of !== "spark" && a.of !== "at" ? directionOf(a.metric) : undefined;
}

/** A column that some run has. */
export interface Named {
  name: string;
  varies: boolean;
}

/** What the words find: columns that the runs have, and other values of their metrics. */
export function found(all: readonly Named[], words: string): Named[] {
  const text = words.trim().toLowerCase();
  const metrics = all.filter((c) => c.name.startsWith("summary/")).map((c) => c.name.slice(8));
  const others = metrics.flatMap((m) => [
    ...(directionOf(m) ? [aggregateName("best", m)] : []),
    ...(["min", "max", "spark"] as const).map((of) => aggregateName(of, m)),
  ]);
  const at = aggregateOf(words.trim());
  const exact = at?.metric ? [aggregateName(at.of, at.metric, at.step)] : [];
  const names = [...exact, ...ownColumns];
  const varies = (name: string): Named => ({ name, varies: true });
  const list = [...names.map(varies), ...all, ...others.map(varies)];
  const seen = new Set<string>();
  return list.filter(({ name }) => {
    const fits = exact.includes(name) || name.toLowerCase().includes(text);
    if (!fits || seen.has(name)) return false;
    seen.add(name);
    return true;
  });
}

const fileNames: Record<string, string> = { duration: "duration_ms", attempts: "attempt" };

/** The columns of the file: those that are shown, with the id of each run first. */
export const fileColumns = (columns: readonly Column[]): string[] => [
  "id",
  ...columns
    .filter(({ name }) => {
      const of = aggregateOf(name)?.of;
      return of !== "spark" && (of !== "best" || serverColumn(name)); // a curve is no value
    })
    .map((c) => serverColumn(c.name) || (fileNames[c.name] ?? c.name)),
];
