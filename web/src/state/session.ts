import { type ReadonlySignal, batch as together, computed, type Signal, signal } from "@preact/signals";
import { ApiError } from "../api/client.ts";
import * as api from "../api/client.ts";
import type { LiveEvent, RunDetail, Series } from "../api/types.ts";
import { escapeRegex } from "../chart/pattern.ts";
import { groupOf, natural } from "../chart/title.ts";
import { batch, live } from "./app.ts";

/** Member is one series of a card. */
export interface Member {
  run: string;
  series: Series;
}

/** Card is one chart: a metric at one scale, of all runs and label sets. */
export interface Card {
  key: string;
  metric: string;
  scale: string;
  group: string;
  members: Member[];
}

interface Loaded {
  detail: Signal<RunDetail | null>;
  series: Signal<Series[]>;
  complete: Signal<boolean>;
  error: Signal<ApiError | null>;
  abort: AbortController;
}

const firstPage = 120; // what fills the first screens, with preview lines
const nextPage = 5000;
const previewBuckets = 64;
const tickMs = 700; // a live chart is drawn again this often at most; with the server's own tick ≤ 1 s behind
const lastCount = 60; // metrics whose last value one live tick asks for

export const plotted = (s: Series): boolean => s.kind === "float64" || s.kind === "int64";
export const cardKey = (s: Series): string => `${s.metric}\u0000${s.scale}`;

/** Session is what the Run page knows of the runs that it shows: details, series, and what changes while they train. */
export class Session {
  readonly #runs = new Map<string, Loaded>();
  readonly #shown = signal<string[]>([]);
  /** Rises when a run's points changed, so that visible charts read again. */
  readonly ticks = new Map<string, Signal<number>>();
  /** Metrics of the cards in view: the live tick asks for the last values of these. */
  readonly visible = new Set<string>();
  readonly cards: ReadonlySignal<Card[]>;
  readonly #dirty = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #unlisten: (() => void) | null = null;

