import type { Curve } from "./curve.ts";

/** What the y axis shows, and whether needles leave it. */
export interface Range {
  min: number;
  max: number;
  /** Values beyond the range exist: each is drawn as an arrow with its value. */
  clipped: boolean;
}

const robustShare = 0.01; // 1–99 %
const robustSpan = 5; // the full span must be this many times the robust one

const limit = 8e307; // a range wider than a double's numbers has no scale
const lineBudget = 8; // buckets a pixel column that all lines of a card share

/** Buckets for one of `lines` lines on `width` pixels: a pixel each, fewer when many lines share the card. */
export function resolution(width: number, lines: number): number {
  return Math.max(32, Math.min(width, Math.ceil((width * lineBudget) / Math.max(1, lines))));
}

/**
 * The y range over what lies in x0…x1. It is the full range unless a few values stretch it to more than five
 * times the 1–99 % span; then those values become needles that leave the frame.
 */
export function rangeOf(curves: Curve[], x0: number, x1: number, full: boolean, log: boolean): Range {
  const room = curves.reduce((n, c) => n + c.lo.length, 0);
  const found = { n: 0, mins: new Float64Array(room), maxs: new Float64Array(room) };
  for (const c of curves) collect(c, x0, x1, log, found);
  if (found.n === 0) return { min: log ? 1 : 0, max: log ? 10 : 1, clipped: false };
  // Typed arrays sort as numbers, without a call for each pair.
  const mins = found.mins.subarray(0, found.n).sort();
  const maxs = found.maxs.subarray(0, found.n).sort();
  const [min, max] = [mins[0]!, maxs[maxs.length - 1]!];
  const low = mins[Math.floor(robustShare * (mins.length - 1))]!;
  const high = maxs[Math.ceil((1 - robustShare) * (maxs.length - 1))]!;
  // With under 100 buckets ceil keeps the last one; then the outermost bucket a side is what may be a needle.
  const inner =
    mins.length < 100 && mins.length >= 8
      ? ([mins[1]!, maxs[maxs.length - 2]!] as const)
      : ([low, high] as const);
  const span = inner[1] - inner[0];
  const clipped = !full && span > 0 && max - min > robustSpan * span;
  // Cut is what lies more than one robust span outside, so that noise at the edge is no needle.
  const a = clipped ? mins.find((v) => v >= inner[0] - span)! : min;
  const b = clipped ? maxs.findLast((v) => v <= inner[1] + span)! : max;
  return { ...pad(a, b, log), clipped };
}

interface Found {
  n: number;
  mins: Float64Array;
  maxs: Float64Array;
}

function collect(c: Curve, x0: number, x1: number, log: boolean, found: Found): void {
  for (let i = 0; i < c.lo.length; i++) {
    if (c.hi[i]! < x0 || c.lo[i]! > x1 || !(c.count[i]! > 0)) continue;
    if (log && !(c.max[i]! > 0)) continue;
    found.maxs[found.n] = c.max[i]!;
    found.mins[found.n++] = log && !(c.min[i]! > 0) ? c.max[i]! : c.min[i]!;
  }
}

/** Whether rounding to so many digits shows: the range has fewer steps of it than a chart has pixels. */
export function coarse(y: Range, digits: number): boolean {
  const size = Math.max(Math.abs(y.min), Math.abs(y.max));
  return digits > 0 && y.max - y.min < 150 * 10 ** (Math.floor(Math.log10(size)) + 1 - digits);
}

function pad(min: number, max: number, log: boolean): { min: number; max: number } {
  if (log) {
    if (min === max) return { min: min / 2, max: max * 2 };
    const space = (Math.log10(max) - Math.log10(min)) * 0.04;
    return { min: 10 ** (Math.log10(min) - space), max: 10 ** (Math.log10(max) + space) };
  }
  if (min === max) {
    const space = Math.abs(min) * 0.1 || 1;
    return { min: min - space, max: max + space };
  }
  const space = max * 0.05 - min * 0.05;
  return { min: Math.max(-limit, min - space), max: Math.min(limit, max + space) };
}

/** A range with room for a lane of `lane` pixels under it on an axis `height` pixels tall, in the scale's own unit. */
export function withLane(min: number, max: number, lane: number, height: number): [number, number] {
  if (lane <= 0 || height <= lane * 2) return [min, max];
  return [min - ((max - min) * lane) / (height - lane), max];
}
