import { computed } from "@preact/signals";
import { address, param, setParams } from "./route.ts";

const mostInAddress = 100; // ids; more of them are kept with the entry of the history

/** The runs that are selected: in the address, so that a link, a reload and Back keep them. */
export const selected = computed<ReadonlySet<string>>(() => new Set(idsIn("sel")));

/** The runs that a parameter of the address names. */
export function idsIn(name: string): string[] {
  address.value;
  const text = param(name);
  const kept = (history.state as { sel?: string[] } | null)?.sel;
  return text === "many" ? (kept ?? []) : text.split(",").filter(Boolean);
}

/** Runs as they are written into an address, and the state that has those that are too many for it. */
export function addressOf(ids: Iterable<string>): [string, { sel: string[] } | null] {
  const all = [...new Set(ids)];
  return all.length > mostInAddress ? ["many", { sel: all }] : [all.join(","), null];
}

export function select(ids: Iterable<string>): void {
  const [sel, state] = addressOf(ids);
  setParams({ sel }, state);
}
