import type { Page, Search } from "../api/client.ts";
import type { Series } from "../api/types.ts";
import { groupOf, labelText, naturalKey } from "../chart/title.ts";
import { prefixId } from "./arrangement.ts";
import type { Known } from "./cards.ts";

export const cardKey = (s: Series): string => `${s.metric}\u0000${s.scale}`;
export const seriesKey = (s: Series): string => `${cardKey(s)}\u0000${labelText(s.labels)}`;
export const orderOf = (group: string, card: string): string => naturalKey(`${group}\u0000${card}`);

/**
 * SeriesList is as much of a run's list of series as somebody looks at: of all, or of those that a search finds. It ends
 * between two metrics, so that a card has all its series. What is read later is drawn after what was there.
 */
export class SeriesList {
  /** By seriesKey; the counts and last values of series move in place. Only added to, but for keep. */
  known: Map<string, Known> = new Map();
  /** Where the list goes on; "" when all of it is read. */
  cursor = "";
  /** The section that it ends in. */
  last = "";
  /** The search that it is of. */
  readonly wanted: Search | undefined;
  #held: Series[] = [];
  #part = 0;

  constructor(wanted?: Search) {
    this.wanted = wanted;
  }

  /** Takes the next page. If this is where the list is to end, its last metric waits for the page that has the rest of it. */
  take({ items, next }: Page<Series>, end = false): boolean {
    const all = this.#held.concat(items);
    const metric = all.at(-1)?.metric;
    let n = all.length;
    if (end && next) while (n > 0 && all[n - 1]!.metric === metric) n--;
    this.#held = all.slice(n);
    this.cursor = next;
    if (metric !== undefined) this.last = prefixId(groupOf(metric));
    return this.add(n < all.length ? all.slice(0, n) : all);
  }

  /** What is read from now on comes after what was read before. */
  goOn(): void {
    this.#part++;
  }

  /** Reads the list from its begin again. */
  begin(): void {
    this.#held = [];
  }

  /** Puts fresh series over the known ones; true when some were not known. */
  add(fresh: readonly Series[]): boolean {
    const before = this.known.size;
    for (const s of fresh) if (!this.update(s)) this.known.set(seriesKey(s), this.#placed(s));
    return this.known.size > before;
  }

  /** False when the series is not known. */
  update(s: Series): boolean {
    const series = this.known.get(seriesKey(s))?.series;
    if (!series) return false;
    series.count = s.count;
    series.inherited = s.inherited;
    series.last = s.last;
    series.axes = s.axes;
    return true;
  }

  keep(test: (key: string, s: Series) => boolean): void {
    this.known = new Map([...this.known].filter(([key, k]) => test(key, k.series)));
  }

  #placed(series: Series): Known {
    const [card, group] = [cardKey(series), prefixId(groupOf(series.metric))];
    const part = this.#part ? `\uffff${String(this.#part).padStart(6, "0")}` : "";
    return { series, card, group, order: part + orderOf(group, card) };
  }
}
