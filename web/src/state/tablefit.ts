import type { Run, Value } from "../api/types.ts";
import { dateTime, duration, full, short } from "../chart/number.ts";
import { aggregateOf, bestWay, type Column, cellOf } from "./columns.ts";

/** Laid is a column as it is drawn. */
export interface Laid extends Column {
  /** The first level of the head: whose value it is. */
  group: string;
  title: string;
  right: boolean;
  px: number;
  /** The left edge of a column that stays while the others scroll. */
  left: number | null;
}

export const boxWidth = 30; // of the selection
const least = 56;
const most = 340;
const sparkWidth = 96; // 80 px, and the room of a cell
const starGap = 4; // between the star of the best run and its value

const titles: Record<string, string> = { attempts: "attempt" };

export function titleOf(name: string): { group: string; title: string } {
  const a = aggregateOf(name);
  if (a) {
    const way = bestWay(name);
    const arrow = way === "up" ? " ↑" : way === "down" ? " ↓" : "";
    const of = { last: "last", spark: "curve", at: `at ${a.step}`, best: `best${arrow}` } as Record<
      string,
      string
    >;
    return { group: of[a.of] ?? a.of, title: a.metric };
  }
  if (name.startsWith("config/")) return { group: "config", title: name.slice(7) };
  return { group: "run", title: titles[name] ?? name };
}

const leftOnes = new Set(["name", "status", "tags"]);
export const isNumber = (v: unknown): boolean =>
  typeof v === "number" || v === "NaN" || v === "Infinity" || v === "-Infinity";

/** The text of a cell, and its whole value. */
export function cellText(run: Run, name: string): { text: string; title: string } {
  switch (name) {
    case "name":
      return { text: run.display_name || run.name, title: run.name };
    case "status":
      return { text: run.status, title: "" };
    case "tags":
      return { text: run.tags.join(", "), title: run.tags.join(", ") };
    case "created":
      return { text: dateTime(run.created_ns), title: dateTime(run.created_ns, true) };
    case "duration":
      return { text: duration(run.duration_ms), title: `${run.duration_ms} ms` };
    case "attempts":
      return { text: String(run.attempt), title: "" };
  }
  return valueText(cellOf(run, name));
}

export function valueText(value: Value | undefined): { text: string; title: string } {
  if (value === undefined || value === null) return { text: "", title: "" };
  const text = Array.isArray(value) ? value.join(", ") : value;
  return { text: isNumber(text) ? short(text as number) : String(text), title: full(text as string) };
}

let canvas: CanvasRenderingContext2D | null = null;
/** The width of a text, as the table draws it. */
function measured(text: string, font: string): number {
  canvas ??= document.createElement("canvas").getContext("2d");
  if (!canvas) return text.length * 7;
  canvas.font = font;
  return canvas.measureText(text.slice(0, 400)).width;
}

/** A column as wide as what stands in it: the head, and the rows that were read first. */
export function fitting(
  name: string,
  runs: readonly Run[],
  font: string,
  more: readonly string[] = [],
): number {
  if (name.startsWith("spark(")) return sparkWidth;
  const small = font.replace(/\d+(\.\d+)?px/, "12px");
  const { group, title } = titleOf(name);
  let widest = Math.max(measured(title, small) + 34, measured(group, small) + 18); // an arrow, and the menu
  // Any run may become the best: its value is bold, behind a star.
  const star = bestWay(name) ? measured("★", `600 ${font}`) + starGap : 0;
  for (const text of more) widest = Math.max(widest, star + measured(text, font) + 26);
  for (const run of runs) {
    const { text } = cellText(run, name);
    const extra = name === "tags" ? 16 * run.tags.length : name === "status" ? 20 : name === "name" ? 14 : 10;
    widest = Math.max(widest, star + measured(text, star ? `600 ${font}` : font) + extra + 16);
  }
  return Math.round(Math.max(least, Math.min(most, widest)));
}

/** Places the columns. Pinned ones stay as long as they leave half of the table to the others. */
export function lay(
  columns: readonly Column[],
  width: (c: Column) => number,
  space: number,
  numeric: (name: string) => boolean,
): Laid[] {
  let left = boxWidth;
  return columns.map((c) => {
    const px = c.width ?? width(c);
    const stays = c.pinned && left + px <= Math.max(space / 2, 200);
    const laid = {
      ...c,
      ...titleOf(c.name),
      px,
      right: !leftOnes.has(c.name) && numeric(c.name),
      left: stays ? left : null,
    };
    if (stays) left += px;
    return laid;
  });
}
