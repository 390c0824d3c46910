import type { Series } from "../api/types.ts";
import type { Member } from "../chart/rows.ts";

export type { Member };

/** Card is one chart: a metric at one scale, of all runs and label sets. */
export interface Card {
  key: string;
  metric: string;
  scale: string;
  /** The section that it is in, see arrangement.ts. */
  group: string;
  members: Member[];
  /** What its runs have in common, where a card is split. */
  part?: { label: string; of: string };
}

/** Known is a series with what places its card, made when its page of the list comes. */
export interface Known {
  series: Series;
  card: string;
  group: string;
  order: string;
}

/** A run and its series, which are only added to; a run that lost some has another map. */
export type Listed = readonly [string, ReadonlyMap<string, Known>];

interface Entry {
  order: string;
  card: Card;
  /** The call that last changed the card: what was given out does not change. */
  changed: number;
}

interface Reader {
  of: ReadonlyMap<string, Known>;
  /** Goes on where it stopped when series are added, as long as it never reaches the end. */
  next: IterableIterator<Known>;
  read: number;
}

export const plotted = (s: Series): boolean => s.kind === "float64" || s.kind === "int64";

/** Cards are those of some runs in the order in which they are drawn. Each series is looked at once, when its page comes. */
export class Cards {
  #ids: string[] = [];
  #readers = new Map<string, Reader>();
  #entries = new Map<string, Entry>();
  #sorted: Entry[] = [];
  #call = 0;

  /** Takes in what came since the last call. */
  take(runs: readonly Listed[]): void {
    if (!this.#goesOn(runs)) this.#forget();
    this.#ids = runs.map(([id]) => id);
    this.#call++;
    const fresh: Entry[] = [];
    const grown = new Set<Card>();
    for (const [run, list] of runs) {
      let reader = this.#readers.get(run);
      if (!reader) {
        reader = { of: list, next: list.values() as IterableIterator<Known>, read: 0 };
        this.#readers.set(run, reader);
      }
      for (; reader.read < list.size; reader.read++) this.#add(run, reader.next.next().value!, fresh, grown);
    }
    if (fresh.length) this.#sorted = merged(this.#sorted, fresh.sort(byOrder));
    if (grown.size && runs.length > 1) this.#sortMembers(grown);
  }

  list(): Card[] {
    return this.#sorted.map((e) => e.card);
  }

  /** The same runs, and perhaps more, with all that they had. */
  #goesOn(runs: readonly Listed[]): boolean {
    return this.#ids.every((id, i) => runs[i]?.[0] === id && this.#readers.get(id)?.of === runs[i][1]);
  }

  #forget(): void {
    this.#readers = new Map();
    this.#entries = new Map();
    this.#sorted = [];
  }

  #add(run: string, { series, card: key, group, order }: Known, fresh: Entry[], grown: Set<Card>): void {
    if (!plotted(series)) return;
    let entry = this.#entries.get(key);
    if (!entry) {
      const { metric, scale } = series;
      entry = { order, card: { key, metric, scale, group, members: [] }, changed: this.#call };
      this.#entries.set(key, entry);
      fresh.push(entry);
    } else if (entry.changed !== this.#call) {
      entry.card = { ...entry.card, members: [...entry.card.members] };
      entry.changed = this.#call;
    }
    entry.card.members.push({ run, series });
    if (entry.card.members.length > 1) grown.add(entry.card);
  }

  /** Runs come in any order, and are drawn in that of the page. */
  #sortMembers(cards: Iterable<Card>): void {
    const place = new Map(this.#ids.map((id, i) => [id, i]));
    for (const { members } of cards) members.sort((a, b) => place.get(a.run)! - place.get(b.run)!);
  }
}

export const byOrder = (a: { order: string }, b: { order: string }): number =>
  a.order < b.order ? -1 : a.order > b.order ? 1 : 0;

/** Two sorted lists in one; where orders are the same, a's are first. */
function merged(a: Entry[], b: Entry[]): Entry[] {
  if (a.length === 0 || byOrder(a.at(-1)!, b[0]!) <= 0) return a.concat(b);
  const out: Entry[] = [];
  let i = 0;
  for (const entry of b) {
    while (i < a.length && byOrder(a[i]!, entry) <= 0) out.push(a[i++]!);
    out.push(entry);
  }
  while (i < a.length) out.push(a[i++]!);
  return out;
}
