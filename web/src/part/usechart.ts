import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { BucketQuery, BucketResult, RunDetail } from "../api/types.ts";
import { axisFor, placeText, storedRange, unitOf, type XAxis } from "../chart/axis.ts";
import { crowdAlpha, dash, hue, slots } from "../chart/color.ts";
import {
  type Curve,
  curveOf,
  extent,
  forkPlace,
  lastPoint,
  type Mark,
  type MarkKind,
  ratio,
  type Unit,
} from "../chart/curve.ts";
import { type Line, type Needle, needleText } from "../chart/paint.ts";
import { coarse, type Range, rangeOf } from "../chart/range.ts";
import { smooth } from "../chart/smooth.ts";
import { batch } from "../state/app.ts";
import { type Card, labelText, type Member, type Session } from "../state/session.ts";
import { isDark, palette } from "../state/theme.ts";
import { turn } from "../state/turn.ts";
import * as view from "../state/view.ts";

/** Wanted is one line to draw and the question that brings its buckets. */
interface Wanted {
  id: string;
  member: Member;
  query: BucketQuery;
  unit: Unit;
  faded: boolean;
  /** The last step of its ancestors that a fork inherits, where the axis counts these. */
  forkStep: number | undefined;
  color: string;
  dash: number[];
  alpha: number;
}

export interface Chart {
  lines: Line[];
  axis: XAxis;
  x: [number, number];
  y: Range;
  log: boolean;
  names: Map<string, Member>;
  /** Lines of the card, drawn or not. */
  total: number;
  drawn: number;
  loading: boolean;
  error: string;
  last: number | string | undefined;
  bucketed: number;
  needleLabel: (n: Needle) => string;
  /** Where the first value of a kind that no line can show is. */
  firstMark: (kind: MarkKind) => { lo: number; hi: number; text: string } | null;
  version: string;
  drawAll: () => void;
  /** The lines as drawn, in all digits. */
  exactLines: () => Promise<Line[]>;
}

const mostLines = 200; // more only when asked for
const mostAttempts = 4; // earlier attempts drawn behind a curve
const attemptLines = 4; // cards with more lines than these leave earlier attempts out
const closer = 128; // buckets of one drawn bucket, to find a single point in it
const deepest = 8; // 128^8 is more than an int64 counts
const settleMs = 50; // a card that only flies by while scrolling asks for nothing
const lineBudget = 8; // buckets a pixel column that all lines of a card share
// Digits asked for, the next when these are too coarse for the range; 0 is all of them.
const fewLines = [7, 0];
const manyLines = [3, 7, 0];

/** Buckets for one of `lines` lines on `width` pixels: a pixel each, fewer when many lines share the card. */
export function resolution(width: number, lines: number): number {
  return Math.max(32, Math.min(width, Math.ceil((width * lineBudget) / Math.max(1, lines))));
}

