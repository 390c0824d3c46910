import { type Context, type Frame, type Line, toX, toY } from "./paint.ts";

/** Density is how many lines pass each cell of a frame. */
export interface Density {
  columns: number;
  rows: number;
  /** Canvas pixels of a cell. */
  size: number;
  counts: Uint32Array;
  most: number;
}

const cellSize = 3; // CSS pixels
const levels = 8; // steps of opacity
const faintest = 0.07;
const strongest = 0.62;

/** How many lines pass each cell: a line counts once in a cell, however often it crosses that. */
export function densityOf(f: Frame, lines: readonly Line[]): Density {
  const size = cellSize * f.ratio;
  const [columns, rows] = [Math.ceil(f.width / size), Math.ceil(f.height / size)];
  const counts = new Uint32Array(columns * rows);
  const [low, high] = [new Float64Array(columns), new Float64Array(columns)];
  for (const line of lines) {
    low.fill(Infinity);
    high.fill(-Infinity);
    trace(f, line, size, low, high);
    for (let c = 0; c < columns; c++) {
      const from = Math.max(0, Math.floor((low[c]! - f.top) / size));
      const to = Math.min(rows - 1, Math.floor((high[c]! - f.top) / size));
      for (let r = from; r <= to; r++) counts[c * rows + r]!++;
    }
  }
  let most = 0;
  for (const n of counts) if (n > most) most = n;
  return { columns, rows, size, counts, most };
}

/** The pixels that a line spans in every column of cells. */
function trace(f: Frame, line: Line, size: number, low: Float64Array, high: Float64Array): void {
  const { x, y } = line.smooth ?? { x: line.curve.x, y: line.curve.mean };
  let [px, py] = [Number.NaN, Number.NaN];
  const note = (column: number, at: number) => {
    if (column < 0 || column >= low.length) return;
    if (at < low[column]!) low[column] = at;
    if (at > high[column]!) high[column] = at;
  };
  for (let i = 0; i < x.length; i++) {
    const shown = Number.isFinite(y[i]) && (!f.log || y[i]! > 0);
    const [nx, ny] = shown ? [toX(f, x[i]!) - f.left, toY(f, y[i]!)] : [Number.NaN, Number.NaN];
    if (shown) note(Math.floor(nx / size), ny);
    if (shown && !Number.isNaN(px) && nx > px) cross(px, py, nx, ny, size, low.length, note);
    [px, py] = [nx, ny];
  }
}

/** Notes where an edge enters and leaves each column. */
function cross(
  px: number,
  py: number,
  nx: number,
  ny: number,
  size: number,
  columns: number,
  note: (column: number, at: number) => void,
): void {
  const last = Math.min(columns - 1, Math.floor(nx / size));
  for (let c = Math.max(0, Math.floor(px / size)); c <= last; c++)
    for (const edge of [Math.max(px, c * size), Math.min(nx, (c + 1) * size)])
      note(c, py + ((ny - py) * (edge - px)) / (nx - px));
}

/** The opacity of a cell that so many lines pass: by the logarithm, in a few steps. */
export function opacity(count: number, most: number): number {
  if (count === 0) return 0;
  const share = most > 1 ? Math.log(count) / Math.log(most) : 1;
  return faintest + ((strongest - faintest) * Math.round(share * (levels - 1))) / (levels - 1);
}

/** Draws a density in one hue, a path for each step of opacity. */
export function paintDensity(ctx: Context, f: Frame, d: Density, color: string, strength: number): void {
  const paths = new Map<number, [number, number, number][]>();
  for (let c = 0; c < d.columns; c++)
    for (let r = 0; r < d.rows; ) {
      const alpha = opacity(d.counts[c * d.rows + r]!, d.most);
      const from = r++;
      while (r < d.rows && opacity(d.counts[c * d.rows + r]!, d.most) === alpha) r++;
      if (alpha === 0) continue;
      const path = paths.get(alpha);
      if (path) path.push([c, from, r]);
      else paths.set(alpha, [[c, from, r]]);
    }
  ctx.fillStyle = color;
  for (const [alpha, cells] of paths) {
    ctx.globalAlpha = alpha * strength;
    ctx.beginPath();
    for (const [c, from, to] of cells) cell(ctx, f, d.size, c, from, to);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

function cell(ctx: Context, f: Frame, size: number, c: number, from: number, to: number): void {
  const [left, right] = [f.left + c * size, Math.min(f.left + f.width, f.left + (c + 1) * size)];
  const [top, bottom] = [f.top + from * size, Math.min(f.top + f.height, f.top + to * size)];
  ctx.moveTo(left, top);
  ctx.lineTo(right, top);
  ctx.lineTo(right, bottom);
  ctx.lineTo(left, bottom); // a fill closes it
}
