import type { RowStats } from "../api/kymograph.ts";
import type { Series } from "../api/types.ts";
import { escapeRegex, isTemplate, patternOf, searchOf } from "./pattern.ts";
import { groupOf, labelText, natural, visible } from "./title.ts";

/** Rows of a kymograph: which series they are, what they are called, in which order they lie. */

/** Member is one series of a run. */
export interface Member {
  run: string;
  series: Series;
}

/** Card is all series of a metric at one scale. */
interface Card {
  metric: string;
  scale: string;
  members: Member[];
}

export type Order = "" | "last" | "max" | "similar" | "label";
export const orders: [Order, string][] = [
  ["", "as logged"],
  ["last", "by last value"],
  ["max", "by largest value"],
  ["similar", "by similarity"],
  ["label", "by label"],
];

export function parseLimits(text: string): [number, number] | null {
  const [lo, hi] = text.split(",").map((part) => (part.trim() ? Number(part) : Number.NaN));
  return Number.isFinite(lo) && Number.isFinite(hi) && lo! <= hi! ? [lo!, hi!] : null;
}

export function parseRows(text: string): [number, number] | null {
  const [first, last] = text.split("-").map(Number);
  return Number.isInteger(first) && Number.isInteger(last) && first! >= 1 && last! >= first!
    ? [first! - 1, last!]
    : null;
}

export const rowsParam = ([first, last]: [number, number]): string => `${first + 1}-${last}`;

/** The rows that a selector names: a metric, or a pattern of the search; of one scale. */
export function select(
  cards: Card[],
  text: string,
  scaleName: string,
): { members: Member[]; scales: string[] } {
  const named = cards.filter((c) => c.metric === text);
  const pattern = patternOf(text);
  const found = named.length ? named : text && pattern.ok ? cards.filter((c) => pattern.test(c.metric)) : [];
  const scales = [...new Set(found.map((c) => c.scale))];
  const chosen = scales.includes(scaleName) ? scaleName : scales[0];
  return { members: found.filter((c) => c.scale === chosen).flatMap((c) => c.members), scales };
}

/** The same selection for the server; null without a selector. */
export function rowsOf(text: string): { q: string[]; not: string[] } | null {
  const search = searchOf(text);
  const named = `^${escapeRegex(text)}$`;
  if (!search) return text ? { q: [named], not: [] } : null;
  const [only] = search.q;
  // A metric may have the name that is a pattern, too.
  return only && search.q.length === 1 && !search.not.length
    ? { q: [`(?:${named})|(?:${only})`], not: [] }
    : search;
}

/** What tells the rows apart, as one text each: run, metric, labels, without what all have in common. */
export function namesOf(members: Member[], runName: (id: string) => string): string[] {
  const runs = new Set(members.map((m) => m.run)).size > 1;
  const metrics = new Set(members.map((m) => m.series.metric));
  const shortMetric = metrics.size > 1 ? trimmer([...metrics]) : () => "";
  const rank = new Map(varying(members).map((name, i) => [name, i]));
  return members.map(({ run, series }) => {
    const own = Object.keys(series.labels).filter((name) => rank.has(name));
    own.sort((a, b) => rank.get(a)! - rank.get(b)!);
    const parts = [
      runs ? runName(run) : "",
      shortMetric(series.metric),
      ...own.map((name) => series.labels[name]!),
    ];
    return parts.filter(Boolean).map(visible).join(" · ") || series.metric;
  });
}

/** The label names by which rows differ; that with the most values first, which tells a row best. */
function varying(members: Member[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const { series } of members)
    for (const name of Object.keys(series.labels)) {
      if (!values.has(name)) values.set(name, new Set());
      values.get(name)!.add(series.labels[name]!);
    }
  const count = (name: string) => values.get(name)!.size;
  const some = (name: string) => members.some((m) => m.series.labels[name] === undefined);
  return [...values.keys()]
    .filter((name) => count(name) > 1 || some(name))
    .sort((a, b) => count(b) - count(a) || natural(a, b));
}

/** Takes away the path segments that all names have at the start and at the end. */
function trimmer(names: string[]): (name: string) => string {
  const split = names.map((n) => n.split("/"));
  const first = split[0]!;
  let head = 0;
  while (split.every((s) => s.length > head + 1 && s[head] === first[head])) head++;
  let tail = 0;
  const end = (s: string[]) => s[s.length - 1 - tail];
  while (split.every((s) => s.length > head + tail + 1 && end(s) === end(first))) tail++;
  return (name) => {
    const parts = name.split("/");
    return parts.slice(head, parts.length - tail).join("/");
  };
}

