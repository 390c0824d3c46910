import { computed, signal } from "@preact/signals";
import { type Grouping, groupsOf, type Subject } from "../chart/grouping.ts";
import { type Statistic, statistics } from "../chart/layer.ts";
import { escapeName, unescapeName } from "./escape.ts";
import { param, setParams } from "./route.ts";
import { isDark, palette } from "./theme.ts";

/** How many runs are drawn together: which key colours them, and what stands for a group. Kept in the address. */

/** The runs that charts show; a page sets them and takes them away. */
export const subjects = signal<ReadonlyMap<string, Subject>>(new Map());

export const by = computed(() => param("by"));
export const split = computed(() => param("split"));
export const statistic = computed<Statistic>(
  () => statistics.find(([name]) => name === param("stat"))?.[0] ?? "iqr",
);

/** How members are drawn: "" decides by their number. */
export type Members = "" | "lines" | "density" | "none";
export const members = computed<Members>(() => {
  const text = param("draw");
  return text === "lines" || text === "density" || text === "none" ? text : "";
});

export const grouping = computed<Grouping | null>(() =>
  by.value && subjects.value.size > 1
    ? groupsOf([...subjects.value.values()], by.value, isDark.value, palette.value.muted)
    : null,
);

const offText = computed(() => param("off"));
const off = computed(() => new Set(offText.value.split(",").filter(Boolean).map(unescapeName)));
const named = (key: string): string => key || "-"; // the runs without a value have no name
export const isOff = (key: string): boolean => off.value.has(named(key));

function setOff(keys: Iterable<string>): void {
  setParams({ off: [...keys].map(escapeName).join(",") });
}

export function toggleGroup(key: string): void {
  const next = new Set(off.value);
  if (!next.delete(named(key))) next.add(named(key));
  setOff(next);
}

/** Shows this group alone, or all of them again when it is alone. */
export function onlyGroup(key: string): void {
  const others = (grouping.value?.groups ?? []).map((g) => named(g.key)).filter((k) => k !== named(key));
  const alone = !isOff(key) && others.every((k) => off.value.has(k));
  setOff(alone ? [] : others);
}

/** Colours runs by another key; what was hidden belongs to the old one. */
export function colourBy(key: string): void {
  setParams({ by: key, off: "" });
}

/** The group under the pointer in the legend: it comes forward in every card. */
export const hoveredGroup = signal<string | null>(null);
