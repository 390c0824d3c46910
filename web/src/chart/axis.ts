import { identity, type Unit } from "./curve.ts";
import { clockLabels, count, dateTime, short, spanLabels, tickLabels } from "./number.ts";
import { linearTicks, timeTicks } from "./tick.ts";

/** What a reader picks for x: a stored axis, wall time, or time since the run began; "auto" is the series' own first axis. */
export type AxisChoice = string;

/** XAxis is how a card's x is asked for, ticked and written. */
export interface XAxis {
  /** The name the server knows. */
  name: string;
  /** Cards with one key zoom and move their cursor together. */
  key: string;
  kind: "number" | "wall" | "relative";
}

export const wall = "wall";
export const relative = "relative";

/** The x axis of a series for a choice; a series without the chosen axis falls back to its own first one. */
export function axisFor(axes: string[], choice: AxisChoice): XAxis {
  if (choice === wall) return { name: "time_ns", key: wall, kind: "wall" };
  if (choice === relative) return { name: "time_ns", key: relative, kind: "relative" };
  const stored = axes.filter((a) => a !== "time_ns");
  const name = stored.includes(choice) ? choice : stored.includes("step") ? "step" : stored[0];
  if (!name) return { name: "time_ns", key: wall, kind: "wall" };
  return { name, key: name, kind: "number" };
}

/** Stored nanoseconds become seconds: since 1970 for wall time, since the run's start for relative time. */
export function unitOf(axis: XAxis, startNs: number): Unit {
  if (axis.kind === "number") return identity;
  return { origin: axis.kind === "relative" ? startNs : 0, factor: 1e-9 };
}

const farthest = 2 ** 63 - 1024; // the last double that the server takes
const taken = (x: number): number => Math.max(-farthest, Math.min(farthest, x));

/** A drawn range as the server's from and to: the whole numbers in it, and past a double's rounding for time. */
export function storedRange(range: [number, number], unit: Unit): { from: number; to: number } {
  const slack = unit.factor === 1 ? 0 : 512;
  const from = taken(Math.ceil(range[0] / unit.factor + unit.origin) - slack);
  const to = taken(Math.floor(range[1] / unit.factor + unit.origin) + slack);
  return { from, to };
}

export function xTicks(axis: XAxis, min: number, max: number, most: number): number[] {
  if (axis.kind === "number") return linearTicks(min, max, most).filter(Number.isInteger);
  const zone = axis.kind === "wall" ? -new Date(min * 1000).getTimezoneOffset() * 60 : 0;
  return timeTicks(min, max, most, zone);
}

export function xLabels(axis: XAxis, ticks: number[]): string[] {
  if (axis.kind === "wall") return clockLabels(ticks);
  return axis.kind === "relative" ? spanLabels(ticks) : tickLabels(ticks);
}

/** One x as a reader names it: 618,033 or 2026-11-21 04:44:12. */
export function xText(axis: XAxis, x: number): string {
  if (axis.kind === "wall") return dateTime(x * 1e9, true);
  if (axis.kind === "relative") return spanLabels([x])[0]!;
  return Number.isInteger(x) ? count(x) : short(x);
}

/** A bucket's place: one x, or first–last. */
export function placeText(axis: XAxis, lo: number, hi: number): string {
  return lo === hi ? xText(axis, lo) : `${xText(axis, lo)} – ${xText(axis, hi)}`;
}
