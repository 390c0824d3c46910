import type { XAxis } from "./axis.ts";
import type { Palette } from "./color.ts";
import {
  type Context,
  type Frame,
  type Front,
  type Line,
  type Needle,
  needlesOf,
  paintLane,
  paintLines,
  paintNeedles,
} from "./paint.ts";
import type { Range } from "./range.ts";

/** Scene is everything that a plot shows. */
export interface Scene {
  lines: Line[];
  axis: XAxis;
  x: [number, number];
  y: Range;
  log: boolean;
  palette: Palette;
  front: Front;
  /** Changes when a label does that nothing else here shows. */
  version: string;
  needleLabel: (needle: Needle) => string;
}

/** Paints the curves of a scene and what stands around them, and tells where its needles are. */
export function paintScene(ctx: Context, f: Frame, scene: Scene): Needle[] {
  const { lines, front, palette, y, needleLabel } = scene;
  paintLines(ctx, f, lines, front);
  paintLane(ctx, f, lines, palette.text);
  const needles = needlesOf(f, lines, y);
  paintNeedles(ctx, f, needles, { label: needleLabel, front, text: palette.text, card: palette.card });
  return needles;
}