  constructor() {
    this.cards = computed(() => cardsOf(this.#shown.value.map((id) => [id, this.#runs.get(id)!.series.value])));
  }

  /** Shows these runs, the page's own first. */
  show(ids: string[]): void {
    if (ids.join() === this.#shown.peek().join()) return;
    for (const id of ids) if (!this.#runs.has(id)) this.#load(id);
    this.#shown.value = ids;
    this.#unlisten?.();
    this.#unlisten = live.listen(
      ids.map((id) => `run=${id}`),
      (e) => this.#heard(e),
    );
    document.removeEventListener("visibilitychange", this.#flushSoon);
    document.addEventListener("visibilitychange", this.#flushSoon);
  }

  close(): void {
    this.#unlisten?.();
    document.removeEventListener("visibilitychange", this.#flushSoon);
    if (this.#timer) clearTimeout(this.#timer);
    for (const loaded of this.#runs.values()) loaded.abort.abort();
  }

  detail(id: string): RunDetail | null {
    return this.#runs.get(id)?.detail.value ?? null;
  }

  error(id: string): ApiError | null {
    return this.#runs.get(id)?.error.value ?? null;
  }

  /** Every page of the series of all shown runs has come. */
  complete(): boolean {
    return this.#shown.value.every((id) => this.#runs.get(id)?.complete.value);
  }

  tick(run: string): Signal<number> {
    let tick = this.ticks.get(run);
    if (!tick) {
      tick = signal(0);
      this.ticks.set(run, tick);
    }
    return tick;
  }

  async reload(id: string): Promise<void> {
    const loaded = this.#runs.get(id)!;
    loaded.detail.value = await api.run(id, loaded.abort.signal);
  }

  #load(id: string): void {
    const loaded: Loaded = {
      detail: signal(null),
      series: signal([]),
      complete: signal(false),
      error: signal(null),
      abort: new AbortController(),
    };
    this.#runs.set(id, loaded);
    const failed = (cause: unknown) => {
      if (!loaded.abort.signal.aborted) loaded.error.value = asApiError(cause);
    };
    api.run(id, loaded.abort.signal).then((detail) => {
      loaded.detail.value = detail;
    }, failed);
    this.#list(id, loaded).catch(failed);
  }

  /** The first page comes with preview lines; the names after it are many and come without. */
  async #list(id: string, loaded: Loaded): Promise<void> {
    let page = await api.series(id, { limit: firstPage, preview: previewBuckets }, loaded.abort.signal);
    const all = page.items;
    // A list that is shown already is replaced when it is whole, so that no chart goes away and comes back.
    if (!loaded.complete.peek()) loaded.series.value = all.slice();
    while (page.next) {
      page = await api.series(id, { limit: nextPage, cursor: page.next }, loaded.abort.signal);
      for (const item of page.items) all.push(item);
      if (!loaded.complete.peek()) loaded.series.value = all.slice();
    }
    loaded.series.value = all;
    loaded.complete.value = true;
  }

  #heard(event: LiveEvent | "reset"): void {
    if (event === "reset") for (const id of this.#shown.peek()) this.#dirty.add(id);
    else if (this.#runs.has(event.run)) {
      const { detail } = this.#runs.get(event.run)!;
      if (detail.value) detail.value = { ...detail.value, status: event.status, last_ns: event.last_ns };
      this.#dirty.add(event.run);
    }
    this.#flushSoon();
  }

  /** Nothing is read for a tab that nobody sees; it catches up when it is shown. */
  readonly #flushSoon = (): void => {
    if (document.hidden || this.#timer || this.#dirty.size === 0) return;
    this.#flush();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#flushSoon();
    }, tickMs);
  };

  #flush(): void {
    const ids = [...this.#dirty];
    this.#dirty.clear();
    for (const id of ids) {
      batch.forget(id);
      const loaded = this.#runs.get(id);
      if (!loaded) continue;
      this.#refresh(id, loaded).catch(() => {}); // a lost refresh is made good by the next event
    }
    together(() => {
      for (const id of ids) this.tick(id).value++;
    });
  }

  async #refresh(id: string, loaded: Loaded): Promise<void> {
    const known = loaded.series.peek().length;
    const detail = await api.run(id, loaded.abort.signal);
    loaded.detail.value = detail;
    if (!loaded.complete.peek()) return;
    if (detail.seriesCount !== known) await this.#list(id, loaded);
    else await this.#lasts(id, loaded);
  }

  async #lasts(id: string, loaded: Loaded): Promise<void> {
    const metrics = [...this.visible].slice(0, lastCount);
    if (metrics.length === 0) return;
    const q = `^(${metrics.map(escapeRegex).join("|")})$`;
    const { items } = await api.series(id, { q, limit: 1000 }, loaded.abort.signal);
    const fresh = new Map(items.map((s) => [seriesKey(s), s]));
    loaded.series.value = loaded.series.value.map((s) => {
      const now = fresh.get(seriesKey(s));
      return now && now.count !== s.count ? { ...s, count: now.count, last: now.last } : s;
    });
  }
}

function asApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  return new ApiError(0, { code: "page", message: String(cause), hint: "reload the page" });
}

export function seriesKey(s: Series): string {
  return `${s.metric}\u0000${s.scale}\u0000${labelText(s.labels)}`;
}

export function labelText(labels: Record<string, string>): string {
  return Object.keys(labels)
    .sort(natural)
    .map((k) => `${k}=${labels[k]}`)
    .join(" ");
}

function cardsOf(runs: [string, Series[]][]): Card[] {
  const cards = new Map<string, Card>();
  for (const [run, list] of runs)
    for (const series of list) {
      if (!plotted(series)) continue;
      const key = cardKey(series);
      let card = cards.get(key);
      if (!card) {
        card = { key, metric: series.metric, scale: series.scale, group: groupOf(series.metric), members: [] };
        cards.set(key, card);
      }
      card.members.push({ run, series });
    }
  return [...cards.values()].sort((a, b) => natural(a.group, b.group) || natural(a.metric, b.metric) || natural(a.scale, b.scale));
}
