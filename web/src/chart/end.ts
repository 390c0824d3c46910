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
  for (const line of named) {
    const at = endOf(f, line);
    if (!at || taken.some((y) => Math.abs(y - at[1]) < lineHeight * f.ratio)) continue;
    taken.push(at[1]);
    const text = (line.id === star ? "★ " : "") + (scene.endLabel?.(line) ?? "");
    if (text) note(ctx, f, at, text, palette);
  }
  const best = star === undefined ? undefined : lines.find((l) => l.id === star);
  const end = best && !named.includes(best) ? endOf(f, best) : null;
  if (end) note(ctx, f, end, "★", palette);
  ctx.restore();
}

function note(
  ctx: Context,
  f: Frame,
  [px, py]: [number, number],
  text: string,
  look: { text: string; card: string },
): void {
  const width = ctx.measureText(text).width + 6 * f.ratio;
  const height = lineHeight * f.ratio;
  const left = Math.max(f.left, Math.min(px - width, f.left + f.width - width));
  // Above the line, or below it at the top.
  const top = py - height - 3 * f.ratio >= f.top ? py - height - 3 * f.ratio : py + 3 * f.ratio;
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = look.card;
  ctx.fillRect(left, top, width, height);
  ctx.globalAlpha = 1;
  ctx.fillStyle = look.text;
  ctx.fillText(text, left + 3 * f.ratio, top + height / 2);
}
