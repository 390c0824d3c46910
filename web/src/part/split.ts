import { type Signal, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { nameOf, partsOf, type Subject } from "../chart/grouping.ts";
import type { Range } from "../chart/range.ts";
import type { Card } from "../state/session.ts";

export const mostParts = 24; // values of a key that are shown before somebody asks for all

/** A card for each value of a key; `values` is how many the key has. */
export function splitCards(
  cards: readonly Card[],
  runs: ReadonlyMap<string, Subject>,
  by: string,
  all: boolean,
): { cards: Card[]; values: number } {
  const { parts, rest } = partsOf([...runs.values()], by);
  const values = rest.length ? [...parts, { key: "", label: `no ${nameOf(by)}`, runs: rest }] : parts;
  const shown = all ? values : values.slice(0, mostParts);
  const sets = shown.map((g) => ({ ...g, runs: new Set(g.runs) }));
  const out = cards.flatMap((card) =>
    !card.members.length
      ? [card]
      : sets.flatMap(({ key, label, runs }): Card[] => {
          const members = card.members.filter((m) => runs.has(m.run));
          const part = { label, of: card.key };
          return members.length ? [{ ...card, key: `${card.key}\u0000${key}`, members, part }] : [];
        }),
  );
  return { cards: out, values: values.length };
}

const ranges = new Map<string, Signal<ReadonlyMap<string, Range>>>();

/** The y range of a card; parts of one card share it, as far as they have been seen. */
export function useSharedRange(card: Card, own: Range, known: boolean, view: string): Range {
  const key = card.part ? `${card.part.of} ${view}` : "";
  let shared = ranges.get(key);
  if (key && !shared) {
    shared = signal(new Map());
    ranges.set(key, shared);
  }
  useEffect(() => {
    if (key && known) shared!.value = new Map([...shared!.peek(), [card.key, own]]);
  }, [key, known, own]);
  if (!key || !known) return own;
  return union([own, ...shared!.value.values()]);
}

function union(all: readonly Range[]): Range {
  return {
    min: Math.min(...all.map((r) => r.min)),
    max: Math.max(...all.map((r) => r.max)),
    clipped: all.some((r) => r.clipped),
  };
}