/** What a card draws: it asks for its buckets while it is mounted, and again when the view or the data changes. */
export function useChart(session: Session, card: Card, width: number, runs: Map<string, number>): Chart {
  const all = useSignal(false);
  const curves = useSignal<ReadonlyMap<string, Curve>>(new Map());
  const pending = useSignal(0);
  const error = useSignal("");
  const exact = useSignal<Exact>(new Map());
  const level = useSignal(0);
  const shown = useRef(-1); // digits of the curves that are drawn

  const axis = axisFor(card.members[0]!.series.axes, view.axisChoice.value);
  const zoom = view.zoom.value?.key === axis.key ? view.zoom.value : null;
  const members = all.value ? card.members : card.members.slice(0, mostLines);
  const wanted = wantedLines(session, members, axis, zoom, width, runs);
  for (const run of new Set(members.map((m) => m.run))) session.tick(run);
  const ask = JSON.stringify(wanted.map((w) => [w.query, w.member.series.count]));
  const crowd = Math.max(members.length, runs.size) > slots;
  const levels = crowd ? manyLines : fewLines;
  const digits = levels[Math.min(level.value, levels.length - 1)]!;
  const latest = useRef(wanted);
  latest.current = wanted;

  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => load(latest.current, abort.signal), curves.peek().size ? 0 : settleMs);
    const load = async (lines: Wanted[], signal: AbortSignal) => {
      pending.value = 1;
      try {
        const results = await Promise.all(
          lines.map((w) => batch.fetch(w.query, w.member.series.count, signal, digits)),
        );
        await turn();
        if (signal.aborted) return;
        shown.current = digits;
        curves.value = read(lines, results);
        const bad = results.find((r) => "error" in r);
        error.value = bad && "error" in bad ? bad.error.message : "";
      } catch (cause) {
        if (!signal.aborted) error.value = (cause as Error).message;
      }
      if (!signal.aborted) pending.value = 0;
    };
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [ask, digits]);

  const previews = useMemo(() => previewsOf(wanted, axis), [ask]);
  const kept = curves.value.size ? curves.value : previews;
  const hovered = view.hoveredRun.value;
  const smoothing = view.smoothing.value;
  const dark = isDark.value;
  const lines = useMemo(
    () => wanted.flatMap((w) => lineOf(w, kept.get(w.id), smoothing, hovered, wanted.length)),
    [ask, kept, smoothing, hovered, dark, runs],
  );
  const log = view.isLog(card.metric);
  const full = view.isFull(card.metric);
  const main = lines.filter((l) => !l.faded).map((l) => l.curve);
  const x: [number, number] = zoom
    ? [zoom.from, zoom.to]
    : widen(extent(main) ?? extent(lines.map((l) => l.curve)));
  const y = useMemo(
    () =>
      rangeOf(
        lines.map((l) => l.curve),
        x[0],
        x[1],
        full,
        log,
      ),
    [lines, x[0], x[1], full, log],
  );

  useEffect(() => {
    if (shown.current === digits && coarse(y, digits)) level.value++;
  }, [y, digits]);
  const finished = curves.value.size > 0 && pending.value === 0;
  useExactNeedle(finished ? lines : none, y, x, latest, exact);
  const marks = useMemo(() => firstMarks(lines), [lines]);
  useExactMark(finished ? marks.get("nan") : undefined, latest, exact);
  const only = main.length === 1 ? main[0] : undefined;
  return {
    ...{ lines, axis, x, y, log, error: error.value },
    names: new Map(wanted.map((w) => [w.id, w.member])),
    total: card.members.length,
    drawn: members.length,
    loading: pending.value > 0,
    last:
      card.members.length === 1
        ? (card.members[0]!.series.last?.value ?? (only && lastPoint(only)))
        : undefined,
    bucketed: ratio(main),
    needleLabel: (n) => {
      const known = exact.value.get(needleKey(n));
      const at = n.lo === n.hi ? n.lo : known?.at;
      return needleText(known?.value ?? n.value, at === undefined ? "" : placeText(axis, at, at));
    },
    firstMark: (kind) => {
      const first = marks.get(kind);
      if (!first) return null;
      const { lo, hi } = first.mark;
      const at = lo === hi ? lo : exact.value.get(markKey(first))?.at;
      return { lo: at ?? lo, hi: at ?? hi, text: at === undefined ? "" : placeText(axis, at, at) };
    },
    version: String(exact.value.size),
    drawAll: () => {
      all.value = true;
    },
    exactLines: async () => {
      const shown = latest.current.filter((w) => lines.some((l) => l.id === w.id));
      const results = await Promise.all(shown.map((w) => batch.fetch(w.query, w.member.series.count)));
      const exactly = read(shown, results);
      return lines.map((l) => ({ ...l, curve: exactly.get(l.id) ?? l.curve }));
    },
  };
}

const none: Line[] = [];

