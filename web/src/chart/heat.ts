import { code, levels } from "../api/kymograph.ts";
import { along, packed, type Rgb, stops } from "./color.ts";

/** Colours of values in a heat map: one scale for values of one sign, one with a middle at 0 for both. */

const sequential = stops(
  "#440f5c #46327e #3b528b #2c728e #21908d #27ad81 #5ec962 #aadc32 #fde725", // viridis, its foot a little lighter
);
/** Both ends of a scale around 0 lead away from the page: to dark on light, to light on dark. */
const around = {
  light: stops("#123f8f #2f6cc4 #6fa0e0 #b3cbea #d9dadb #f0bd93 #e5884a #c4540f #7d2f06"),
  dark: stops("#a5d0ff #63a4f5 #3a70c0 #2a456f #30353b #6e4323 #b9621f #f28c3a #ffc791"),
};

/** Whether a scale has its middle at 0. */
const diverges = ([lo, hi]: [number, number]): boolean => lo < 0 && hi > 0;

/** The colour of a value between limits. */
export function colorOf(value: number, limits: [number, number], isDark: boolean): Rgb {
  const [lo, hi] = limits;
  if (diverges(limits)) {
    const most = Math.max(-lo, hi);
    return along(around[isDark ? "dark" : "light"], 0.5 + value / most / 2);
  }
  // Halves, so that a difference of large numbers is finite.
  const share = lo === hi ? 0.5 : (value / 2 - lo / 2) / (hi / 2 - lo / 2);
  return along(sequential, Number.isNaN(share) ? 0.5 : share);
}

/** The value in the middle of a level. */
export function levelValue(level: number, [lo, hi]: [number, number]): number {
  const share = (level + 0.5) / levels;
  return lo * (1 - share) + hi * share;
}

/**
 * A colour for each code of a picture that was coded between `coded`, shown between `shown`. Codes beyond the coded
 * limits have the colour of the scale's end.
 */
export function table(coded: [number, number], shown: [number, number], isDark: boolean): Uint32Array {
  const out = new Uint32Array(256); // missing: transparent
  const clamp = (v: number) => Math.min(shown[1], Math.max(shown[0], v));
  const set = (at: number, value: number) => {
    out[at] = packed(colorOf(clamp(value), shown, isDark));
    out[at | code.hasNaN] = out[at];
  };
  const flat = coded[0] === coded[1];
  for (let level = 0; level < levels; level++)
    set(code.first + level, flat ? coded[0] : levelValue(level, coded));
  set(code.below, coded[0]);
  set(code.above, coded[1]);
  return out;
}

/** A list of CSS colours along a scale, for its legend. */
export function gradient(limits: [number, number], isDark: boolean, steps = 32): string[] {
  return Array.from({ length: steps + 1 }, (_, i) => {
    const share = i / steps;
    const [r, g, b] = colorOf(limits[0] * (1 - share) + limits[1] * share, limits, isDark);
    return `rgb(${r} ${g} ${b})`;
  });
}
