import { computed, effect, signal } from "@preact/signals";
import { type Direction, guess } from "../chart/direction.ts";
import { chosen, isWay, parseWays, type Ways, waysText } from "./direction.ts";
import { param, setParams } from "./route.ts";

/** Directions that a reader chose, by project and metric. */
const directionsName = (project: string): string => `kymogram.direction.${project}`;
const kept = signal<{ project: string; of: Ways }>({ project: "", of: new Map() });

/** Reads what was chosen in a project. */
export function openProject(project: string): void {
  let of: Record<string, unknown> = {};
  try {
    of = JSON.parse(localStorage.getItem(directionsName(project)) ?? "{}");
  } catch {} // not ours
  kept.value = { project, of: new Map(Object.entries(of).filter(isWay)) };
}

const urlText = computed(() => param("best"));
/** As of columns, the address comes before the browser, and a saved view is the same for everybody. */
effect(() => {
  if (urlText.value) chosen.value = parseWays(urlText.value);
  else chosen.value = param("view") ? new Map() : kept.value.of;
});
export const chosenWays = computed(() => waysText(chosen.value));

export function setDirection(metric: string, direction: Direction): void {
  const { project, of } = kept.value;
  const changed = (ways: Ways): Ways => {
    const next = new Map(ways).set(metric, direction);
    if (guess(metric) === direction) next.delete(metric);
    return next;
  };
  const next = changed(chosen.value);
  kept.value = { project, of: changed(of) };
  localStorage.setItem(directionsName(project), JSON.stringify(Object.fromEntries(kept.value.of)));
  setParams({ best: waysText(next) });
}
