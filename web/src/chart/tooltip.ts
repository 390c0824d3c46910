import { nearest } from "./curve.ts";
import type { Frame, Line } from "./paint.ts";
import { toY } from "./paint.ts";

/** Row is one line's bucket under the cursor. */
export interface Row {
  line: Line;
  index: number;
  /** Pixels between the pointer and the line. */
  distance: number;
}

export const mostRows = 8;

/** The lines' buckets nearest to x, sorted by their distance to the pointer; canvas pixels. */
export function rowsAt(lines: Line[], f: Frame, x: number, py: number): Row[] {
  const rows: Row[] = [];
  const reach = ((f.x1 - f.x0) / Math.max(1, f.width)) * 24 * f.ratio;
  for (const line of lines) {
    if (line.faded) continue;
    const index = nearest(line.curve, x);
    if (index < 0) continue;
    const c = line.curve;
    const off = x < c.lo[index]! ? c.lo[index]! - x : Math.max(0, x - c.hi[index]!);
    const last = c.lo.length - 1;
    // A line that ended before x, or has not begun, has nothing to say there.
    if (off > reach && (index === 0 || index === last)) continue;
    const y = c.mean[index]!;
    const drawn = Number.isFinite(y) && (!f.log || y > 0);
    rows.push({ line, index, distance: drawn ? Math.abs(toY(f, y) - py) : Number.MAX_VALUE });
  }
  return rows.sort((a, b) => a.distance - b.distance).slice(0, mostRows);
}