function wantedLines(
  session: Session,
  members: Member[],
  axis: XAxis,
  zoom: view.Zoom | null,
  width: number,
  runs: Map<string, number>,
): Wanted[] {
  const sets = [...new Set(members.map((m) => labelText(m.series.labels)))];
  const crowd = members.length > slots;
  // Of all runs that will come, so that those that came first are not asked again in another resolution.
  const n = resolution(width, Math.max(members.length, runs.size));
  return members.flatMap((member) => {
    const set = sets.indexOf(labelText(member.series.labels));
    const slot = runs.get(member.run) ?? 0;
    const detail = session.detail(member.run);
    const unit = unitOf(axis, detail?.created_ns ?? 0);
    const style = crowd
      ? { color: palette.value.crowd, dash: [], alpha: crowdAlpha(members.length) }
      : runs.size > 1
        ? {
            color: hue(slot, isDark.value),
            dash: sets.length > 1 && sets.length <= 3 ? dash(set * 8) : dash(slot),
            alpha: 1,
          }
        : { color: hue(set, isDark.value), dash: dash(set), alpha: 1 };
    const { run, series } = member;
    const query: BucketQuery = {
      ...{ run, metric: series.metric, scale: series.scale, labels: series.labels, x: axis.name, n },
      ...(zoom && storedRange([zoom.from, zoom.to], unit)),
      ...(series.inherited && view.showInherited.value && { include_inherited: true as const }),
    };
    const id = `${run} ${series.scale} ${labelText(series.labels)}`;
    const forkStep = forkStepOn(axis, series.axes, detail);
    const line: Wanted = { id, member, query, unit, faded: false, forkStep, ...style };
    return [line, ...earlier(line, detail?.attempts ?? [], members.length)];
  });
}

/** A fork step is one of training: of updates where a series has them. */
function forkStepOn(axis: XAxis, axes: string[], detail: RunDetail | null): number | undefined {
  const upTo = detail?.lineage.ancestors[0]?.up_to;
  const counted = axes.includes("rl_step") ? "rl_step" : "step";
  return axis.name === counted && upTo !== undefined && upTo !== null ? Number(upTo) : undefined;
}

/** The same series in the attempts before the one that counts, faint. */
function earlier(line: Wanted, attempts: { number: number; precedence: number }[], lines: number): Wanted[] {
  if (attempts.length < 2 || lines > attemptLines || !view.showAttempts.value) return [];
  const before = [...attempts].sort((a, b) => b.precedence - a.precedence).slice(1, 1 + mostAttempts);
  const { include_inherited: _, ...query } = line.query; // an attempt inherits nothing
  return before.map((a) => ({
    ...line,
    id: `${line.id} #${a.number}`,
    query: { ...query, attempt: a.number },
    faded: true,
    alpha: 0.35,
  }));
}

function read(lines: Wanted[], results: BucketResult[]): Map<string, Curve> {
  const out = new Map<string, Curve>();
  lines.forEach((w, i) => {
    const result = results[i]!;
    if (!("error" in result)) out.set(w.id, curveOf(result.columns, w.unit));
  });
  return out;
}

/** The coarse lines that came with the list of series, drawn until the real ones are there. */
function previewsOf(lines: Wanted[], axis: XAxis): Map<string, Curve> {
  const out = new Map<string, Curve>();
  for (const w of lines) {
    const { preview } = w.member.series;
    const own = w.query.include_inherited || !w.member.series.inherited;
    if (preview && own && !w.faded && axis.name === preview.x)
      out.set(w.id, curveOf(preview.columns, w.unit));
  }
  return out;
}

function lineOf(
  w: Wanted,
  curve: Curve | undefined,
  smoothing: Parameters<typeof smooth>[2],
  hovered: string | null,
  lines: number,
): Line[] {
  if (!curve || curve.lo.length === 0) return [];
  const behind = hovered !== null && w.member.run !== hovered;
  return [
    {
      ...{ id: w.id, curve, dash: w.dash, faded: w.faded, color: w.color },
      alpha: behind ? Math.min(w.alpha, 0.15) : w.alpha,
      band: !w.faded && lines <= slots,
      fork: w.faded || lines > slots ? undefined : forkPlace(curve, w.forkStep),
      smooth: smoothing.kind === "none" || w.faded ? undefined : smooth(curve.x, curve.mean, smoothing),
    },
  ];
}

function widen(range: [number, number] | null): [number, number] {
  if (!range) return [0, 1];
  return range[0] === range[1] ? [range[0] - 0.5, range[1] + 0.5] : range;
}

/** What a bucket was too wide for: where its needle or mark is, and its value in all digits. */
type Exact = ReadonlyMap<string, { at: number; value: number }>;

