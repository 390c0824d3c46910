import { computed, signal } from "@preact/signals";
import { relative, wall } from "../chart/axis.ts";
import type { Smoothing } from "../chart/smooth.ts";
import { parseChosen } from "./overlay.ts";
import { param, setParams } from "./route.ts";

/** View is how the Run page shows its charts; it is read from the address and written to it. */

export type Size = "S" | "M" | "L";
export const heights: Record<Size, number> = { S: 150, M: 200, L: 300 };

export interface Zoom {
  key: string;
  from: number;
  to: number;
}

export const search = computed(() => param("q"));
export const axisChoice = computed(() => param("x"));
export const size = computed<Size>(() =>
  ["S", "L"].includes(param("size")) ? (param("size") as Size) : "M",
);
export const sized = computed(() => param("size") !== "");
export const showAttempts = computed(() => param("attempts") !== "0");
/** A fork's charts begin with what it inherits, unless the reader wants its own points alone. */
export const showInherited = computed(() => param("inherited") !== "0");
export const tab = computed(() => param("tab") || "charts");
export const fullScreen = computed(() => param("chart"));
const chosenText = computed(() => param("with"));
export const chosen = computed(() => parseChosen(chosenText.value));
const smoothText = computed(() => param("smooth"));
export const smoothing = computed(() => parseSmoothing(smoothText.value));
const zoomText = computed(() => param("zoom"));
export const zoom = computed(() => parseZoom(zoomText.value));
const logText = computed(() => param("log"));
const logCards = computed(() => new Set(logText.value.split(",").filter(Boolean)));
const rangeText = computed(() => param("range"));
const fullCards = computed(() => new Set(rangeText.value.split(",").filter(Boolean)));

export function parseSmoothing(text: string): Smoothing {
  const [kind, amount] = text.split(":");
  const n = Number(amount);
  if (kind === "ema" && n > 0 && n < 1) return { kind, weight: n };
  if (kind === "gauss" && n > 0 && n <= 0.5) return { kind, width: n };
  return { kind: "none" };
}

export function parseZoom(text: string): Zoom | null {
  const [key, from, to] = text.split(":");
  if (!key || from === undefined || to === undefined || !(Number(from) < Number(to))) return null;
  const zoom = { key, from: Number(from), to: Number(to) };
  const isTime = key === wall || key === relative;
  // All axes but time have whole numbers. Between two of them there is nothing to ask for: both are in view then.
  if (isTime || Math.ceil(zoom.from) <= Math.floor(zoom.to)) return zoom;
  return { key, from: Math.floor(zoom.from), to: Math.ceil(zoom.to) };
}

export function setZoom(next: Zoom | null): void {
  setParams({ zoom: next ? `${next.key}:${tidy(next.from)}:${tidy(next.to)}` : "" });
}

/** Enough digits for a microsecond since 1970 and for any step. */
function tidy(x: number): string {
  return String(Number(x.toPrecision(15)));
}

/** The range of time of a view: what the reader chose, else what its document says; "" is all. */
export const lastChoice = computed(() => param("last"));
/** Whether the reader wants whole axes, where a view's document shows a part. */
export const wholeAxes = computed(() => param("axes") === "all");

export function setLast(last: string): void {
  setParams({ last, zoom: "" });
}

export function setWholeAxes(whole: boolean): void {
  setParams({ axes: whole ? "all" : "", zoom: "" });
}

export const isLog = (metric: string): boolean => logCards.value.has("*") !== logCards.value.has(metric);
export const isFull = (metric: string): boolean => fullCards.value.has(metric);

function toggled(set: Set<string>, name: string): string {
  const next = new Set(set);
  if (!next.delete(name)) next.add(name);
  return [...next].join(",");
}

/** Log scale for one metric; for "*" of all, where a metric that is named stands the other way. */
export function toggleLog(metric: string): void {
  if (metric === "*") setParams({ log: logCards.value.has("*") ? "" : "*" });
  else setParams({ log: toggled(logCards.value, metric) });
}

export function toggleFull(metric: string): void {
  setParams({ range: toggled(fullCards.value, metric) });
}

/** The run under the pointer, in the side panel or in a crowd of lines: its lines come forward in every card. */
export const hoveredRun = signal<string | null>(null);
/** Runs that stay in front, also in a crowd of grey lines. */
const pinText = computed(() => param("pin"));
export const pinned = computed(() => new Set(pinText.value.split(",").filter(Boolean)));

export function togglePin(run: string): void {
  setParams({ pin: toggled(pinned.value, run) });
}

/** The card that keys act on: under the pointer, or moved to by j, k, [ and ]. */
export const activeCard = signal<string | null>(null);
/** The runs beside the charts; on a phone they cover these, so they come when asked for. */
const narrow = matchMedia("(max-width: 640px)").matches;
export const panel = signal(!narrow && localStorage.getItem("kymogram.panel") !== "0");

export function togglePanel(): void {
  panel.value = !panel.value;
  if (!narrow) localStorage.setItem("kymogram.panel", panel.value ? "1" : "0");
}
