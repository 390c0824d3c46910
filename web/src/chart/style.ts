import { crowdAlpha, dash, hue, type Palette, slots } from "./color.ts";
import { type Curve, forkPlace, lowOf } from "./curve.ts";
import { excursionsOf } from "./excursion.ts";
import type { Line } from "./paint.ts";
import { type Buckets, type Smoothing, smooth } from "./smooth.ts";

/** Style is how one line of a card is drawn. */
export interface Style {
  color: string;
  /** Its hue, also in a crowd: of what stands out, and of a line that is brought forward. */
  own: string;
  dash: number[];
  alpha: number;
}

/** Place is where a line stands among the others of its card. */
export interface Place {
  lines: number;
  /** Runs that are drawn: colour tells them apart, or else sets of labels where there is one. */
  runs: number;
  slot: number;
  set: number;
  sets: number;
  /** What a group gives its lines. */
  group?: { key: string; color: string; slot: number };
}

/** The style of a line: a hue, a dash where several sets of labels share a run's hue, grey in a crowd. */
export function styleOf(at: Place, palette: Palette, dark: boolean): Style {
  if (at.group) {
    const { color } = at.group;
    return { color, own: color, dash: dash(at.group.slot), alpha: Math.max(0.06, 3 / at.lines) };
  }
  const slot = at.runs > 1 ? at.slot : at.set;
  const own = hue(slot, dark);
  if (at.lines > slots) return { color: palette.crowd, own, dash: [], alpha: crowdAlpha(at.lines) };
  const bySet = at.runs > 1 && at.sets > 1 && at.sets <= 3;
  return { color: own, own, dash: dash(bySet ? at.set * 8 : slot), alpha: 1 };
}

/** Drawing is what a line has beside its curve and its style. */
export interface Drawing {
  id: string;
  /** An earlier attempt: drawn faint, and not smoothed. */
  faded: boolean;
  /** Lines of the card: in a crowd there are no bands and no forks. */
  lines: number;
  smoothing: Smoothing;
  /** What lies before the curve and is smoothed with it. */
  lead?: Buckets;
  log: boolean;
  /** The key of its group: the group has a band then, and the line none. */
  group?: string;
  /** A density stands for the lines. */
  dense?: boolean;
  /** The last step that a fork inherits, where the axis counts these. */
  forkStep?: number;
}

const fadedAlpha = 0.35;

/** A curve as a line of a card. */
export function lineOf(curve: Curve, style: Style, how: Drawing): Line {
  const { id, faded, group } = how;
  const crowd = how.lines > slots || group !== undefined;
  return {
    ...{ id, curve, faded, color: style.color, own: style.own, dash: style.dash },
    ...(group !== undefined && { group }),
    ...(how.dense && !faded && { hidden: true }),
    alpha: faded ? fadedAlpha : Math.min(1, style.alpha),
    band: !faded && !crowd,
    fork: faded || crowd ? undefined : forkPlace(curve, how.forkStep),
    smooth: faded ? undefined : smooth(curve, how.smoothing, how.lead),
    stems: faded ? [] : excursionsOf(curve),
    low: how.log && !faded ? lowOf(curve) : undefined,
  };
}
