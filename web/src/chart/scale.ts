import type { Value } from "../api/types.ts";
import { short, tickLabels } from "./number.ts";
import { ascending, median } from "./stat.ts";
import { linearTicks, logTicks } from "./tick.ts";
import { natural } from "./title.ts";

/** Scale is an axis over the values of one key: where a value stands, from 0 to 1, and what is written there. */
export interface Scale {
  kind: "linear" | "log" | "text";
  /** undefined for a value that has no place, such as NaN. */
  at(value: Value | undefined): number | undefined;
  /** The value at a place, of numbers. */
  value(at: number): number;
  ticks: { at: number; label: string }[];
}

const decades = 2; // from which on numbers get a log axis
const mostNamed = 12; // values that each get a tick
const edge = 0.04; // of the axis, free on both sides

/** The axis for some values: texts in the order of their names, numbers on a log axis where they were spread over one. */
export function scaleOf(values: readonly (Value | undefined)[], mostTicks = 5): Scale {
  const set = values.filter((v) => v !== undefined && v !== null && !Number.isNaN(v)) as Value[];
  const numbers = set.filter((v): v is number => typeof v === "number" && Number.isFinite(v));
  if (set.some((v) => typeof v !== "number")) return textScale(set);
  return numberScale(numbers, mostTicks);
}

function textScale(set: Value[]): Scale {
  const names = [...new Set(set.map(String))].sort(natural);
  const place = new Map(names.map((name, i) => [name, (i + 0.5) / names.length]));
  const every = Math.ceil(names.length / mostNamed);
  return {
    kind: "text",
    at: (v) => (v === undefined || v === null ? undefined : place.get(String(v))),
    value: () => Number.NaN,
    ticks: names.filter((_, i) => i % every === 0).map((label) => ({ at: place.get(label)!, label })),
  };
}

function numberScale(numbers: number[], mostTicks: number): Scale {
  const distinct = [...new Set(numbers)].sort((a, b) => a - b);
  const [min, max] = [distinct[0] ?? 0, distinct.at(-1) ?? 1];
  const log = isLog(numbers, min, max);
  const to = log ? Math.log10 : (v: number) => v;
  const [low, high] = [to(min), to(max)];
  const middle = low === high;
  const place = (v: number) => (middle ? 0.5 : edge + ((1 - 2 * edge) * (v - low)) / (high - low));
  // A few values are named themselves: they say more than round numbers do.
  const marks =
    distinct.length <= mostTicks + 1
      ? distinct.map(to)
      : log
        ? logTicks(low, high, mostTicks)
        : linearTicks(low, high, mostTicks);
  const labels =
    log || distinct.length <= mostTicks + 1 ? marks.map((t) => tidy(log ? 10 ** t : t)) : tickLabels(marks);
  return {
    kind: log ? "log" : "linear",
    at: (v) => {
      const n = typeof v === "number" ? v : Number.NaN;
      return Number.isFinite(n) && (!log || n > 0) ? place(to(n)) : undefined;
    },
    value: (at) => {
      const v = low + ((high - low) * (at - edge)) / (1 - 2 * edge);
      return log ? 10 ** v : v;
    },
    ticks: marks.map((t, i) => ({ at: place(t), label: labels[i]! })),
  };
}

/** Whether positive numbers span two decades with their middle nearer to a log axis' middle: a seed from 1 to 1000 is on none. */
function isLog(numbers: number[], min: number, max: number): boolean {
  if (!(min > 0 && max / min >= 10 ** decades)) return false;
  const middle = median(ascending(numbers));
  const share = (v: number, low: number, high: number) => Math.abs((v - low) / (high - low) - 0.5);
  return share(Math.log(middle), Math.log(min), Math.log(max)) < share(middle, min, max);
}

const tidy = (v: number): string => short(Number(v.toPrecision(4)));
