import type { PageSpec, Section } from "../api/view.ts";
import type { Card } from "./session.ts";

/**
 * Arrangement is where a project's charts are: those that are pinned, sections that readers made, and what was moved.
 * Sections are named as docs/format/view.md names them: pinned, +TITLE for a section that was made, /PREFIX for the
 * charts of a prefix. All changes are pure functions, so that two readers' changes can be merged.
 */
export type Arrangement = Pick<PageSpec, "pinned" | "sections" | "order" | "folded">;

export const pinnedId = "pinned";
export const madeId = (title: string): string => `+${title}`;
export const prefixId = (prefix: string): string => `/${prefix}`;
export const isMade = (id: string): boolean => id.startsWith("+");
/** What a section is called; metrics without a slash are in one that has no name. */
export const titleOf = (id: string): string => (id === pinnedId ? "Pinned" : id.slice(1) || "other");

const idOf = (s: Section): string => (s.made ? madeId(s.title) : prefixId(s.title));

/** The charts of a section that were moved into it or inside it, in their order. */
export function storedIn(by: Arrangement, id: string): string[] {
  if (id === pinnedId) return by.pinned ?? [];
  return by.sections?.find((s) => idOf(s) === id)?.metrics ?? [];
}

/** The cards in the sections where readers put them; each comes with that of its prefix. Linear in the cards, so that 100,000 are placed at once. */
export function arrange(cards: Card[], by: Arrangement): Card[] {
  const home = new Map<string, string>(); // of metrics that left their prefix
  const rank = new Map<string, number>(); // inside a section
  const placed = (id: string, metrics: readonly string[], moves: boolean) =>
    metrics.forEach((metric, i) => {
      if (moves && !home.has(metric)) home.set(metric, id);
      if (home.get(metric) === id || (!moves && !home.has(metric))) rank.set(metric, i);
    });
  placed(pinnedId, by.pinned ?? [], true);
  for (const s of by.sections ?? []) if (s.made) placed(idOf(s), s.metrics ?? [], true);
  for (const s of by.sections ?? []) if (!s.made) placed(idOf(s), s.metrics ?? [], false);
  const first = new Map((by.order ?? []).map((id, i) => [id, i]));
  if (home.size + rank.size + first.size === 0) return cards;
  const groups = new Map<string, Card[]>();
  for (const card of cards) {
    const group = home.get(card.metric) ?? card.group;
    const placed = group === card.group ? card : { ...card, group };
    const list = groups.get(group);
    if (list) list.push(placed);
    else groups.set(group, [placed]);
  }
  // Those that nobody moved come after the others: first the ones that were made, then the rest by name.
  const made = new Map(madeSections(by).map((title, i) => [madeId(title), i]));
  const place = (id: string): [number, number] =>
    id === pinnedId ? [-1, 0] : [first.get(id) ?? first.size, made.get(id) ?? made.size];
  const ids = [...groups.keys()].map((id) => ({ id, at: place(id) }));
  ids.sort((a, b) => a.at[0] - b.at[0] || a.at[1] - b.at[1]);
  return ids.flatMap(({ id }) => sorted(groups.get(id)!, rank));
}

function sorted(cards: Card[], rank: ReadonlyMap<string, number>): Card[] {
  if (!cards.some((c) => rank.has(c.metric))) return cards;
  const at = (c: Card) => rank.get(c.metric) ?? Number.POSITIVE_INFINITY;
  return [...cards].sort((a, b) => (at(a) === at(b) ? 0 : at(a) - at(b)));
}

const without = (list: readonly string[] | undefined, name: string): string[] =>
  (list ?? []).filter((n) => n !== name);

const toggled = (list: readonly string[] | undefined, name: string): string[] =>
  list?.includes(name) ? without(list, name) : [...(list ?? []), name];

export const isPinned = (a: Arrangement, metric: string): boolean => !!a.pinned?.includes(metric);

export function togglePinned<T extends Arrangement>(a: T, metric: string): T {
  return { ...a, pinned: toggled(a.pinned, metric) };
}

export function toggleFolded<T extends Arrangement>(a: T, id: string): T {
  return { ...a, folded: toggled(a.folded, id) };
}

