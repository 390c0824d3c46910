import { code, columnStart, type Reduction } from "../api/kymograph.ts";

/** Rows of codes → pixels. A row's cells lie on the grid of its picture; the pixels on that of what is in view. */

export interface Grid {
  from: number;
  to: number;
  columns: number;
}

/** For each pixel the first and last column under it, −1 where the picture does not reach. */
export interface Columns {
  first: Int32Array;
  last: Int32Array;
}

export function columnsAt(picture: Grid, view: Grid): Columns {
  const n = view.columns;
  const [first, last] = [new Int32Array(n).fill(-1), new Int32Array(n).fill(-1)];
  const [own, shown] = [picture.to - picture.from + 1, view.to - view.from + 1];
  const same = picture.from === view.from && picture.to === view.to;
  for (let i = 0; i < n; i++) {
    // The edges of a pixel in columns of the picture; on the same grid without rounding of x.
    const edge = (k: number) =>
      same
        ? (k * picture.columns) / n
        : ((view.from - picture.from + (k * shown) / n) * picture.columns) / own;
    const [a, b] = [edge(i), edge(i + 1)];
    // A pixel is of the cell under its middle, and of all that begin in it where cells are narrower.
    const middle = Math.floor((a + b) / 2);
    const narrow = b - a > 1;
    const from = narrow ? Math.min(middle, Math.ceil(a - 1e-9)) : middle;
    const to = narrow ? Math.ceil(b - 1e-9) - 1 : middle;
    if (to < 0 || from >= picture.columns) continue;
    first[i] = Math.max(0, from);
    last[i] = Math.min(picture.columns - 1, to);
  }
  return { first, last };
}

/** One code for several cells: what a cell over all of them would show, as near as levels tell. */
export function merge(cells: Uint8Array, from: number, to: number, how: Reduction): number {
  if (from === to) return cells[from]!;
  let [nan, n, sum, best, empty] = [0, 0, 0, -1, false];
  for (let i = from; i <= to; i++) {
    const c = cells[i]! & ~code.hasNaN;
    nan |= cells[i]! & code.hasNaN;
    if (c === code.empty) empty = true;
    if (c < code.below) continue;
    n++;
    sum += c;
    if (best < 0 || (how === "min" ? c < best : c > best)) best = c;
  }
  if (n === 0) return (empty ? code.empty : code.missing) | nan;
  return (how === "mean" ? Math.round(sum / n) : best) | nan;
}

/** The code of every pixel of a row. */
export function codesAt(out: Uint8Array, cells: Uint8Array, at: Columns, how: Reduction): void {
  const { first, last } = at;
  for (let i = 0; i < out.length; i++) {
    const from = first[i]!;
    if (from < 0) out[i] = code.missing;
    else out[i] = from === last[i] ? cells[from]! : merge(cells, from, last[i]!, how);
  }
}

export interface Ink {
  /** Lines of the hatch over NaN, and the ground under a cell that has nothing else. */
  hatch: number;
  ground: number;
  /** Corners of cells beyond the limits. */
  mark: number;
}

const hatchStep = 5;
const markSize = 5; // at most
const leastMarked = 7; // pixels a side, below which a cell has no corner

/** What a code asks for beside its colour. */
const [special, clipped, bare] = [1, 2, 4];
const traits = Uint8Array.from({ length: 256 }, (_, c) => {
  const plain = c & ~code.hasNaN;
  const beyond = plain === code.below || plain === code.above;
  return (
    (c >= code.hasNaN || plain === code.empty ? special : 0) |
    (beyond ? clipped : 0) |
    (plain === code.empty ? bare : 0)
  );
});

/** Whether a cell of NaN shows a line of the hatch in this pixel. */
export const hatched = (x: number, y: number): boolean => (x + y) % hatchStep === 0;

