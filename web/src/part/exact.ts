import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { storedRange, type XAxis } from "../chart/axis.ts";
import { type Curve, curveOf, type Mark, type MarkKind } from "../chart/curve.ts";
import { type Line, marksOf } from "../chart/paint.ts";
import type { Range } from "../chart/range.ts";
import { ask, type Wanted } from "./wanted.ts";

const closer = 128; // buckets of one drawn bucket, to find a single point in it
const deepest = 8; // 128^8 is more than an int64 counts

/** Span is where a bucket lies, and the value in it that stands out. */
interface Span {
  lo: number;
  hi: number;
  value: number;
}

/** Exact is the one x of a needle or mark whose bucket was too wide to tell, and its value in all digits. */
interface Exact {
  at: number;
  value: number;
}

/** ExactPlaces says where single points are, once that is known. */
export interface ExactPlaces {
  needle: (n: Span) => Exact | undefined;
  /** The first value of a kind that no line can show: its bucket, and its own place. */
  mark: (kind: MarkKind) => { mark: Mark; at: number | undefined } | null;
  /** Changes when more is known. */
  version: string;
}

/** Target is a bucket to look into, and which of the finer ones to follow there; −1 for none. */
interface Target {
  key: string;
  line: string;
  span: { lo: number; hi: number };
  pick: (curve: Curve) => number;
  value: (curve: Curve, i: number) => number;
}

type Found = { value: ReadonlyMap<string, Exact>; peek(): ReadonlyMap<string, Exact> };

/** Asks for the exact x of the furthest needle and of the first NaN: a bucket of 868 steps does not tell which one broke. */
export function useExact(
  lines: Line[],
  finished: boolean,
  y: Range,
  x: [number, number],
  axis: XAxis,
  wanted: { current: Wanted[] },
): ExactPlaces {
  const found = useSignal<ReadonlyMap<string, Exact>>(new Map());
  const marks = useMemo(() => firstMarks(lines), [lines]);
  // Wall and relative time are two places of one bucket.
  const needleKey = (n: Span) => `${axis.key} ${n.value} ${n.lo} ${n.hi}`;
  const markKey = ({ line, mark }: FirstMark) => `${axis.key} ${mark.kind} ${line.id} ${mark.lo} ${mark.hi}`;

  const far = finished && y.clipped ? furthest(lines, y, x) : null;
  const up = far !== null && far.value > y.max;
  const side = (c: Curve) => (up ? c.max : c.min);
  useTarget(
    far && {
      ...{ key: needleKey(far), line: far.line.id, span: far },
      pick: (c) => furthestFrom(side(c), (y.min + y.max) / 2),
      value: (c, i) => side(c)[i]!,
    },
    found,
    wanted,
  );
  const first = finished ? marks.get("nan") : undefined;
  useTarget(
    first
      ? {
          ...{ key: markKey(first), line: first.line.id, span: first.mark },
          pick: (c) => c.lo.indexOf(c.marks.find((m) => m.kind === "nan")?.lo ?? Number.NaN),
          value: () => Number.NaN,
        }
      : null,
    found,
    wanted,
  );
  return {
    needle: (n) => found.value.get(needleKey(n)),
    mark: (kind) => {
      const place = marks.get(kind);
      if (!place) return null;
      const { mark } = place;
      return { mark, at: mark.lo === mark.hi ? mark.lo : found.value.get(markKey(place))?.at };
    },
    version: `${axis.key} ${found.value.size}`,
  };
}

function useTarget(target: Target | null, found: Found, wanted: { current: Wanted[] }): void {
  useEffect(() => {
    const source = target && wanted.current.find((w) => w.id === target.line);
    if (!target || !source || target.span.lo === target.span.hi || found.peek().has(target.key)) return;
    const abort = new AbortController();
    lookInto(source, target, abort.signal).then(
      (exact) => {
        if (exact && !abort.signal.aborted) found.value = new Map([...found.peek(), [target.key, exact]]);
      },
      () => {}, // without the exact place the arrow or mark still stands where the bucket is
    );
    return () => abort.abort();
  }, [target?.key]);
}

/** Looks into a bucket, and into what is found there, until a single x is left; null when it is not found. */
async function lookInto(source: Wanted, target: Target, abort: AbortSignal): Promise<Exact | null> {
  let { lo, hi } = target.span;
  for (let deep = 0; deep < deepest && !abort.aborted; deep++) {
    const query = { ...source.query, n: closer, ...storedRange([lo, hi], source.unit) };
    const result = await ask(source, query, abort);
    if ("error" in result) return null;
    const curve = curveOf(result.columns, source.unit);
    const i = target.pick(curve);
    if (i < 0) return null;
    if (curve.lo[i] === curve.hi[i]) return { at: curve.lo[i]!, value: target.value(curve, i) };
    [lo, hi] = [curve.lo[i]!, curve.hi[i]!];
  }
  return null;
}

function furthestFrom(values: Float64Array, middle: number): number {
  let best = -1;
  values.forEach((v, i) => {
    if (Math.abs(v - middle) > (best < 0 ? -1 : Math.abs(values[best]! - middle))) best = i;
  });
  return best;
}

interface FirstMark {
  line: Line;
  mark: Mark;
}

function firstMarks(lines: Line[]): Map<MarkKind, FirstMark> {
  const first = new Map<MarkKind, FirstMark>();
  for (const line of lines)
    for (const mark of marksOf(line)) {
      const known = first.get(mark.kind);
      if (!known || mark.lo < known.mark.lo) first.set(mark.kind, { line, mark });
    }
  return first;
}

/** The value in view that lies furthest beyond the y range. */
function furthest(lines: Line[], y: Range, x: [number, number]): (Span & { line: Line }) | null {
  let best: (Span & { line: Line }) | null = null;
  for (const line of lines) {
    const c = line.curve;
    for (let i = 0; !line.faded && i < c.lo.length; i++) {
      if (c.hi[i]! < x[0] || c.lo[i]! > x[1]) continue;
      for (const value of [c.max[i]!, c.min[i]!])
        if ((value > y.max || value < y.min) && (!best || Math.abs(value) > Math.abs(best.value)))
          best = { line, lo: c.lo[i]!, hi: c.hi[i]!, value };
    }
  }
  return best;
}