/** The charts of a section in a new order; into one that was made, or the pinned ones, others may come. */
export function placeIn<T extends Arrangement>(a: T, id: string, metrics: string[]): T {
  const came = new Set(metrics);
  const leave = (list: readonly string[] | undefined) => (list ?? []).filter((m) => !came.has(m));
  const moves = id === pinnedId || isMade(id);
  const pinned = id === pinnedId ? metrics : moves ? leave(a.pinned) : a.pinned;
  let found = false;
  const sections = (a.sections ?? []).map((s) => {
    if (idOf(s) === id) {
      found = true;
      return { ...s, metrics };
    }
    // A pinned chart goes back to its section when it is let go.
    return s.made && moves && id !== pinnedId ? { ...s, metrics: leave(s.metrics) } : s;
  });
  if (!found && id !== pinnedId)
    sections.push({ title: id.slice(1), ...(isMade(id) && { made: true }), metrics });
  return { ...a, sections: filled(sections), ...(pinned && { pinned }) };
}

/** A section that was made and has no chart any more would never be seen again. */
const filled = (sections: Section[]): Section[] => sections.filter((s) => !s.made || !!s.metrics?.length);

/** Back to the section of its prefix. */
export function sendHome<T extends Arrangement>(a: T, metric: string): T {
  const sections = (a.sections ?? []).map((s) =>
    s.made ? { ...s, metrics: without(s.metrics, metric) } : s,
  );
  return { ...a, pinned: without(a.pinned, metric), sections: filled(sections) };
}

export const madeSections = (a: Arrangement): string[] =>
  (a.sections ?? []).filter((s) => s.made).map((s) => s.title);

export function removeSection<T extends Arrangement>(a: T, title: string): T {
  const id = madeId(title);
  const sections = (a.sections ?? []).filter((s) => idOf(s) !== id);
  return { ...a, sections, order: without(a.order, id), folded: without(a.folded, id) };
}

export function renameSection<T extends Arrangement>(a: T, from: string, to: string): T {
  const renamed = (id: string) => (id === madeId(from) ? madeId(to) : id);
  const sections = (a.sections ?? []).map((s) => (s.made && s.title === from ? { ...s, title: to } : s));
  return { ...a, sections, order: (a.order ?? []).map(renamed), folded: (a.folded ?? []).map(renamed) };
}

/** The sections that are shown, in the order of the reader; those that are not shown keep their place after them. */
export function orderSections<T extends Arrangement>(a: T, ids: string[]): T {
  const shown = new Set(ids);
  const rest = (a.order ?? []).filter((id) => !shown.has(id));
  return { ...a, order: [...ids.filter((id) => id !== pinnedId), ...rest] };
}

/**
 * What two readers made of one arrangement: `theirs`, with what `mine` changed of `base`. It is also how a change is
 * taken back, where `base` has it and `mine` has not. Fields of newer versions come from theirs.
 */
export function merge<T extends Arrangement>(base: T, mine: T, theirs: T): T {
  const out = { ...theirs };
  for (const name of ["pinned", "order", "folded"] as const) {
    const list = mergeList(base[name], mine[name], theirs[name]);
    if (list) out[name] = list;
  }
  const sections = mergeSections(base.sections, mine.sections, theirs.sections);
  if (sections) out.sections = sections;
  return out;
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Names that mine added and took away; its order where only mine has another one. */
function mergeList(base: string[] = [], mine: string[] = [], theirs: string[] = []): string[] | undefined {
  if (same(mine, base)) return theirs.length ? theirs : undefined;
  if (same(theirs, base)) return mine;
  const [was, now, there] = [new Set(base), new Set(mine), new Set(theirs)];
  const kept = theirs.filter((n) => now.has(n) || !was.has(n));
  const added = mine.filter((n) => !was.has(n) && !there.has(n));
  const out = [...kept, ...added];
  if (!same(mine, base.filter((n) => now.has(n)).concat(mine.filter((n) => !was.has(n))))) {
    const order = new Map(mine.map((n, i) => [n, i]));
    out.sort((a, b) => (order.get(a) ?? mine.length) - (order.get(b) ?? mine.length));
  }
  return out;
}

function mergeSections(
  base: Section[] = [],
  mine: Section[] = [],
  theirs: Section[] = [],
): Section[] | undefined {
  if (same(mine, base)) return theirs.length ? theirs : undefined;
  const [was, now, there] = [base, mine, theirs].map((list) => new Map(list.map((s) => [idOf(s), s])));
  const out: Section[] = [];
  for (const id of new Set([...there!.keys(), ...now!.keys()])) {
    const [b, m, t] = [was!.get(id), now!.get(id), there!.get(id)];
    if (!m && same(b, t)) continue; // mine took it away
    if (!t && same(b, m)) continue; // theirs did
    const chosen = m && t ? (same(m, b) ? t : { ...t, ...m }) : (t ?? m)!;
    const metrics = mergeList(b?.metrics, m?.metrics ?? b?.metrics, t?.metrics ?? b?.metrics);
    out.push({ ...chosen, ...(metrics && { metrics }) });
  }
  return out;
}
