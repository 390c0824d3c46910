import { signal } from "@preact/signals";
import * as api from "../api/client.ts";
import { ApiError } from "../api/client.ts";
import type { RunDetail, Series } from "../api/types.ts";
import { escapeRegex } from "../chart/pattern.ts";
import type { Pool } from "./turn.ts";

const runsAtOnce = 25; // that one request asks for
const mostRuns = 100; // that it may ask for, where it wants a few series of each
const soonMs = 40; // cards come into view together
const mostSeries = 5000; // of the metrics in view, that a run's page of series has
const mostKept = 10_000; // series of cards that are not in view any more

/** A metric of some run: what places its card before any series is known. */
export interface Named {
  metric: string;
  scale: string;
}

interface Sink {
  shown(): readonly string[];
  visible(): Iterable<string>;
  loaded(id: string, detail: RunDetail | null, series: Series[]): void;
  failed(id: string, cause: ApiError): void;
  dropped(metrics: ReadonlySet<string>): void;
  publish(change: () => void): void;
}

/**
 * Crowd reads many runs: the names of their metrics first, and series only for cards in view. So a project of 5,000
 * metrics and 2,000 runs costs what a screen of it does.
 */
export class Crowd {
  readonly names = signal<ReadonlyMap<string, Named>>(new Map());
  /** Metrics that all shown runs were asked for: one without series has no card. */
  readonly done = signal<ReadonlySet<string>>(new Set());
  /** The runs have more metrics than are named at once. */
  readonly cut = signal(false);
  /** The metrics that were asked for, of each run. */
  readonly #asked = new Map<string, Set<string>>();
  readonly #kept = new Set<string>(); // metrics, those that came into view first first
  readonly #sink: Sink;
  readonly #pool: Pool;
  readonly #abort: AbortSignal;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #begun = false;

  constructor(pool: Pool, abort: AbortSignal, sink: Sink) {
    this.#pool = pool;
    this.#abort = abort;
    this.#sink = sink;
  }

  /** Reads runs that were not shown before. The names of the first come first, so that there are cards to look at. */
  async add(ids: string[]): Promise<void> {
    this.done.value = new Set();
    if (!this.#begun && ids[0]) {
      this.#begun = true;
      await this.name([ids[0]]);
      await new Promise((done) => setTimeout(done, soonMs)); // the first cards come into view
    }
    await this.#ask();
    await this.name(ids);
  }

  /** Cards came into view: what is missing of them is asked for soon. */
  soon(): void {
    if (!this.#begun) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.#ask();
    }, soonMs);
  }

  /** Reads which metrics runs have. */
  async name(ids: string[]): Promise<void> {
    const query = { q: "^$", limit: 1, preview: 0, detail: false, metrics: true };
    await this.#each(ids, runsAtOnce, async (some) => {
      const { metrics, cut } = await api.overviews(some, query, this.#abort);
      const fresh = metrics.filter((m) => !this.names.peek().has(keyOf(m)));
      if (cut) this.cut.value = true;
      if (fresh.length)
        this.#sink.publish(() => {
          this.names.value = new Map([...this.names.peek(), ...fresh.map((m) => [keyOf(m), m] as const)]);
        });
    });
  }

  /** Asks for the series in view of all runs that lack them. */
  async #ask(): Promise<void> {
    const visible = [...this.#sink.visible()].sort();
    const lacking = new Map<string, { ids: string[]; metrics: string[]; detail: boolean }>();
    for (const id of this.#sink.shown()) {
      const asked = this.#asked.get(id);
      const metrics = visible.filter((m) => !asked?.has(m));
      if (asked && metrics.length === 0) continue;
      const key = `${!asked} ${metrics.join("\n")}`;
      const group = lacking.get(key) ?? { ids: [], metrics, detail: !asked };
      group.ids.push(id);
      lacking.set(key, group);
      this.#asked.set(id, new Set([...(asked ?? []), ...metrics]));
    }
    for (const metric of visible) {
      this.#kept.delete(metric);
      this.#kept.add(metric);
    }
    const shown = this.#sink.shown();
    for (const group of lacking.values()) await this.#read(group);
    if (this.#abort.aborted) return;
    if (lacking.size && shown.every((id) => this.#asked.has(id)))
      this.#sink.publish(() => {
        this.done.value = new Set([...this.done.peek(), ...visible]);
      });
    this.#forget(new Set(visible));
  }

  async #read({
    ids,
    metrics,
    detail,
  }: {
    ids: string[];
    metrics: string[];
    detail: boolean;
  }): Promise<void> {
    const q = `^(${metrics.map(escapeRegex).join("|")})$`;
    const query = { q, limit: mostSeries, preview: 0, detail, summary: false };
    const later: (() => void)[] = [];
    await this.#each(ids, detail ? runsAtOnce : mostRuns, async (some) => {
      const { list } = await api.overviews(some, query, this.#abort);
      const takes = await Promise.all(list.map((answer, i) => this.#whole(some[i]!, q, answer)));
      if (detail) for (const take of takes) take();
      else later.push(...takes);
    });
    // A card that comes into view has all its runs at once: it would be drawn again for each part of them.
    for (const take of later) take();
  }

  /** Reads what an answer lacks of a run's series, and hands all of them over when it is called. */
  async #whole(id: string, q: string, answer: api.Overview | ApiError): Promise<() => void> {
    if (answer instanceof ApiError) return () => this.#sink.failed(id, answer);
    const items = [...answer.series.items];
    for (let { next } = answer.series; next; ) {
      const page = await api.series(id, { q, limit: mostSeries, cursor: next }, this.#abort);
      for (const s of page.items) items.push(s);
      next = page.next;
    }
    return () => this.#sink.loaded(id, answer.detail, items);
  }

  /** Some requests at a time; what fails is said of its runs, and asked for again when a card comes into view. */
  async #each(ids: string[], atOnce: number, read: (some: string[]) => Promise<void>): Promise<void> {
    const parts: string[][] = [];
    for (let i = 0; i < ids.length; i += atOnce) parts.push(ids.slice(i, i + atOnce));
    await Promise.all(
      parts.map((some) =>
        this.#pool
          .run(() => read(some))
          .catch((cause) => {
            if (this.#abort.aborted) return;
            for (const id of some) {
              this.#asked.delete(id);
              if (cause instanceof ApiError) this.#sink.failed(id, cause);
            }
          }),
      ),
    );
  }

  /** Series of cards that went out of view long ago are read again when they come back. */
  #forget(visible: ReadonlySet<string>): void {
    const most = Math.max(visible.size, Math.floor(mostKept / Math.max(1, this.#sink.shown().length)));
    const gone = new Set(
      [...this.#kept].filter((m) => !visible.has(m)).slice(0, Math.max(0, this.#kept.size - most)),
    );
    if (gone.size === 0) return;
    for (const metric of gone) {
      this.#kept.delete(metric);
      for (const asked of this.#asked.values()) asked.delete(metric);
    }
    this.#sink.dropped(gone);
    this.done.value = new Set([...this.done.peek()].filter((m) => !gone.has(m)));
  }
}

const keyOf = (m: Named): string => `${m.metric}\u0000${m.scale}`;
