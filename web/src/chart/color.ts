/** Hues of runs and lines: computed for distance in OKLab over normal and colour-blind vision (docs/design/targets.md). */
const light = ["#3666d5", "#e66700", "#541791", "#069ce4", "#a73a1b", "#a57785", "#711e40", "#745388"];
const dark = ["#57a8ff", "#ed6e12", "#e4df2c", "#0ff6f1", "#b93000", "#3c6cdc", "#b58a9f", "#7a5d7d"];
const dashes: number[][] = [[], [6, 3], [2, 2]];

/** 24 slots: eight hues, each solid, dashed and dotted. */
export const slots = light.length * dashes.length;

export function hue(slot: number, isDark: boolean): string {
  const palette = isDark ? dark : light;
  return palette[slot % palette.length]!;
}

export function dash(slot: number): number[] {
  // Hues 5 to 8 are near each other in thin lines: a long dash tells them apart from the first four.
  if (slot >= 4 && slot < light.length) return [10, 2];
  return dashes[Math.floor(slot / light.length) % dashes.length]!;
}

/** Opacity of one of n grey lines when there are more lines than slots. */
export function crowdAlpha(n: number): number {
  return Math.max(0.08, 4 / n);
}

export interface Palette {
  card: string;
  text: string;
  muted: string;
  grid: string;
  line: string;
  crowd: string;
  accent: string;
}

export const lightPalette: Palette = {
  card: "#ffffff",
  text: "#1b1f24",
  muted: "#5b6470",
  grid: "#eef0f3",
  line: "#e3e6eb",
  crowd: "#3d4650",
  accent: "#2f6feb",
};

export const darkPalette: Palette = {
  card: "#0f1317",
  text: "#e6e9ed",
  muted: "#98a2ad",
  grid: "#1a2026",
  line: "#232a31",
  crowd: "#c3cad2",
  accent: "#6ea8ff",
};

export type Rgb = [number, number, number];

export function rgbOf(hex: string): Rgb {
  const n = Number.parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

/** The colours of a scale, written one after the other. */
export const stops = (text: string): Rgb[] => text.split(" ").map(rgbOf);

/** A place of a scale, from 0 to 1. */
export function along(scale: readonly Rgb[], share: number): Rgb {
  const place = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const low = Math.min(scale.length - 2, Math.floor(place));
  const [a, b] = [scale[low]!, scale[low + 1]!];
  return [0, 1, 2].map((i) => Math.round(a[i]! + (b[i]! - a[i]!) * (place - low))) as Rgb;
}

/** A colour as ImageData has it: red in the lowest byte. */
export const packed = ([r, g, b]: Rgb): number => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
