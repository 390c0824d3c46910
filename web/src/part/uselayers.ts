import { useMemo } from "preact/hooks";
import { mostRows } from "../api/kymograph.ts";
import { dash, hue, slots } from "../chart/color.ts";
import { bestOf } from "../chart/direction.ts";
import { type Layer, layersOf, type Part } from "../chart/layer.ts";
import type { Line } from "../chart/paint.ts";
import { directionOf } from "../state/direction.ts";
import * as groups from "../state/groups.ts";
import type { Member } from "../state/session.ts";
import { isDark } from "../state/theme.ts";
import type { Wanted } from "./wanted.ts";

const mostLines = 200; // more only when asked for
const mostDense = 2000; // a density and a median of a part would be those of another crowd

const mostHues = 8; // labelled series of a run that are told apart as lines

/** Whether a card has more labelled series of one run than can be told apart. */
export const poolable = (all: Member[]): boolean =>
  all.length > mostHues && groups.grouping.value === null && all.every((m) => m.run === all[0]!.run);

/** The series that one mean and band stand for, unless the reader wants lines or a density; null for none. */
export function poolOf(all: Member[]): Member[] | null {
  return poolable(all) && groups.members.value === "" ? all.slice(0, mostRows) : null;
}

/** Crowd is which members a card draws, and how. */
export interface Crowd {
  members: Member[];
  /** Those that no legend entry hides. */
  shown: number;
  /** Members are not drawn as lines: what stands for them is their density, or their group alone. */
  dense: boolean;
  density: boolean;
}

/** The members of shown groups; above 24 lines they are a density unless the reader wants lines. */
export function crowdOf(all: Member[], everything: boolean): Crowd {
  const grouping = groups.grouping.value;
  const visible = grouping ? all.filter((m) => !groups.isOff(grouping.of.get(m.run)?.key ?? "")) : all;
  const how = groups.members.value;
  const density = how === "density" || (how === "" && visible.length > slots);
  const dense = density || (how === "none" && grouping !== null);
  const most = everything ? visible.length : dense ? mostDense : mostLines;
  return { members: visible.slice(0, most), shown: visible.length, dense, density };
}

/** The layers of a card's lines: one a group, or one for a crowd without groups. */
export function useLayers(lines: Line[], x: [number, number], dense: boolean): readonly Layer[] {
  const grouping = groups.grouping.value;
  const statistic = groups.statistic.value;
  const dark = isDark.value;
  return useMemo(() => {
    const drawn = lines.filter((l) => !l.faded);
    if (!grouping && !dense) return [];
    const parts: Part[] = grouping
      ? grouping.groups.map(({ key, label, color, slot }) => ({
          ...{ key, label, color, dash: dash(slot) },
          lines: drawn.filter((l) => l.group === key),
        }))
      : [{ key: "all", label: "all", color: hue(0, dark), dash: [], lines: drawn }];
    return layersOf(parts, x, statistic);
  }, [lines, x[0], x[1], grouping, statistic, dense, dark]);
}

/** The line of the best run by the last values of a metric; undefined where no direction is known or there is one run. */
export function starOf(metric: string, wanted: Wanted[]): string | undefined {
  const direction = directionOf(metric);
  const lines = wanted.filter((w) => !w.faded);
  if (!direction || new Set(lines.map((w) => w.member.run)).size < 2) return undefined;
  const summaries = groups.subjects.value;
  const last = lines.map(({ member: { run, series } }) =>
    Number(series.last?.value ?? summaries.get(run)?.summary[metric]?.value ?? Number.NaN),
  );
  return lines[bestOf(last, direction)]?.id;
}
