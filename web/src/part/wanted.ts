import type { BucketColumns, BucketQuery, BucketResult, RunDetail } from "../api/types.ts";
import { storedRange, unitOf, type XAxis } from "../chart/axis.ts";
import type { Unit } from "../chart/curve.ts";
import type { Grouping } from "../chart/grouping.ts";
import { resolution } from "../chart/range.ts";
import { smoothed } from "../chart/smooth.ts";
import type { Place } from "../chart/style.ts";
import { labelText } from "../chart/title.ts";
import { batch } from "../state/app.ts";
import { pooled } from "../state/pooled.ts";
import type { Member, Session } from "../state/session.ts";
import * as view from "../state/view.ts";

/** Wanted is one line to draw and the question that brings its buckets. */
export interface Wanted {
  id: string;
  member: Member;
  query: BucketQuery;
  unit: Unit;
  place: Place;
  faded: boolean;
  /** The series that one line stands for: it is their mean, its band goes from the smallest to the largest. */
  rows?: Member[];
  /** The last step of its ancestors that a fork inherits, where the axis counts these. */
  forkStep: number | undefined;
}

/** Answers are buckets as they came: the x that they were asked on, and the columns of each line. */
export interface Answers {
  /** The stored axis: wall and relative time are two units of one answer. */
  x: string;
  columns: ReadonlyMap<string, BucketColumns>;
}

/** The one line that stands for many series of a run, and the question that brings it. */
export function pooledLine(
  members: Member[],
  axis: XAxis,
  zoom: view.Zoom | null,
  width: number,
  unit: Unit,
): Wanted {
  const { run, series } = members[0]!;
  const all = members.reduce((n, m) => n + m.series.count, 0);
  const member = { run, series: { ...series, labels: {}, count: all, last: null } };
  const { metric, scale } = series;
  return {
    ...{ id: `${run} ${scale} all`, member, rows: members, unit, faded: false, forkStep: undefined },
    place: { lines: 1, runs: 1, slot: 0, set: 0, sets: 1 },
    query: {
      ...{ run, metric, scale, labels: {}, x: axis.name, n: width },
      ...(zoom && storedRange([zoom.from, zoom.to], unit)),
      ...(view.showInherited.value &&
        members.some((m) => m.series.inherited) && { include_inherited: true as const }),
    },
  };
}

/** Asks for the buckets of a line, or of a part of it. */
export function ask(w: Wanted, query: BucketQuery, abort?: AbortSignal, digits = 0): Promise<BucketResult> {
  const { count } = w.member.series;
  return w.rows ? pooled(w.rows, query, count) : batch.fetch(query, count, abort, digits);
}

const mostAttempts = 4; // earlier attempts drawn behind a curve
const attemptLines = 4; // cards with more lines than these leave earlier attempts out

/** The lines of a card; a run whose start is not known yet has no place on an axis that begins there. */
export function wantedLines(
  session: Session,
  members: Member[],
  axis: XAxis,
  zoom: view.Zoom | null,
  width: number,
  runs: Map<string, number>,
  grouping: Grouping | null,
): Wanted[] {
  const sets = [...new Set(members.map((m) => labelText(m.series.labels)))];
  // Of all runs that will come, so that those that came first are not asked again in another resolution.
  const n = smoothed(resolution(width, Math.max(members.length, runs.size)), view.smoothing.value);
  return members.flatMap((member) => {
    const { run, series } = member;
    const detail = session.detail(run);
    if (axis.kind === "relative" && !detail) return [];
    const unit = unitOf(axis, detail?.created_ns ?? 0);
    const labels = labelText(series.labels);
    const query: BucketQuery = {
      ...{ run, metric: series.metric, scale: series.scale, labels: series.labels, x: axis.name, n },
      ...(zoom && storedRange([zoom.from, zoom.to], unit)),
      ...(series.inherited && view.showInherited.value && { include_inherited: true as const }),
    };
    const slot = runs.get(run) ?? 0;
    const place = {
      lines: members.length,
      runs: runs.size,
      slot,
      set: sets.indexOf(labels),
      sets: sets.length,
    };
    const group = grouping?.of.get(run);
    const line: Wanted = {
      ...{ id: `${run} ${series.scale} ${labels}`, member, query, unit, faded: false },
      place: group ? { ...place, group } : place,
      forkStep: forkStepOn(axis, series.axes, detail),
    };
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
  }));
}

/** The columns of the lines that were answered, by their ids. */
export function columnsOf(lines: Wanted[], results: BucketResult[]): Map<string, BucketColumns> {
  const out = new Map<string, BucketColumns>();
  lines.forEach((w, i) => {
    const result = results[i]!;
    if (!("error" in result)) out.set(w.id, result.columns);
  });
  return out;
}

/** The coarse lines that came with the list of series, drawn until the real ones are there. */
export function previewsOf(lines: Wanted[], axis: XAxis): Map<string, BucketColumns> {
  const out = new Map<string, BucketColumns>();
  for (const w of lines) {
    const { preview } = w.member.series;
    const own = w.query.include_inherited || !w.member.series.inherited;
    if (preview && own && !w.faded && !w.rows && axis.name === preview.x) out.set(w.id, preview.columns);
  }
  return out;
}
