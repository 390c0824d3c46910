const group = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });

/** A number with four significant digits for a table or a chart's head; counts keep every digit below a million. */
export function short(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const v = Number(value);
  if (Number.isNaN(v)) return "NaN";
  if (v === Infinity) return "+Inf";
  if (v === -Infinity) return "−Inf";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e6) return minus(group.format(v));
  if (size >= 1e6 || size < 1e-4)
    return minus(
      v
        .toExponential(3)
        .replace(/\.?0+e/, "e")
        .replace("e+", "e"),
    );
  return minus(group.format(Number(v.toPrecision(4))));
}

/** Every digit that the number has, for a title or a copy. */
export function full(value: number | string | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** A text of which nobody takes a number, a truth or nothing at all; such a text stands in quotes. */
export function told(text: string): string {
  const plain = !/^(none|true|false|nan|[+-]?inf(inity)?|["“].*|.*["”]|\s.*|.*\s|)$/is.test(text);
  return plain && Number.isNaN(Number(text)) ? text : `"${text}"`;
}

/** A whole count, grouped by thousands. */
export function count(value: number): string {
  return group.format(value);
}

function minus(text: string): string {
  return text.replaceAll("-", "−");
}

const prefixes: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** The labels of an axis: as many digits as tell its ticks apart, with an SI suffix from 10,000 on. */
export function tickLabels(ticks: number[]): string[] {
  const most = Math.max(...ticks.map(Math.abs), 0);
  const step = ticks.length > 1 ? Math.abs(ticks[1]! - ticks[0]!) : most;
  if (most === 0) return ticks.map(() => "0");
  if (most < 1e-3 || most >= 1e15) return ticks.map((t) => (t === 0 ? "0" : minus(tidyExponent(t, step))));
  const [unit, suffix] = prefixes.find(([size]) => most >= size && most >= 1e4) ?? [1, ""];
  const digits = digitsFor(ticks, unit, step);
  // Ticks that differ far behind the point only, as 1,795,240,304 and …306 do, are shorter without a suffix.
  if (unit > 1 && digits > 4) return ticks.map((t) => minus(t.toFixed(digitsFor(ticks, 1, step))));
  return ticks.map((t) => (t === 0 ? "0" : minus((t / unit).toFixed(digits)) + suffix));
}

/** The fewest digits after the point that write every tick as it is. */
function digitsFor(ticks: number[], unit: number, step: number): number {
  const exact = (d: number) =>
    ticks.every((t) => Math.abs(t / unit - Number((t / unit).toFixed(d))) < (step / unit) * 1e-3);
  return [0, 1, 2, 3, 4, 5, 6, 7].find(exact) ?? 8;
}

function tidyExponent(value: number, step: number): string {
  const digits = Math.max(
    0,
    Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(step || Math.abs(value)) + 1e-9),
  );
  return value.toExponential(Math.min(6, digits)).replace("e+", "e");
}

/** A length of time in two units at most: 3 d 4 h, 12 m 5 s, 840 ms. */
export function duration(ms: number): string {
  if (!(ms >= 0)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
  const units: [string, number][] = [
    ["d", 86400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ];
  const i = units.findIndex(([, size]) => s >= size);
  const [name, size] = units[i]!;
  const rest = units[i + 1];
  const small = rest ? Math.floor((s % size) / rest[1]) : 0;
  return `${Math.floor(s / size)} ${name}${small ? ` ${small} ${rest![0]}` : ""}`;
}

/** How long ago, for a heartbeat. */
export function ago(ms: number): string {
  return ms < 2000 ? "now" : `${duration(ms)} ago`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** 2026-11-21 04:44 in local time. */
export function dateTime(ns: number, seconds = false): string {
  const d = new Date(ns / 1e6);
  const date = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
  return `${date} ${time}${seconds ? `:${two(d.getSeconds())}` : ""}`;
}

/** The labels of a wall-time axis in seconds since 1970. */
export function clockLabels(ticks: number[]): string[] {
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : 60;
  return ticks.map((t) => {
    const d = new Date(t * 1000);
    const date = `${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    if (step >= 86400) return date;
    const clock = `${two(d.getHours())}:${two(d.getMinutes())}`;
    if (step >= 60) return d.getHours() + d.getMinutes() === 0 ? date : clock;
    if (step >= 1) return `${clock}:${two(d.getSeconds())}`;
    return `${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
  });
}

/** The labels of a relative-time axis in seconds. */
export function spanLabels(ticks: number[]): string[] {
  return ticks.map((t) => (t === 0 ? "0" : t < 0 ? `−${duration(-t * 1000)}` : duration(t * 1000)));
}

/** How many of a thing. */
export const plural = (n: number, what: string): string => `${count(n)} ${n === 1 ? what : `${what}s`}`;
