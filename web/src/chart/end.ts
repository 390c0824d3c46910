import { type Context, type Frame, type Line, toX, toY } from "./paint.ts";
import type { Scene } from "./scene.ts";

const mostEnds = 4; // labels; of more lines in front the panel tells
const lineHeight = 13;

/** Where a line ends in view, in canvas pixels. */
function endOf(f: Frame, line: Line): [number, number] | null {
  const { x, y } = line.smooth ?? { x: line.curve.x, y: line.curve.mean };
  for (let i = x.length - 1; i >= 0; i--) {
    if (x[i]! > f.x1 || !Number.isFinite(y[i]) || (f.log && !(y[i]! > 0))) continue;
    const [px, py] = [toX(f, x[i]!), toY(f, y[i]!)];
    return px >= f.left ? [px, Math.max(f.top, Math.min(f.top + f.height, py))] : null;
  }
  return null;
}

/** Names the lines in front at their ends, and puts a star on the best run's. */
export function paintEnds(ctx: Context, f: Frame, scene: Scene): void {
  const { lines, front, palette, star } = scene;
  ctx.save();
  ctx.font = `${11 * f.ratio}px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const named = lines.filter((l) => !l.faded && front.lines.has(l.id)).slice(0, mostEnds);
  const taken: number[] = [];
  const write = (line: Line, text: string) => {
    const at = endOf(f, line);
    const top = at && text ? freeTop(f, at[1], taken) : undefined;
    if (!at || top === undefined) return;
    taken.push(top);
    note(ctx, f, [at[0], top], text, palette);
  };
  for (const line of named) write(line, (line.id === star ? "★ " : "") + (scene.endLabel?.(line) ?? ""));
  const best = star === undefined ? undefined : lines.find((l) => l.id === star);
  if (best && !named.includes(best)) write(best, "★");
  ctx.restore();
}

/** The top of a note above a height or below it, within the frame and clear of other notes; undefined where there is no room. */
function freeTop(f: Frame, py: number, taken: readonly number[]): number | undefined {
  const [height, gap] = [lineHeight * f.ratio, 3 * f.ratio];
  return [py - height - gap, py + gap].find(
    (top) =>
      top >= f.top && top + height <= f.top + f.height && taken.every((t) => Math.abs(t - top) >= height),
  );
}

function note(
  ctx: Context,
  f: Frame,
  [px, top]: [number, number],
  text: string,
  look: { text: string; card: string },
): void {
  const width = ctx.measureText(text).width + 6 * f.ratio;
  const height = lineHeight * f.ratio;
  const left = Math.max(f.left, Math.min(px - width, f.left + f.width - width));
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = look.card;
  ctx.fillRect(left, top, width, height);
  ctx.globalAlpha = 1;
  ctx.fillStyle = look.text;
  ctx.fillText(text, left + 3 * f.ratio, top + height / 2);
}