const needleKey = (n: { value: number; lo: number; hi: number }) => `${n.value} ${n.lo} ${n.hi}`;

/** The furthest bucket of a curve that a test takes, by where it lies: what one more question looks into. */
type Pick = (curve: Curve) => number;

/** Looks into a bucket, and into what is found there, until a single x is left; null when it is not found. */
async function findExact(
  source: Wanted,
  wide: { lo: number; hi: number },
  pick: Pick,
  abort: AbortSignal,
): Promise<{ curve: Curve; i: number } | null> {
  let { lo, hi } = wide;
  for (let deep = 0; deep < deepest && !abort.aborted; deep++) {
    const query = { ...source.query, n: closer, ...storedRange([lo, hi], source.unit) };
    const result = await batch.fetch(query, source.member.series.count, abort);
    if ("error" in result) return null;
    const curve = curveOf(result.columns, source.unit);
    const i = pick(curve);
    if (i < 0) return null;
    if (curve.lo[i] === curve.hi[i]) return { curve, i };
    [lo, hi] = [curve.lo[i]!, curve.hi[i]!];
  }
  return null;
}

/** Asks for the exact x of the furthest needle: a bucket of 868 steps does not tell which one broke. */
function useExactNeedle(
  lines: Line[],
  y: Range,
  x: [number, number],
  wanted: { current: Wanted[] },
  exact: { value: Exact; peek(): Exact },
): void {
  const far = y.clipped ? furthest(lines, y, x) : null;
  const key = far ? needleKey(far) : "";
  useEffect(() => {
    const source = far && wanted.current.find((w) => w.id === far.line.id);
    if (!far || !source || far.lo === far.hi || exact.peek().has(key)) return;
    const abort = new AbortController();
    const up = far.value > y.max;
    const pick = (c: Curve) => furthestFrom(up ? c.max : c.min, (y.min + y.max) / 2);
    findExact(source, far, pick, abort.signal).then(
      (found) => {
        if (abort.signal.aborted || !found) return;
        const { curve, i } = found;
        const value = (up ? curve.max : curve.min)[i]!;
        exact.value = new Map([...exact.peek(), [key, { at: curve.lo[i]!, value }]]);
      },
      () => {}, // without the exact place the arrow still stands where the bucket is
    );
    return () => abort.abort();
  }, [key]);
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

const markKey = (m: FirstMark) => `${m.mark.kind} ${m.line.id} ${m.mark.lo} ${m.mark.hi}`;

function firstMarks(lines: Line[]): Map<MarkKind, FirstMark> {
  const first = new Map<MarkKind, FirstMark>();
  for (const line of lines)
    for (const mark of line.faded ? [] : line.curve.marks) {
      const known = first.get(mark.kind);
      if (!known || mark.lo < known.mark.lo) first.set(mark.kind, { line, mark });
    }
  return first;
}

/** Asks for the exact x of the first NaN: that is the step where a training broke. */
function useExactMark(
  first: FirstMark | undefined,
  wanted: { current: Wanted[] },
  exact: { value: Exact; peek(): Exact },
): void {
  const key = first ? markKey(first) : "";
  useEffect(() => {
    const source = first && wanted.current.find((w) => w.id === first.line.id);
    if (!first || !source || first.mark.lo === first.mark.hi || exact.peek().has(key)) return;
    const abort = new AbortController();
    const { kind } = first.mark;
    const pick = (c: Curve) => c.lo.indexOf(c.marks.find((m) => m.kind === kind)?.lo ?? Number.NaN);
    findExact(source, first.mark, pick, abort.signal).then(
      (found) => {
        if (abort.signal.aborted || !found) return;
        exact.value = new Map([...exact.peek(), [key, { at: found.curve.lo[found.i]!, value: Number.NaN }]]);
      },
      () => {}, // without the exact place the mark still stands where the bucket is
    );
    return () => abort.abort();
  }, [key]);
}

function furthest(
  lines: Line[],
  y: Range,
  x: [number, number],
): { line: Line; lo: number; hi: number; value: number } | null {
  let best: { line: Line; lo: number; hi: number; value: number } | null = null;
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
