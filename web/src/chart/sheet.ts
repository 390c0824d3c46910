import type { Picture, Reduction } from "../api/kymograph.ts";
import { type Palette, packed, rgbOf } from "./color.ts";
import { table } from "./heat.ts";
import { type Columns, codesAt, columnsAt, type Grid, type Ink, labelledFrom, paintRow } from "./raster.ts";
import { cutMiddle } from "./title.ts";

/** A row in sight: its cells, as far as they are there, and what stands beside them. */
export interface SheetRow {
  strip: { picture: Picture; cells: Uint8Array } | undefined;
  name: string;
  bracket: string;
  bar: number;
}

/** Sheet is what one painting of a kymograph shows; lengths are device pixels. */
export interface Sheet {
  rows: SheetRow[];
  /** How far the first row lies above the canvas. */
  above: number;
  rowPx: number;
  gutter: number;
  bars: number;
  width: number;
  height: number;
  ratio: number;
  /** What the columns of pixels between gutter and bars span. */
  view: Grid;
  limits: [number, number] | null;
  reduce: Reduction;
  barRange: [number, number];
  palette: Palette;
  isDark: boolean;
}

const none: [number, number] = [0, 1];
const gapFrom = 6; // CSS pixels of a row from which on rows have a gap between them

/** SheetPainter keeps what every frame of a scroll needs again. */
export class SheetPainter {
  #image: ImageData | null = null;
  #codes = new Uint8Array(0);
  readonly #known = new WeakMap<Picture, { key: string; at: Columns; colors: Uint32Array }>();

  paint(ctx: CanvasRenderingContext2D, sheet: Sheet): void {
    ctx.clearRect(0, 0, sheet.width, sheet.height);
    this.#paintCells(ctx, sheet);
    paintBars(ctx, sheet);
    paintBrackets(ctx, sheet);
    if (sheet.rowPx >= labelledFrom * sheet.ratio) paintLabels(ctx, sheet);
  }

  #paintCells(ctx: CanvasRenderingContext2D, sheet: Sheet): void {
    const { view, rowPx, rows } = sheet;
    const [width, height] = [view.columns, rows.length * rowPx];
    if (width < 1 || height < 1) return;
    if (this.#image?.width !== width || this.#image.height !== height)
      this.#image = new ImageData(width, height);
    if (this.#codes.length !== width) this.#codes = new Uint8Array(width);
    const pixels = new Uint32Array(this.#image.data.buffer);
    const gap = rowPx >= gapFrom * sheet.ratio ? Math.round(sheet.ratio) : 0;
    const ink = inkOf(sheet.palette);
    rows.forEach((row, i) => {
      const end = (i + 1) * rowPx * width;
      if (!row.strip) {
        pixels.fill(0, end - rowPx * width, end);
        return;
      }
      if (gap) pixels.fill(0, end - gap * width, end);
      const { at, colors } = this.#of(row.strip.picture, sheet);
      codesAt(this.#codes, row.strip.cells, at, sheet.reduce);
      paintRow(pixels, width, i * rowPx, rowPx - gap, this.#codes, at, colors, ink);
    });
    ctx.putImageData(this.#image, sheet.gutter, -sheet.above);
  }

  #of(picture: Picture, { view, limits, isDark }: Sheet): { at: Columns; colors: Uint32Array } {
    const key = `${view.from} ${view.to} ${view.columns} ${limits} ${isDark}`;
    const known = this.#known.get(picture);
    if (known?.key === key) return known;
    // Of NaN and infinite values alone there are no limits, but cells to see.
    const [coded, shown] = [picture.limits ?? none, limits ?? picture.limits ?? none];
    const made = { key, at: columnsAt(picture, view), colors: table(coded, shown, isDark) };
    this.#known.set(picture, made);
    return made;
  }
}

const inkOf = (palette: Palette): Ink => ({
  hatch: packed(rgbOf(palette.text)),
  ground: packed(rgbOf(palette.card)),
  mark: packed(rgbOf(palette.text)),
});

function paintBars(ctx: CanvasRenderingContext2D, sheet: Sheet): void {
  const { rows, rowPx, ratio, bars, width, barRange, palette } = sheet;
  const left = width - bars + 8 * ratio;
  const room = bars - 16 * ratio;
  const [lo, hi] = [Math.min(0, barRange[0]), Math.max(0, barRange[1])];
  const place = (v: number) => (hi > lo ? left + ((v / 2 - lo / 2) / (hi / 2 - lo / 2)) * room : left);
  const zero = place(0);
  const thick = Math.max(1, rowPx - (rowPx >= 4 * ratio ? Math.round(ratio) : 0));
  ctx.fillStyle = palette.muted;
  rows.forEach((row, i) => {
    if (Number.isNaN(row.bar)) return;
    const end = place(Math.max(lo, Math.min(hi, row.bar)));
    ctx.fillRect(Math.min(zero, end), i * rowPx - sheet.above, Math.max(1, Math.abs(end - zero)), thick);
  });
  if (lo < 0 && hi > 0) {
    ctx.fillStyle = palette.text;
    ctx.fillRect(Math.round(zero), 0, 1, Math.min(sheet.height, rows.length * rowPx - sheet.above));
  }
}

/** A line beside each stretch of rows of one group, with its name where the rows have none of their own. */
function paintBrackets(ctx: CanvasRenderingContext2D, sheet: Sheet): void {
  const { rows, rowPx, ratio, palette } = sheet;
  const named = rowPx < labelledFrom * ratio;
  for (let i = 0; i < rows.length; ) {
    const from = i;
    while (i < rows.length && rows[i]!.bracket === rows[from]!.bracket) i++;
    const { bracket } = rows[from]!;
    if (!bracket || i - from < 2) continue; // rows of many groups in turn have no stretches
    const top = Math.max(0, from * rowPx - sheet.above);
    const bottom = Math.min(sheet.height, i * rowPx - sheet.above);
    const right = sheet.gutter - Math.round(5 * ratio);
    ctx.fillStyle = palette.muted;
    const inset = bottom - top > 4 * ratio ? Math.round(ratio) : 0;
    ctx.fillRect(right, top + inset, Math.round(2 * ratio), Math.max(1, bottom - top - 2 * inset));
    if (!named || bottom - top < 13 * ratio) continue;
    write(ctx, sheet, bracket, (top + bottom) / 2, right - 5 * ratio);
  }
}

function paintLabels(ctx: CanvasRenderingContext2D, sheet: Sheet): void {
  sheet.rows.forEach((row, i) => {
    write(ctx, sheet, row.name, (i + 0.5) * sheet.rowPx - sheet.above, sheet.gutter - 10 * sheet.ratio);
  });
}

function write(ctx: CanvasRenderingContext2D, sheet: Sheet, text: string, y: number, right: number): void {
  ctx.font = `${11 * sheet.ratio}px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.fillStyle = sheet.palette.text;
  ctx.fillText(fitted(ctx, text, right - 6 * sheet.ratio), right, y);
}

/** A text cut in the middle to the room that there is. */
function fitted(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  const most = 200; // what is longer never fits
  const whole = text.length > most ? cutMiddle(text, most) : text;
  let left = whole.length;
  let shown = whole;
  for (let width = ctx.measureText(shown).width; width > room && left > 1; ) {
    left = Math.max(1, Math.min(left - 1, Math.floor((left * room) / width)));
    shown = cutMiddle(whole, left);
    width = ctx.measureText(shown).width;
  }
  return shown;
}