/** Paints a row `height` pixels tall from `top` on; a gap is left free under it. */
export function paintRow(
  pixels: Uint32Array,
  width: number,
  top: number,
  height: number,
  codes: Uint8Array,
  at: Columns,
  colors: Uint32Array,
  ink: Ink,
): void {
  const start = top * width;
  let seen = 0;
  for (let x = 0; x < width; x++) {
    const c = codes[x]!;
    pixels[start + x] = colors[c]!;
    seen |= traits[c]!;
  }
  if (seen & bare)
    for (let x = 0; x < width; x++) if (traits[codes[x]!]! & bare) pixels[start + x] = ink.ground;
  for (let y = 1; y < height; y++) pixels.copyWithin(start + y * width, start, start + width);
  if (seen & special)
    for (let x = 0; x < width; x++)
      if (traits[codes[x]!]! & special)
        for (let y = 0; y < height; y++) if (hatched(x, top + y)) pixels[start + y * width + x] = ink.hatch;
  if (seen & clipped && height >= leastMarked) paintMarks(pixels, width, start, height, codes, at, ink.mark);
}

/** A corner in each clipped cell that is wide enough: above at the top right, below at the bottom left. */
function paintMarks(
  pixels: Uint32Array,
  width: number,
  start: number,
  height: number,
  codes: Uint8Array,
  at: Columns,
  mark: number,
): void {
  for (let x = 0; x < width; ) {
    const from = x;
    while (x < width && at.first[x] === at.first[from]) x++;
    const c = codes[from]! & 127;
    if ((c !== code.below && c !== code.above) || x - from < leastMarked) continue;
    const size = Math.min(markSize, height - 2, x - from - 2);
    for (let i = 0; i < size; i++)
      for (let k = 0; k < size - i; k++) {
        const [px, py] = c === code.above ? [x - 1 - k, i] : [from + k, height - 1 - i];
        pixels[start + py * width + px] = mark;
      }
  }
}

/** How many cells of rows lie beyond the limits, or hold a NaN. */
export interface Clipped {
  below: number;
  above: number;
  nan: number;
  cells: number;
}

export function countClipped(rows: Iterable<Uint8Array>): Clipped {
  const out = { below: 0, above: 0, nan: 0, cells: 0 };
  for (const cells of rows)
    for (const c of cells) {
      const plain = c & 127;
      if (plain === code.below) out.below++;
      if (plain === code.above) out.above++;
      if (c >= code.hasNaN) out.nan++;
      if (c !== code.missing) out.cells++;
    }
  return out;
}

const most = 18;
const least = 3;

/** CSS pixels of a row: as chosen, or what fits all of them into the room. */
export function rowHeight(chosen: string, rows: number, room: number): number {
  const n = Number(chosen);
  if (chosen && n >= least && n <= most) return Math.round(n);
  return Math.min(most, Math.max(least, Math.floor(room / Math.max(1, rows))));
}

export const labelledFrom = 11;

/** Rows first…last (not included) that a window over rows of one height shows. */
export function rowsIn(scroll: number, room: number, height: number, rows: number): [number, number] {
  const first = Math.max(0, Math.floor(scroll / height));
  return [Math.min(first, rows), Math.min(rows, Math.ceil((scroll + room) / height))];
}

/** The row under a place in the picture, −1 beyond the last. */
export function rowAt(y: number, height: number, rows: number): number {
  const row = Math.floor(y / height);
  return row >= 0 && row < rows ? row : -1;
}

/** The x that lie under a pixel of the view, in whole numbers: those of the cell of the picture there. */
export function cellAt(
  px: number,
  view: Grid,
  picture: Grid,
): { column: number; from: number; to: number } | null {
  const at = columnsAt(picture, view);
  const column = at.first[Math.max(0, Math.min(view.columns - 1, Math.floor(px)))]!;
  if (column < 0) return null;
  const from = columnStart(picture, column);
  return { column, from, to: Math.max(from, columnStart(picture, column + 1) - 1) };
}
