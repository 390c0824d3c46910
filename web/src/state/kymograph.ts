import { computed } from "@preact/signals";
import type { KymographRow, Reduction } from "../api/kymograph.ts";
import { isTemplate, patternOf } from "../chart/pattern.ts";
import { natural } from "../chart/title.ts";
import { param, setParams } from "./route.ts";
import { type Card, labelText, type Member } from "./session.ts";

/** What the kymograph shows, as the address says it. The x axis and its zoom are those of the charts, see view.ts. */

export const metric = computed(() => param("metric"));
export const scale = computed(() => param("scale"));
export const reduce = computed<Reduction>(() => {
  const text = param("reduce");
  return text === "min" || text === "max" ? text : "mean";
});

export type Order = "" | "last" | "max" | "similar" | "label";
export const orders: [Order, string][] = [
  ["", "as logged"],
  ["last", "by last value"],
  ["max", "by largest value"],
  ["similar", "by similarity"],
  ["label", "by label"],
];
export const order = computed<Order>(() => orders.find(([name]) => name === param("order"))?.[0] ?? "");

export type Bar = "last" | "min" | "max" | "mean";
export const bars: Bar[] = ["last", "min", "max", "mean"];
export const bar = computed<Bar>(() => bars.find((b) => b === param("bar")) ?? "last");
export const height = computed(() => param("height"));
export const row = computed(() => param("row"));

const limitsText = computed(() => param("limits"));
export const limits = computed(() => parseLimits(limitsText.value));

export function parseLimits(text: string): [number, number] | null {
  const [lo, hi] = text.split(",").map((part) => (part.trim() ? Number(part) : Number.NaN));
  return Number.isFinite(lo) && Number.isFinite(hi) && lo! <= hi! ? [lo!, hi!] : null;
}

export function setLimits(next: [number, number] | null): void {
  setParams({ limits: next ? next.map((v) => String(Number(v.toPrecision(6)))).join(",") : "" });
}

const rowsText = computed(() => param("rows"));
/** The rows in view, first and last (not included) in the order that is shown; null for all. */
export const rows = computed(() => parseRows(rowsText.value));

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

export const rowOf = ({ run, series }: Member): KymographRow => ({
  ...{ run, metric: series.metric, scale: series.scale, labels: series.labels },
});

/** What tells the rows apart, as one text each: run, metric, labels, without what all have in common. */
export function namesOf(members: Member[], runName: (id: string) => string): string[] {
  const runs = new Set(members.map((m) => m.run)).size > 1;
  const metrics = new Set(members.map((m) => m.series.metric));
  const shortMetric = metrics.size > 1 ? trimmer([...metrics]) : () => "";
  const labels = varying(members);
  return members.map((m) => {
    const parts = [
      runs ? runName(m.run) : "",
      shortMetric(m.series.metric),
      ...labels.map((name) => m.series.labels[name] ?? ""),
    ];
    return parts.filter(Boolean).join(" · ") || m.series.metric;
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
    (m) =>
      m.series.metric
        .split("/")
        .slice(0, -1)
        .find((_, i, all) => i === 0 || all.length > 2) ?? "",
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

/** Where the kymograph of a metric, or of all that a selector takes, is. */
export function kymographPath(run: string, selector: string, change: Record<string, string> = {}): string {
  const params = new URLSearchParams({ metric: selector });
  for (const [name, value] of Object.entries(change)) if (value) params.set(name, value);
  const text = params.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
  return `/runs/${encodeURIComponent(run)}/kymograph?${text}`;
}

/** What the charts and the kymograph of a run have in common in the address: the axis, its zoom, the other runs. */
export function shared(): Record<string, string> {
  return { x: param("x"), zoom: param("zoom"), with: param("with") };
}

const counted = new WeakMap<Card[], Map<string, number>>();

/** How many series each selector with a star takes. */
export function templates(cards: Card[]): Map<string, number> {
  let found = counted.get(cards);
  if (!found) {
    found = new Map();
    for (const { metric, members } of cards) {
      const template = templateOf(metric);
      if (template !== metric) found.set(template, (found.get(template) ?? 0) + members.length);
    }
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
