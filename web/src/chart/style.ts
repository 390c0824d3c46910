import { crowdAlpha, dash, hue, type Palette, slots } from "./color.ts";
import { type Curve, forkPlace } from "./curve.ts";
import type { Line } from "./paint.ts";
import { type Smoothing, smooth } from "./smooth.ts";

/** Style is how one line of a card is drawn. */
export interface Style {
  color: string;
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
}

/** The style of a line: a hue, a dash where several sets of labels share a run's hue, grey in a crowd. */
export function styleOf(at: Place, palette: Palette, dark: boolean): Style {
  if (at.lines > slots) return { color: palette.crowd, dash: [], alpha: crowdAlpha(at.lines) };
  if (at.runs <= 1) return { color: hue(at.set, dark), dash: dash(at.set), alpha: 1 };
  const bySet = at.sets > 1 && at.sets <= 3;
  return { color: hue(at.slot, dark), dash: bySet ? dash(at.set * 8) : dash(at.slot), alpha: 1 };
}

/** Drawing is what a line has beside its curve and its style. */
export interface Drawing {
  id: string;
  /** An earlier attempt: drawn faint, and not smoothed. */
  faded: boolean;
  /** Lines of the card: in a crowd there are no bands and no forks. */
  lines: number;
  smoothing: Smoothing;
  /** The last step that a fork inherits, where the axis counts these. */
  forkStep?: number;
}

export const fadedAlpha = 0.35;

/** A curve as a line of a card. */
export function lineOf(curve: Curve, style: Style, how: Drawing): Line {
  const { id, faded } = how;
  const crowd = how.lines > slots;
  return {
    ...{ id, curve, faded, color: style.color, dash: style.dash },
    alpha: faded ? fadedAlpha : style.alpha,
    band: !faded && !crowd,
    fork: faded || crowd ? undefined : forkPlace(curve, how.forkStep),
    smooth: how.smoothing.kind === "none" || faded ? undefined : smooth(curve.x, curve.mean, how.smoothing),
  };
}
