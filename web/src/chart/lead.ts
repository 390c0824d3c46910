import type { BucketColumns } from "../api/types.ts";
import { type Curve, curveOf } from "./curve.ts";

/** A stored range, from the beginning where from is missing. */
export interface Before {
  from?: number;
  to: number;
}

const enough = 4; // buckets of n that hold the memory, one part of this many: a finer question would tell little more
const deepest = 6; // questions; each looks at a part of the one before

/**
 * The buckets before a zoom that an EMA still remembers, `reach` points of them; undefined when there are none. Where
 * points lie is not known, so the first question is for all of them, and the next for the part that is remembered.
 */
export async function leadOf(
  ask: (range: Before) => Promise<BucketColumns | null>,
  to: number,
  n: number,
  reach: number,
): Promise<Curve | undefined> {
  let range: Before = { to };
  let found: Curve | undefined;
  for (let deep = 0; deep < deepest; deep++) {
    const columns = await ask(range);
    if (!columns || columns.lo.length === 0) return found;
    found = curveOf(columns);
    const first = firstOf(found, reach);
    const from = Number(columns.lo[first]);
    if (first === 0 || found.count.length - first >= n / enough || from === range.from) return found;
    range = { from, to };
  }
  return found;
}

/** The first of the last buckets that hold so many points. */
function firstOf(c: Curve, reach: number): number {
  let points = 0;
  for (let i = c.count.length - 1; i > 0; i--) {
    points += c.count[i]!;
    if (points >= reach) return i;
  }
  return 0;
}

/** The last stored x before `from`; a double beyond 2^53 has no next integer, there it is the next number. */
export function justBefore(from: number): number {
  return from - 1 < from ? from - 1 : from - 512;
}
