export interface Place {
  row: number;
  /** Device pixels from the left of the plot. */
  px: number;
  /** What keys chose: the place stays at this x while the picture grows. A pointer stays where it is. */
  x?: number;
}

/** Brush is what is being marked: two places, of pixels and rows. */
export interface Brush {
  from: Place;
  to: Place;
}

const slack = 5; // CSS pixels that a brush may wander off one axis

/** The parts of a brush that count: along x, along rows, or both. */
export function sidesOf(
  { from, to }: Brush,
  box: { ratio: number; rowHeight: number },
): { x: boolean; rows: boolean } {
  const [dx, dy] = [Math.abs(to.px - from.px) / box.ratio, Math.abs(to.row - from.row) * box.rowHeight];
  const rows = from.row !== to.row && dy >= Math.max(slack, box.rowHeight);
  return { x: dx >= slack || !rows, rows: rows && (dy > slack * 2 || dx < slack) };
}
