import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { say } from "../state/app.ts";
import * as a from "../state/arrangement.ts";
import type { Card, Session } from "../state/session.ts";
import { arrangement, change, openSpace } from "../state/space.ts";
import { fullScreen } from "../state/view.ts";

/** What a reader does with the charts of a project: pin, move, and make sections. */

/** The cards of a session where the readers of the project put them. */
export function useArranged(session: Session): Card[] {
  const wanted = useComputed(() => {
    const { pinned = [], sections = [] } = arrangement.value;
    const moved = sections.flatMap((s) => (s.made ? (s.metrics ?? []) : []));
    return [...pinned, ...moved, ...(fullScreen.value ? [fullScreen.value] : [])];
  }).value;
  useEffect(() => session.want(wanted), [session, wanted]);
  return useComputed(() => a.arrange(session.cards.value, arrangement.value)).value;
}

export function useSpace(workspace: string | undefined, project: string | undefined): void {
  useEffect(() => {
    if (workspace && project) void openSpace(workspace, project);
  }, [workspace, project]);
}

export function togglePin(metric: string): void {
  const pinned = a.isPinned(arrangement.peek(), metric);
  change(`${metric} ${pinned ? "is no longer pinned" : "pinned"}`, (now) => a.togglePinned(now, metric));
}

export const toggleFold = (id: string): void =>
  change(`${a.titleOf(id)} folded or unfolded`, (now) => a.toggleFolded(now, id), true);

const metricsIn = (cards: readonly Card[], id: string): string[] => [
  ...new Set(cards.filter((c) => c.group === id).map((c) => c.metric)),
];

/** Charts that are in a section and that the shown runs do not have stay behind the one that they followed. */
function withAbsent(shown: string[], stored: readonly string[]): string[] {
  const out = [...shown];
  stored.forEach((metric, i) => {
    if (!out.includes(metric)) out.splice(i === 0 ? 0 : out.indexOf(stored[i - 1]!) + 1, 0, metric);
  });
  return out;
}

/** Puts a chart before or after another one, in that one's section. */
export function place(cards: readonly Card[], metric: string, target: Card, after: boolean): void {
  if (metric === target.metric) return;
  const id = target.group;
  const free = id === a.pinnedId || a.isMade(id);
  const from = cards.find((c) => c.metric === metric);
  if (!free && from?.group !== id && !`/${metric}`.startsWith(`${id}/`)) {
    say(`${a.titleOf(id)} has the charts of this prefix alone: make a section for ${metric}`, true);
    return;
  }
  const stored = a.storedIn(arrangement.peek(), id).filter((m) => m !== metric);
  const order = metricsIn(cards, id).filter((m) => m !== metric);
  const at = order.indexOf(target.metric) + (after ? 1 : 0);
  order.splice(at, 0, metric);
  // Of a prefix only what was moved is stored, and what comes before it.
  const most = free ? order.length : Math.max(at + 1, stored.filter((m) => order.includes(m)).length + 1);
  const next = withAbsent(order.slice(0, most), stored);
  change(`${metric} moved`, (now) => a.placeIn(free ? now : a.sendHome(now, metric), id, next));
}

/** Moves a chart by one among those that are shown. */
export function step(cards: readonly Card[], shown: readonly Card[], card: Card, by: number): void {
  const near = shown.filter((c) => c.group === card.group && (c.metric !== card.metric || c === card));
  const target = near[near.indexOf(card) + by];
  if (target) place(cards, card.metric, target, by > 0);
  else say(`${card.metric} is the ${by < 0 ? "first" : "last"} of ${a.titleOf(card.group)}`);
}

/** Into a section that was made, at its end; "" sends it back to the section of its prefix. */
export function moveTo(metric: string, title: string): void {
  const text = title ? `${metric} moved to ${title}` : `${metric} is back`;
  change(text, (now) => {
    if (!title) return a.sendHome(now, metric);
    const id = a.madeId(title);
    const there = a.storedIn(now, id).filter((m) => m !== metric);
    return a.placeIn(now, id, [...there, metric]);
  });
}

export function removeSection(title: string): void {
  change(`section ${title} removed`, (now) => a.removeSection(now, title));
}

/** False where another section has the name. */
export function renameSection(from: string, to: string): boolean {
  if (a.madeSections(arrangement.peek()).includes(to)) return false;
  change(`section ${from} renamed`, (now) => a.renameSection(now, from, to));
  return true;
}

const sectionsOf = (cards: readonly Card[]): string[] => [...new Set(cards.map((c) => c.group))];

/** Puts a section before another one. */
export function placeSection(cards: readonly Card[], id: string, target: string): void {
  if (id === target || id === a.pinnedId) return;
  const ids = sectionsOf(cards).filter((s) => s !== a.pinnedId && s !== id);
  const at = target === a.pinnedId ? 0 : target === "" ? ids.length : ids.indexOf(target);
  ids.splice(at, 0, id);
  const known = arrangement.peek().order ?? [];
  // What comes after all that was ever moved keeps its place without being named.
  const last = Math.max(at, ...ids.map((s, i) => (known.includes(s) ? i : -1)));
  change(`section ${a.titleOf(id)} moved`, (now) => a.orderSections(now, ids.slice(0, last + 1)));
}

export function stepSection(cards: readonly Card[], id: string, by: number): void {
  const ids = sectionsOf(cards).filter((s) => s !== a.pinnedId);
  const at = ids.indexOf(id);
  if (at + by < 0 || at + by >= ids.length) return;
  placeSection(cards, id, by < 0 ? ids[at - 1]! : (ids[at + 2] ?? ""));
}
