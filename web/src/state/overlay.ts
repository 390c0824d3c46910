/** Chosen is a run drawn over another, with the colour slot that it keeps while others come and go. */
export interface Chosen {
  id: string;
  slot: number;
}

/** Reads with=ID,ID~5: a run without a slot gets its place in the list, or the next free one. Slot 0 is the page's own run. */
export function parseChosen(text: string): Chosen[] {
  const parts = text.split(",").filter(Boolean);
  const used = new Set([0]);
  for (const part of parts) {
    const slot = Number(part.split("~")[1]);
    if (Number.isInteger(slot)) used.add(slot);
  }
  const seen = new Set<string>();
  const out: Chosen[] = [];
  for (const part of parts) {
    const [id, kept] = part.split("~") as [string, string?];
    if (seen.has(id)) continue;
    seen.add(id);
    const slot = kept === undefined ? free(used) : Number(kept);
    used.add(slot);
    out.push({ id, slot: Number.isInteger(slot) && slot >= 0 ? slot : free(used) });
  }
  return out;
}

function free(used: Set<number>): number {
  let slot = 0;
  while (used.has(slot)) slot++;
  return slot;
}

/** Writes what parseChosen reads, with slots only where they say more than the order. */
export function formatChosen(chosen: Chosen[]): string {
  return chosen.map((c, i) => (c.slot === i + 1 ? c.id : `${c.id}~${c.slot}`)).join(",");
}

/** Adds a run in the lowest free slot, or takes it away; the others keep theirs. */
export function toggleChosen(chosen: Chosen[], id: string): Chosen[] {
  if (chosen.some((c) => c.id === id)) return chosen.filter((c) => c.id !== id);
  return [...chosen, { id, slot: free(new Set([0, ...chosen.map((c) => c.slot)])) }];
}

/** What with= says on the page of another of the runs: all of them, each in the colour that it has here. */
export function overlaidFrom(main: string, to: string, chosen: Chosen[]): Chosen[] {
  const rest = chosen.filter((c) => c.id !== to && c.id !== main);
  const slot = chosen.find((c) => c.id === to)?.slot ?? free(new Set([0, ...chosen.map((c) => c.slot)]));
  return [{ id: main, slot }, ...rest];
}
