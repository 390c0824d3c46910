import type { XAxis } from "./axis.ts";
import type { Palette } from "./color.ts";
import { type Density, densityOf, paintDensity } from "./density.ts";
import { paintEnds } from "./end.ts";
import type { Layer } from "./layer.ts";
import {
  type Context,
  clipped,
  type Frame,
  type Front,
  type Line,
  type Needle,
  needlesOf,
  paintAhead,
  paintBehind,
  paintLane,
  paintNeedles,
  strengthOf,
  toX,
  toY,
} from "./paint.ts";
import type { Range } from "./range.ts";

/** Scene is everything that a plot shows. */
export interface Scene {
  lines: Line[];
  /** Groups, each a line and a band over its members. */
  layers?: readonly Layer[];
  /** The lines that are hidden are drawn as a density. */
  density?: boolean;
  axis: XAxis;
  x: [number, number];
  y: Range;
  log: boolean;
  palette: Palette;
  front: Front;
  /** Changes when a label does that nothing else here shows. */
  version: string;
  needleLabel: (needle: Needle) => string;
  /** What stands at the end of a line in front. */
  endLabel?: (line: Line) => string;
  /** The best run's line. */
  star?: string;
}

/** Paints the curves of a scene and what stands around them, and tells where its needles are. */
export function paintScene(ctx: Context, f: Frame, scene: Scene): Needle[] {
  const { lines, layers = [], front, palette, y, needleLabel } = scene;
  clipped(ctx, f, () => {
    if (scene.density)
      paintDensity(ctx, f, knownDensity(f, lines), palette.crowd, strengthOf(front, undefined));
    for (const layer of layers) paintSpread(ctx, f, layer, strengthOf(front, layer.key));
    paintBehind(ctx, f, lines, front);
    for (const layer of layers) paintCentre(ctx, f, layer, strengthOf(front, layer.key));
    paintAhead(ctx, f, lines, front);
  });
  paintEnds(ctx, f, scene);
  paintLane(ctx, f, lines, palette.text);
  const needles = needlesOf(f, lines, y);
  paintNeedles(ctx, f, needles, { label: needleLabel, front, text: palette.text, card: palette.card });
  return needles;
}

const known = new WeakMap<readonly Line[], { at: string; density: Density }>();

/** A line that comes forward changes no density, and many of them do while a pointer moves. */
function knownDensity(f: Frame, lines: readonly Line[]): Density {
  const at = JSON.stringify(f);
  let found = known.get(lines);
  if (found?.at !== at) {
    const hidden = lines.filter((line) => line.hidden);
    found = { at, density: densityOf(f, hidden) };
    known.set(lines, found);
  }
  return found.density;
}

const bandAlpha = 0.16;

const drawable = (f: Frame, v: number): boolean => Number.isFinite(v) && (!f.log || v > 0);

/** The band of a group; where its lower edge has no place on a log scale it goes down to the frame. */
function paintSpread(ctx: Context, f: Frame, layer: Layer, strength: number): void {
  const { x, low, high } = layer;
  const bottom = f.top + f.height;
  const inBand = (i: number) => drawable(f, high[i]!) && !Number.isNaN(low[i]);
  ctx.fillStyle = layer.color;
  ctx.globalAlpha = bandAlpha * strength;
  ctx.beginPath();
  for (let i = 0; i < x.length; i++) {
    if (!inBand(i)) continue;
    const from = i;
    while (i + 1 < x.length && inBand(i + 1)) i++;
    const half = from === i ? f.ratio / 2 : 0; // a piece of one cell is still a pixel wide
    const floor = (k: number) => (drawable(f, low[k]!) ? toY(f, low[k]!) : bottom);
    ctx.moveTo(toX(f, x[from]!) - half, toY(f, high[from]!));
    for (let k = from; k <= i; k++) ctx.lineTo(toX(f, x[k]!) + half, toY(f, high[k]!));
    for (let k = i; k >= from; k--) ctx.lineTo(toX(f, x[k]!) + half, floor(k));
    ctx.lineTo(toX(f, x[from]!) - half, floor(from));
    ctx.closePath();
  }
  ctx.fill();
  ctx.globalAlpha = 1;
}

function paintCentre(ctx: Context, f: Frame, layer: Layer, strength: number): void {
  const { x, centre } = layer;
  ctx.strokeStyle = layer.color;
  ctx.globalAlpha = strength;
  ctx.lineWidth = 2 * f.ratio;
  ctx.setLineDash(layer.dash.map((d) => d * f.ratio));
  ctx.beginPath();
  let open = false;
  for (let i = 0; i < x.length; i++) {
    const shown = drawable(f, centre[i]!);
    const [px, py] = shown ? [toX(f, x[i]!), toY(f, centre[i]!)] : [0, 0];
    if (shown && open) ctx.lineTo(px, py);
    else if (shown) {
      ctx.moveTo(px, py);
      if (!drawable(f, centre[i + 1] ?? Number.NaN)) ctx.lineTo(px + f.ratio, py); // alone, it is still seen
    }
    open = shown;
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}
