import type { Value } from "../api/types.ts";
import { along, hue, slots, stops } from "./color.ts";
import { short } from "./number.ts";
import { natural } from "./title.ts";

/** Subject is what a run is grouped by. */
export interface Subject {
  id: string;
  tags: readonly string[];
  config: Record<string, Value>;
  summary: Record<string, { value: number | string }>;
}

/** Group is the runs that share a colour. */
export interface Group {
  /** Names it in an address; "" holds the runs without a value. */
  key: string;
  label: string;
  runs: string[];
  color: string;
  /** Where hues are used again. */
  slot: number;
}

export interface Grouping {
  by: string;
  /** Numbers have a scale of colours, categories hues. */
  numbers: boolean;
  groups: Group[];
  of: ReadonlyMap<string, Group>;
}

/** A key is config/PATH, summary/METRIC, tag (all tags of a run), or but:config/PATH, which is all parameters but one. */
const but = "but:";
export const allBut = (key: string): string => but + key;

const bins = 5;
const mostSteps = 8; // values of a number that each are a group; more become bins

const own = <T>(of: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(of, name) ? of[name] : undefined;

/** A run's value of a key; undefined when it has none. */
export function readKey(run: Subject, key: string): Value | undefined {
  if (key === "tag") return run.tags.length ? [...run.tags].sort(natural).join(", ") : undefined;
  if (key.startsWith("config/")) return own(run.config, key.slice(7)) ?? own(run.config, key) ?? undefined;
  if (!key.startsWith("summary/")) return undefined;
  const value = own(run.summary, key.slice(8))?.value;
  return value === undefined ? undefined : Number(value);
}

/** What a key is called where it is chosen: config and summary tell where it is from, not what it is. */
export function nameOf(key: string): string {
  if (key.startsWith(but)) return `all parameters but ${nameOf(key.slice(but.length))}`;
  return key.replace(/^(config|summary)\//, "");
}

/** The keys by which runs differ, in the order of their names. */
export function keysOf(runs: readonly Subject[]): { config: string[]; summary: string[]; tag: boolean } {
  const seen = new Map<string, { first: unknown; runs: number; differs: boolean }>();
  const note = (key: string, value: unknown) => {
    const text = typeof value === "object" ? String(value) : value;
    const known = seen.get(key);
    if (!known) seen.set(key, { first: text, runs: 1, differs: false });
    else {
      known.runs++;
      known.differs ||= known.first !== text;
    }
  };
  for (const run of runs) {
    for (const [k, v] of Object.entries(run.config)) note(k.startsWith("config/") ? k : `config/${k}`, v);
    for (const [k, s] of Object.entries(run.summary)) note(`summary/${k}`, s.value);
  }
  const differing = [...seen].filter(([, s]) => s.differs || s.runs < runs.length).map(([key]) => key);
  const all = differing.sort(natural);
  return {
    config: all.filter((k) => k.startsWith("config/")),
    summary: all.filter((k) => k.startsWith("summary/")),
    tag: new Set(runs.map((r) => readKey(r, "tag"))).size > 1,
  };
}

/** Subset is the runs with one value or bin of values, before it has a colour. */
export interface Subset {
  key: string;
  label: string;
  runs: string[];
}

const textOf = (v: Value | undefined): string =>
  v === undefined || v === null ? "" : typeof v === "number" ? short(v) : keyText(v);

/** Tells the text 1 from the number; NaN and integers beyond 2^53 come as texts and stay plain. */
function keyText(v: NonNullable<Value>): string {
  const other =
    typeof v === "string" && (/^(true|false)$/.test(v) || (v.trim() && Math.abs(Number(v)) < 2 ** 53));
  return other ? `"${v}"` : String(v);
}

/** The runs by a key's values; numbers with many values in quantile bins, as equal in size as equal values allow. */
export function partsOf(
  runs: readonly Subject[],
  by: string,
): { parts: Subset[]; rest: string[]; numbers: boolean } {
  const read = by.startsWith(but) ? combined(runs, by.slice(but.length)) : (r: Subject) => readKey(r, by);
  const has = (v: Value | undefined) => v !== undefined && v !== null && !Number.isNaN(v);
  const known = runs.map((r) => [r.id, read(r)] as const);
  const rest = known.filter(([, v]) => !has(v)).map(([id]) => id);
  const set = known.filter(([, v]) => has(v)) as [string, Value][];
  const numbers = set.length > 0 && set.every(([, v]) => typeof v === "number");
  if (numbers && new Set(set.map(([, v]) => v)).size > mostSteps)
    return { parts: binned(set as [string, number][]), rest, numbers };
  const parts = new Map<string, Subset & { value: Value }>();
  for (const [id, value] of set) {
    const key = keyText(value!);
    const part = parts.get(key);
    if (part) part.runs.push(id);
    else parts.set(key, { key, label: textOf(value), runs: [id], value });
  }
  const list = [...parts.values()];
  if (numbers) list.sort((a, b) => Number(a.value) - Number(b.value));
  else list.sort((a, b) => natural(a.key, b.key));
  return { parts: list, rest, numbers };
}

/** The values of all parameters that differ but one, as a reader would write them. */
function combined(runs: readonly Subject[], except: string): (run: Subject) => string {
  const keys = keysOf(runs).config.filter((k) => k !== except);
  return (run) => keys.map((k) => `${nameOf(k)} ${textOf(readKey(run, k)) || "–"}`).join(" · ") || "the same";
}

function binned(set: [string, number][]): Subset[] {
  const sorted = [...set].sort((a, b) => a[1] - b[1]);
  const [ends, runs]: [[number, number][], string[][]] = [[], []];
  let at = 0;
  for (let bin = 1; bin <= bins && at < sorted.length; bin++) {
    let end = Math.max(at + 1, Math.round((sorted.length * bin) / bins));
    while (end < sorted.length && sorted[end]![1] === sorted[end - 1]![1]) end++;
    const part = sorted.slice(at, end);
    ends.push([part[0]![1], part.at(-1)![1]]);
    runs.push(part.map(([id]) => id));
    at = end;
  }
  const labels = labelsOf(ends);
  return ends.map(([low, high], i) => ({ key: `${low}…${high}`, label: labels[i]!, runs: runs[i]! }));
}

/** Ranges in two digits, or in as many more as tell them, and their ends, apart. */
function labelsOf(ends: [number, number][]): string[] {
  const write = (digits: number) => {
    const text = (v: number) => short(Number(v.toPrecision(digits)));
    return ends.map(([low, high]) => (low === high ? text(low) : `${text(low)} – ${text(high)}`));
  };
  const tells = (labels: string[]) =>
    new Set(labels).size === labels.length && !labels.some((l) => /^(.*) – \1$/.test(l));
  return [2, 3].map(write).find(tells) ?? write(4);
}

/** Scales for numbers, dark to light on paper and the other way in the dark; each step has 3:1 on its card. */
const lightScale = stops("#43106b #2f58a8 #15848a #4b8f1d #a97a00");
const darkScale = stops("#8a6be0 #4596dc #25b59c #93d44c #fde725");

/** A place of the scale for numbers, from 0 to 1. */
export function scaleColor(share: number, isDark: boolean): string {
  const channels = along(isDark ? darkScale : lightScale, share);
  return `#${channels.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

/** The runs in groups by a key. Beyond 24 categories the last one holds what is left, and says how many values it has. */
export function groupsOf(runs: readonly Subject[], by: string, isDark: boolean, unset: string): Grouping {
  const { parts, rest, numbers } = partsOf(runs, by);
  const kept = numbers || parts.length <= slots ? parts : folded(parts);
  const groups = kept.map((part, i): Group => {
    const color = numbers
      ? scaleColor(kept.length > 1 ? i / (kept.length - 1) : 0.5, isDark)
      : hue(i, isDark);
    return { ...part, color, slot: numbers ? 0 : i };
  });
  if (rest.length) groups.push({ key: "", label: `no ${nameOf(by)}`, runs: rest, color: unset, slot: 0 });
  const of = new Map(groups.flatMap((g) => g.runs.map((id) => [id, g] as const)));
  return { by, numbers, groups, of };
}

function folded(parts: Subset[]): Subset[] {
  const kept = parts.slice(0, slots - 1);
  const others = parts.slice(slots - 1);
  return [...kept, { key: "…", label: `${others.length} other values`, runs: others.flatMap((p) => p.runs) }];
}
