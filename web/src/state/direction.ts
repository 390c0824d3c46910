import { signal } from "@preact/signals";
import { type Direction, guess } from "../chart/direction.ts";
import { escapeName, unescapeName } from "./escape.ts";

export type Ways = ReadonlyMap<string, Direction>;

/** Directions that a reader chose, by metric; state/directionchoice.ts sets them. */
export const chosen = signal<Ways>(new Map());

/** Which way a metric is better: chosen by the reader, else by its name. */
export const directionOf = (metric: string): Direction | undefined =>
  chosen.value.get(metric) ?? guess(metric);

export const isWay = (pair: [string, unknown]): pair is [string, Direction] =>
  pair[1] === "up" || pair[1] === "down";

/** Directions as one text, as in the address and in saved views: eval/loss~up,odd~down. */
export function waysText(ways: Ways): string {
  const pairs = [...ways].sort(([a], [b]) => (a < b ? -1 : 1));
  return pairs.map(([metric, way]) => `${escapeName(metric)}~${way}`).join(",");
}

export function parseWays(text: string): Ways {
  const pairs = text.split(",").map((item) => item.split("~").map(unescapeName));
  return new Map(
    pairs.filter((p) => p.length === 2).filter((p) => isWay(p as [string, string])) as [string, Direction][],
  );
}
