import { computed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { BucketColumns } from "../api/types.ts";
import { axisFor, placeText, unitOf, type XAxis } from "../chart/axis.ts";
import { slots } from "../chart/color.ts";
import { curveOf, extent, lastPoint, type MarkKind, ratio } from "../chart/curve.ts";
import type { Layer } from "../chart/layer.ts";
import { type Line, type Needle, needleText } from "../chart/paint.ts";
import { coarse, type Range, rangeOf } from "../chart/range.ts";
import { coarser } from "../chart/smooth.ts";
import { lineOf, styleOf } from "../chart/style.ts";
import * as groups from "../state/groups.ts";
import type { Card, Member, Session } from "../state/session.ts";
import { isDark, palette } from "../state/theme.ts";
import { turn } from "../state/turn.ts";
import * as view from "../state/view.ts";
import { useExact } from "./exact.ts";
import { useLeads } from "./lead.ts";
import { useSharedRange } from "./split.ts";
import { crowdOf, poolable, poolOf, starOf, useLayers } from "./uselayers.ts";
import {
  type Answers,
  columnsOf,
  pooledLine,
  previewsOf,
  ask as questionOf,
  type Wanted,
  wantedLines,
} from "./wanted.ts";

export interface Chart {
  lines: Line[];
  layers: readonly Layer[];
  density: boolean;
  /** The best run's line. */
  star: string | undefined;
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
  /** The series whose mean and band are drawn in place of lines; 0 where lines are. */
  pooled: number;
  /** There is a choice between lines and their mean. */
  poolable: boolean;
  /** Lines without bands: more than there are hues, or members of groups. */
  crowd: boolean;
  grouped: boolean;
  /** A smoothed line may differ from one over the points. */
  coarser: boolean;
  needleLabel: (n: Needle) => string;
  /** Where the first value of a kind that no line can show is. */
  firstMark: (kind: MarkKind) => { lo: number; hi: number; text: string } | null;
  version: string;
  drawAll: () => void;
  /** The lines as drawn, in all digits. */
  exactLines: () => Promise<Line[]>;
}

const poolPause = 4; // a mean of many series that go on is asked for again after so many times as long as it took
const settleMs = 50; // a card that only flies by while scrolling asks for nothing
// Digits asked for, the next when these are too coarse for the range; 0 is all of them.
const fewLines = [7, 0];
const manyLines = [3, 7, 0];
const unknownLines = [4, 7, 0]; // half of many lines would be asked for twice

/** What a card draws: it asks for its buckets while it is mounted, and again when the view or the data changes. */
export function useChart(session: Session, card: Card, width: number, runs: Map<string, number>): Chart {
  const all = useSignal(false);
  const answers = useSignal<Answers | null>(null);
  const pending = useSignal(1);
  const error = useSignal("");
  const level = useSignal(0);
  const shown = useRef({ of: "", digits: -1 }); // the question whose answers are drawn

  const { members } = card;
  const plan = useMemo(
    () => computed(() => planOf(session, members, width, runs, all.value)),
    [session, members, width, runs],
  ).value;
  const { axis, zoom, pool, dense, density } = plan;
  const grouping = groups.grouping.value;
  const steady = useRef<Wanted | null>(null);
  const pooledLine = pool
    ? pooledNow(session, pool, axis, zoom, width, pending.value > 0 ? steady.current : null)
    : null;
  steady.current = pooledLine;
  const { wanted, ask, units } = pooledLine ? asked(axis, [pooledLine]) : plan;
  const crowd = !pool && Math.max(plan.members.length, runs.size) > slots;
  const previews = useMemo(() => previewsOf(wanted, axis), [ask, axis.name]);
  const levels = useMemo(() => (crowd ? crowdLevels(previews) : fewLines), [crowd, previews]);
  const digits = levels[Math.min(level.value, levels.length - 1)]!;
  const latest = useRef(wanted);
  latest.current = wanted;
  const pace = useRef({ at: 0, tookMs: 0 });

  useEffect(() => {
    const abort = new AbortController();
    const { at, tookMs } = pace.current;
    const rest = pool ? Math.max(0, at + poolPause * tookMs - Date.now()) : 0;
    const timer = setTimeout(() => load(latest.current, abort.signal), answers.peek() ? rest : settleMs);
    const load = async (lines: Wanted[], signal: AbortSignal) => {
      pending.value = 1;
      const start = Date.now();
      try {
        const results = await Promise.all(lines.map((w) => questionOf(w, w.query, signal, digits)));
        pace.current = { at: Date.now(), tookMs: Date.now() - start };
        await turn();
        if (signal.aborted) return;
        shown.current = { of: ask, digits };
        answers.value = { x: axis.name, columns: columnsOf(lines, results) };
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

  // Answers stay as they came, and become curves in the unit of what is drawn: a switch from relative to wall time asks
  // nothing, and what was asked on another axis is not drawn on this one.
  const answered = answers.value?.x === axis.name && answers.value.columns.size > 0;
  const kept = answered ? answers.value!.columns : previews;
  const smoothing = view.smoothing.value;
  const leads = useLeads(wanted, smoothing);
  const dark = isDark.value;
  const log = view.isLog(card.metric);
  const drawn = (columns: ReadonlyMap<string, BucketColumns>): Line[] =>
    wanted.flatMap((w) => {
      const found = columns.get(w.id);
      if (!found || found.lo.length === 0) return [];
      const { id, faded, forkStep } = w;
      const group = w.place.group?.key;
      const how = {
        ...{ id, faded, forkStep, lines: wanted.length, smoothing, lead: leads.get(id), log, dense },
        ...(group !== undefined && { group }),
      };
      return [lineOf(curveOf(found, w.unit), styleOf(w.place, palette.value, dark), how)];
    });
  const lines = useMemo(
    () => drawn(kept),
    [ask, units, kept, smoothing, leads, log, dark, runs, dense, grouping],
  );
  const full = view.isFull(card.metric);
  const curves = lines.map((l) => l.curve);
  const main = lines.filter((l) => !l.faded).map((l) => l.curve);
  const x: [number, number] = zoom ? [zoom.from, zoom.to] : widen(extent(main) ?? extent(curves));
  const zoomKey = `${axis.key} ${zoom ? x.join() : ""}`;
  const layers = useLayers(lines, x, dense);
  const own = useMemo(() => rangeOf(curves, x[0], x[1], full, log), [lines, x[0], x[1], full, log]);
  const y = useSharedRange(card, own, lines.length > 0, `${groups.split.value} ${zoomKey} ${full} ${log}`);

  // The first of fifty runs spans less than all of them will: its digits say nothing of theirs.
  const settled = session.settled.value;
  useEffect(() => {
    const { of, digits: drawn } = shown.current;
    if (settled && answered && of === ask && drawn === digits && coarse(y, digits)) level.value++;
  }, [y, digits, settled]);
  const exact = useExact(lines, answered && pending.value === 0, y, x, axis, latest);
  const only = main.length === 1 ? main[0] : undefined;
  return {
    ...{ lines, layers, density, axis, x, y, log, error: error.value },
    star: useMemo(() => computed(() => (card.part ? undefined : starOf(card.metric, wanted))), [card, wanted])
      .value,
    names: useMemo(() => new Map(wanted.map((w) => [w.id, w.member])), [ask, units]),
    total: plan.shown,
    drawn: plan.members.length,
    loading: pending.value > 0,
    last:
      card.members.length === 1
        ? (card.members[0]!.series.last?.value ?? (only && lastPoint(only)))
        : undefined,
    bucketed: Math.round(ratio(main) / (pool?.length ?? 1)),
    pooled: pool?.length ?? 0,
    poolable: poolable(card.members),
    crowd: (!pool && plan.members.length > slots) || grouping !== null,
    grouped: grouping !== null,
    coarser: coarser(lines, y, log),
    needleLabel: (n) => {
      const known = exact.needle(n);
      const at = n.lo === n.hi ? n.lo : known?.at;
      return needleText(known?.value ?? n.value, at === undefined ? "" : placeText(axis, at, at));
    },
    firstMark: (kind) => {
      const first = exact.mark(kind);
      if (!first) return null;
      const { mark, at } = first;
      return { lo: at ?? mark.lo, hi: at ?? mark.hi, text: at === undefined ? "" : placeText(axis, at, at) };
    },
    version: exact.version,
    drawAll: () => {
      all.value = true;
    },
    exactLines: async () => {
      const asked = latest.current.filter((w) => lines.some((l) => l.id === w.id));
      const results = await Promise.all(asked.map((w) => questionOf(w, w.query)));
      return drawn(new Map([...kept, ...columnsOf(asked, results)]));
    },
  };
}

/** Many lines span at least as much as those do whose previews are there. */
function crowdLevels(previews: ReadonlyMap<string, BucketColumns>): number[] {
  const curves = [...previews.values()].map((columns) => curveOf(columns));
  if (curves.length === 0) return unknownLines;
  const known = rangeOf(curves, -Infinity, Infinity, false, false);
  return coarse(known, manyLines[0]!) ? unknownLines : manyLines;
}

/** Plan is which lines a card draws and asks for. It is made anew when something does that it is made of, not when a card is rendered. */
interface Plan extends Asked {
  axis: XAxis;
  zoom: view.Zoom | null;
  pool: Member[] | null;
  members: Member[];
  /** Lines of the card, drawn or not. */
  shown: number;
  dense: boolean;
  density: boolean;
}

function planOf(
  session: Session,
  all: Member[],
  width: number,
  runs: Map<string, number>,
  everything: boolean,
): Plan {
  const axis = axisFor(all[0]!.series.axes, view.axisChoice.value);
  const zoom = view.zoom.value?.key === axis.key ? view.zoom.value : null;
  const pool = poolOf(all);
  const crowd = crowdOf(all, everything);
  const members = pool ?? crowd.members;
  for (const run of new Set(members.map((m) => m.run))) session.tick(run); // counts, axes and last values move in place
  const how = { axis, zoom, pool, members, shown: crowd.shown };
  if (pool) return { ...how, dense: false, density: false, ...asked(axis, []) };
  const wanted = wantedLines(session, members, axis, zoom, width, runs, groups.grouping.value);
  return { ...how, dense: crowd.dense, density: crowd.density, ...asked(axis, wanted) };
}

/** Asked is what is wanted, and what tells it from what was wanted before. */
interface Asked {
  wanted: Wanted[];
  ask: string;
  units: string;
}

const asked = (axis: XAxis, wanted: Wanted[]): Asked => ({
  wanted,
  ask: JSON.stringify(wanted.map((w) => [w.query, w.member.series.count])),
  units: `${axis.key} ${wanted.map((w) => w.unit.origin).join()}`,
});

/** The line of many series. While an answer is on its way no newer one is asked for: thousands of series take longer than a tick. */
function pooledNow(
  session: Session,
  pool: Member[],
  axis: XAxis,
  zoom: view.Zoom | null,
  width: number,
  before: Wanted | null,
): Wanted {
  const unit = unitOf(axis, session.detail(pool[0]!.run)?.created_ns ?? 0);
  const next = pooledLine(pool, axis, zoom, width, unit);
  return before && JSON.stringify(before.query) === JSON.stringify(next.query) ? before : next;
}

function widen(range: [number, number] | null): [number, number] {
  if (!range) return [0, 1];
  return range[0] === range[1] ? [range[0] - 0.5, range[1] + 0.5] : range;
}
