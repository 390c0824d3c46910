import { signal } from "@preact/signals";
import { type Direction, guess } from "../chart/direction.ts";

/** Directions that a reader chose, by project and metric. */
const directionsName = (project: string): string => `kymogram.direction.${project}`;
const chosen = signal<{ project: string; of: Record<string, Direction> }>({ project: "", of: {} });

/** Reads what was chosen in a project. */
export function openProject(project: string): void {
  let of: Record<string, Direction> = {};
  try {
    of = JSON.parse(localStorage.getItem(directionsName(project)) ?? "{}");
  } catch {} // not ours
  chosen.value = { project, of };
}

/** Which way a metric is better: chosen in this project, else by its name. */
export function directionOf(metric: string): Direction | undefined {
  const { of } = chosen.value;
  const set = Object.hasOwn(of, metric) ? of[metric] : undefined;
  return set === "up" || set === "down" ? set : guess(metric);
}

export function setDirection(metric: string, direction: Direction): void {
  const { project, of } = chosen.value;
  const next = Object.fromEntries([...Object.entries(of), [metric, direction]]);
  chosen.value = { project, of: next };
  localStorage.setItem(directionsName(project), JSON.stringify(next));
}