/** What rows are bracketed by: their run, else the first part of their metric, else a label with few values. */
export function bracketsOf(members: Member[], runName: (id: string) => string): string[] | null {
  const by: ((m: Member) => string)[] = [
    (m) => runName(m.run),
    (m) => groupOf(m.series.metric),
    ...varying(members)
      .reverse()
      .map((name) => (m: Member) => m.series.labels[name] ?? ""),
  ];
  for (const of of by) {
    const keys = members.map(of);
    const n = new Set(keys).size;
    if (n > 1 && n <= members.length / 2) return keys;
  }
  return null;
}

const longest = 200; // characters of a row's name in the address

/** A row in the address: its run where there are several, its metric where there are several, its labels. */
export function idsOf(members: Member[]): string[] {
  const several = (of: (m: Member) => string) => new Set(members.map(of)).size > 1;
  const [runs, metrics] = [several((m) => m.run), several((m) => m.series.metric)];
  return members.map((m) => {
    const labels = labelText(m.series.labels);
    const text = [runs ? m.run : "", metrics || !labels ? m.series.metric : "", labels]
      .filter(Boolean)
      .join(" ");
    return text.length <= longest ? text : `#${hash(text)}`;
  });
}

/** FNV-1a, for names too long for an address. */
function hash(text: string): string {
  let [a, b] = [0x811c9dc5, 0x1b873593];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x5bd1e995);
  }
  return [a, b].map((n) => (n >>> 0).toString(36)).join("");
}

/** The selector of a metric and of all that differ from it in numbers alone: a star stands for each number. */
export function templateOf(name: string): string {
  const template = name
    .split("/")
    .map((part) => part.replace(/^\d+$|\d+$/, "*"))
    .join("/");
  return template !== name && isTemplate(template) ? template : name;
}

const counted = new WeakMap<Card[], Map<string, number>>();

/** How many series each selector with a star takes; of a single metric its name is enough. */
export function templates(cards: Card[]): Map<string, number> {
  let found = counted.get(cards);
  if (!found) {
    const all = new Map<string, { metrics: Set<string>; series: number }>();
    for (const { metric, members } of cards) {
      const template = templateOf(metric);
      if (template === metric) continue;
      const of = all.get(template) ?? { metrics: new Set(), series: 0 };
      of.metrics.add(metric);
      of.series += members.length;
      all.set(template, of);
    }
    found = new Map([...all].filter(([, of]) => of.metrics.size > 1).map(([name, of]) => [name, of.series]));
    counted.set(cards, found);
  }
  return found;
}

/** What draws a card as rows: its own series where it has some, else those of its template; "" for a single row. */
export function selectorOf(cards: Card[], { metric, members }: Card): string {
  if (members.length > 1) return metric;
  const template = templateOf(metric);
  return (templates(cards).get(template) ?? 0) > 1 ? template : "";
}

/** The places of rows by a number, the largest first; rows without one come last, equal ones keep their order. */
export function descending(values: ArrayLike<number>): number[] {
  const list = Array.from(values, (_, i) => i);
  return list.sort((a, b) => {
    const [x, y] = [values[a]!, values[b]!];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return compare(y, x) || a - b;
  });
}

/** The order of rows by what is known of them; runs stay together as long as rows are in the order of their logs. */
export function orderOf(how: Order, rows: RowStats, names: string[], runs: string[]): number[] {
  if (how === "last") return descending(rows.last);
  if (how === "max") return descending(rows.max);
  if (how === "label") return names.map((_, i) => i).sort((a, b) => natural(names[a]!, names[b]!) || a - b);
  const place = new Map([...new Set(runs)].map((run, i) => [run, i]));
  const number = (i: number) => (Number.isNaN(rows.number[i]) ? Infinity : rows.number[i]!);
  return names
    .map((_, i) => i)
    .sort((a, b) => place.get(runs[a]!)! - place.get(runs[b]!)! || compare(number(a), number(b)) || a - b);
}

const compare = (a: number, b: number): number => (a === b ? 0 : a < b ? -1 : 1);
