import { computed, effect, type ReadonlySignal, signal, batch as together } from "@preact/signals";
import * as api from "../api/client.ts";
import { ApiError, asApiError, type Page } from "../api/client.ts";
import type { LiveEvent, RunDetail, Series } from "../api/types.ts";
import { escapeRegex } from "../chart/pattern.ts";
import { groupOf } from "../chart/title.ts";
import { live } from "./app.ts";
import { prefixId } from "./arrangement.ts";
import { byOrder, type Card, Cards, type Listed } from "./cards.ts";
import { Crowd, type Named } from "./crowd.ts";
import { lastsOf } from "./lasts.ts";
import {
  hasMore,
  inherits,
  isDocument,
  isMissing,
  isOwn,
  type Loaded,
  lineOf,
  loading,
  pauseOf,
  take,
} from "./loaded.ts";
import { orderOf, SeriesList, seriesKey } from "./serieslist.ts";
import { Pool } from "./turn.ts";
import { showInherited } from "./view.ts";

export { type Card, type Member, plotted } from "./cards.ts";
export { cardKey, seriesKey } from "./serieslist.ts";

/** What is listed of long lists. */
export interface Part {
  /** It is of a search. */
  found: boolean;
  listed: number;
  of: number;
  /** The sections in which lists end. */
  sections: ReadonlySet<string>;
}

const firstPage = 32; // what fills the first screen, with preview lines
const crowdPage = 128; // of each of many runs: without previews, and most runs have no more
const nextPage = 5000;
const mostListed = 20_000; // series of all runs that are read before somebody scrolls to their end
const mostFound = 5000; // of a search
const firstFound = 256; // what a search shows at once
const searchMs = 60; // between two letters
const previewBuckets = 64;
const crowdPreview = 16; // buckets of the first of many runs
const tickMs = 300; // with the server's beat of 200 ms and two answers a point is drawn well within 1 s
const publishMs = 60;
const previewRuns = 8; // with more runs than this a card asks for its lines at once: 64 buckets of 50 runs are megabytes
const loadsAtOnce = 4; // requests; a browser has six connections a server, and one streams events
const runsAtOnce = 25; // that one request asks for: some hundred milliseconds, so that many runs come in steps
const looksAtOnce = 100; // runs that one request looks at again, the most that the server takes
const lastCount = 60; // metrics whose last value one live tick asks for

/** Session is what the Run page knows of the runs that it shows: details, series, and what changes while they train. */
export class Session {
  readonly #runs = new Map<string, Loaded>();
  readonly #shown = signal<string[]>([]);
  /** How many mounted cards show a metric: the live tick asks for the last values of these. */
  readonly #visible = new Map<string, number>();
  readonly cards: ReadonlySignal<Card[]>;
  readonly #cards = new Cards();
  readonly #foundCards = new Cards();
  /** A search is on its way to the server. */
  readonly searching = signal(false);
  readonly searchError = signal<ApiError | null>(null);
  /** No series of any shown run is on its way. */
  readonly settled: ReadonlySignal<boolean> = computed(() =>
    this.#shown.value.every((id) => {
      const run = this.#runs.get(id)!;
      return run.complete.value || run.error.value !== null;
    }),
  );
  readonly #wanted = signal<readonly string[]>([]);
  /** Rises when a search is to be asked again. */
  readonly #round = signal(0);
  #ended: (() => void)[] = [];
  readonly #dirty = new Set<string>();
  readonly #unpublished: (() => void)[] = [];
  /** Runs that the next requests ask for, all of one call of show. */
  #asked: string[] = [];
  readonly #abort = new AbortController();
  readonly #pool = new Pool(loadsAtOnce);
  /** Cards of metrics whose series are not read, each made once. */
  readonly #places = new Map<string, Placed>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #unlisten: (() => void) | null = null;

  /** Reads many runs by what is in view; null while a page shows few, or the series of all. */
  readonly #crowd: Crowd | null;

  /** A page that has the summaries of its runs from their list lets many of them be a crowd. */
  constructor({ crowd = false, search = (): api.Search | null => null } = {}) {
    this.#crowd = crowd ? new Crowd(this.#pool, this.#abort.signal, this.#sink()) : null;
    this.cards = computed(() => {
      for (const id of this.#shown.value) this.#runs.get(id)!.shape.value;
      const finds = this.finds();
      const cards = finds ? this.#foundCards : this.#cards;
      cards.take(this.#listed(finds));
      const all = cards.list();
      const known = showInherited.value ? all : ownCards(all);
      const names = this.#crowd?.names.value;
      return names?.size ? withNamed(known, names, this.#places, this.#crowd!.done.value) : known;
    });
    const searched = computed(() => {
      const wanted = search();
      return wanted && this.#partial().length
        ? JSON.stringify([this.#round.value, wanted, this.#partial()])
        : "";
    });
    this.#ended = [effect(() => this.#search(searched.value)), effect(() => this.#readBeside())];
  }

  /** The shown runs of which only a part is listed. */
  #partial(): string[] {
    return this.#shown.value.filter((id) => this.#runs.get(id)!.partial.value);
  }

  /** The cards are those that the server found. */
  finds(): boolean {
    return this.#shown.value.some((id) => this.#runs.get(id)!.found.value);
  }

  /** Asks the server what a search finds in partial lists. */
  #search(key: string): (() => void) | undefined {
    this.searching.value = key !== "";
    this.searchError.value = null;
    if (key === "") {
      together(() => {
        for (const loaded of this.#runs.values()) loaded.found.value = null;
      });
      return undefined;
    }
    const [, wanted, ids] = JSON.parse(key) as [number, api.Search, string[]];
    const abort = new AbortController();
    const timer = setTimeout(() => {
      Promise.all(ids.map((id) => this.#find(id, wanted, abort.signal)))
        .catch((cause) => {
          if (!abort.signal.aborted) this.searchError.value = asApiError(cause);
        })
        .finally(() => {
          if (!abort.signal.aborted) this.searching.value = false;
        });
    }, searchMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }

  async #find(id: string, wanted: api.Search, abort: AbortSignal): Promise<void> {
    const { found, shape } = this.#runs.get(id)!;
    const list = new SeriesList(wanted);
    for (let limit = firstFound; list.known.size < mostFound; limit = nextPage) {
      const page = await api.series(id, { ...wanted, limit, cursor: list.cursor }, abort);
      if (abort.aborted) return;
      list.take(page, true);
      together(() => {
        found.value = list;
        shape.value++;
      });
      if (!page.next) return;
    }
  }

  /** Reads on, where a list is not whole. */
  more(): void {
    for (const id of this.#shown.peek()) {
      const loaded = this.#runs.get(id)!;
      const list = loaded.found.peek() ?? loaded.list;
      if (!list.cursor || loaded.reading || !loaded.complete.peek()) continue;
      list.goOn();
      this.#readOn(id, loaded, list).catch(this.#failed(loaded));
    }
  }

  async #readOn(id: string, loaded: Loaded, list: SeriesList): Promise<void> {
    loaded.reading = true;
    try {
      for (let added = false; list.cursor && !added; ) {
        const query = { ...list.wanted, limit: nextPage, cursor: list.cursor };
        added = list.take(await api.series(id, query, loaded.abort.signal), true);
      }
    } finally {
      loaded.reading = false;
    }
    together(() => {
      loaded.shape.value++;
      loaded.partial.value = loaded.list.cursor !== "";
    });
  }

  /** How much of the series is listed; null where all is. */
  part(): Part | null {
    const lists = this.#partial().map((id) => {
      const { found, list, shape, detail } = this.#runs.get(id)!;
      shape.value;
      return { list: found.value ?? list, of: detail.value?.seriesCount ?? 0 };
    });
    const open = lists.filter(({ list }) => list.cursor);
    if (open.length === 0) return null;
    return {
      found: open.some(({ list }) => list.wanted),
      listed: open.reduce((n, { list }) => n + list.known.size, 0),
      of: open.reduce((n, { of }) => n + of, 0),
      sections: new Set(open.map(({ list }) => list.last)),
    };
  }

  /** Charts that are shown wherever the list of their run has come to. */
  want(metrics: readonly string[]): void {
    if (metrics.join("\n") !== this.#wanted.peek().join("\n")) this.#wanted.value = metrics;
  }

  #readBeside(): void {
    const metrics = this.#wanted.value;
    for (const id of this.#partial()) {
      const loaded = this.#runs.get(id)!;
      const fresh = metrics.filter((m) => !loaded.beside.has(m));
      if (fresh.length === 0) continue;
      for (const m of fresh) loaded.beside.add(m);
      this.#addAll(id, loaded, { q: [exactly(fresh)] }).catch(() => {
        for (const m of fresh) loaded.beside.delete(m);
      });
    }
  }

  async #addAll(id: string, loaded: Loaded, query: api.SeriesQuery): Promise<void> {
    let cursor = "";
    do {
      const page = await api.series(id, { ...query, limit: nextPage, cursor }, loaded.abort.signal);
      cursor = page.next;
      if (loaded.list.add(page.items)) this.#publish(() => loaded.shape.value++);
    } while (cursor);
  }

  /** Shows these runs, the page's own first. */
  show(ids: string[]): void {
    if (ids.join() === this.#shown.peek().join()) return;
    for (const id of ids) if (!this.#runs.has(id)) this.#runs.set(id, loading());
    const fresh = ids.filter((id) => !this.#runs.get(id)!.begun);
    this.#shown.value = ids;
    if (this.#crowd && ids.length > previewRuns) this.#addCrowd(fresh);
    else for (const id of fresh) this.#load(id, this.#runs.get(id)!);
    for (const asked = this.#asked.splice(0); asked.length > 0; ) this.#loadMany(asked.splice(0, runsAtOnce));
    this.#listen();
    document.removeEventListener("visibilitychange", this.#flushSoon);
    document.addEventListener("visibilitychange", this.#flushSoon);
  }

  /** A run that the server does not have would end the stream of all others, in every tab. */
  #listen(): void {
    const ids = this.#shown.peek().filter((id) => !isMissing(this.#runs.get(id)!));
    this.#unlisten?.();
    this.#unlisten = live.listen(
      ids.map((id) => `run=${id}`),
      (e) => this.#heard(e),
    );
  }

  #addCrowd(ids: string[]): void {
    for (const id of ids) {
      const loaded = this.#runs.get(id)!;
      loaded.begun = true;
      loaded.some = true;
    }
    void this.#crowd!.add(ids);
  }

  #sink(): ConstructorParameters<typeof Crowd>[2] {
    return {
      shown: () => this.#shown.peek().filter((id) => this.#runs.get(id)!.some),
      visible: () => this.#visible.keys(),
      loaded: (id, detail, series) => {
        const loaded = this.#runs.get(id)!;
        if (detail) this.#loaded(id, loaded, detail);
        if (loaded.list.add(series)) this.#publish(() => loaded.shape.value++);
        loaded.complete.value = true;
      },
      failed: (id, cause) => this.#failed(this.#runs.get(id)!)(cause),
      dropped: (metrics) => {
        for (const loaded of this.#runs.values()) loaded.list.keep((_, s) => !metrics.has(s.metric));
      },
      publish: (change) => this.#publish(change),
    };
  }

  /** The runs have more metrics than the server names at once. */
  metricsCut(): boolean {
    return this.#crowd?.cut.value ?? false;
  }

  close(): void {
    for (const end of this.#ended) end();
    this.#unlisten?.();
    document.removeEventListener("visibilitychange", this.#flushSoon);
    if (this.#timer) clearTimeout(this.#timer);
    this.#abort.abort();
    for (const loaded of this.#runs.values()) loaded.abort.abort();
  }

  #listed(found = false): Listed[] {
    return this.#shown.peek().map((id) => {
      const loaded = this.#runs.get(id)!;
      return [id, ((found && loaded.found.peek()) || loaded.list).known];
    });
  }

  detail(id: string): RunDetail | null {
    return this.#runs.get(id)?.detail.value ?? null;
  }

  error(id: string): ApiError | null {
    return this.#runs.get(id)?.error.value ?? null;
  }

  /** Every page of the series of all shown runs has come, but for runs that cannot be read. */
  complete(): boolean {
    if (this.searching.value) return false;
    return this.#shown.value.every((id) => this.#runs.get(id)?.listed.value || this.error(id));
  }

  /** The runs that are shown and cannot be read. */
  failed(): string[] {
    return this.#shown.value.filter((id) => this.error(id));
  }

  /** The series of a run whose points are documents: histograms and scatters. */
  documents(id: string): Series[] {
    const loaded = this.#runs.get(id);
    if (!loaded) return [];
    loaded.shape.value;
    if (loaded.partial.value && !loaded.documents) {
      loaded.documents = true;
      this.#addAll(id, loaded, { kind: ["histogram", "scatter"] }).catch(() => {
        loaded.documents = false;
      });
    }
    const all = [...loaded.list.known.values()].map((k) => k.series).filter(isDocument);
    return showInherited.value ? all : all.filter(isOwn);
  }

  /** Subscribes to the counts and last values of a run's series. */
  tick(run: string): number {
    return this.#runs.get(run)?.tick.value ?? 0;
  }

  /** A card shows a metric until the returned function is called. */
  watch(metric: string): () => void {
    this.#visible.set(metric, (this.#visible.get(metric) ?? 0) + 1);
    this.#crowd?.soon();
    return () => {
      const left = (this.#visible.get(metric) ?? 1) - 1;
      if (left > 0) this.#visible.set(metric, left);
      else this.#visible.delete(metric);
    };
  }

  async reload(id: string): Promise<void> {
    const loaded = this.#runs.get(id)!;
    loaded.detail.value = await api.run(id, loaded.abort.signal);
  }

  #load(id: string, loaded: Loaded): void {
    loaded.begun = true;
    if (id !== this.#own()) {
      this.#asked.push(id);
      return;
    }
    // The page's own run draws its first charts as soon as its series are there.
    const failed = this.#failed(loaded);
    this.#pool.run(() =>
      Promise.all([
        api.run(id, loaded.abort.signal).then((detail) => this.#loaded(id, loaded, detail), failed),
        this.#listAnew(id, loaded).catch(failed),
      ]),
    );
  }

  /** Loads runs that are drawn over the page's own, all of them with one request. */
  async #loadMany(ids: string[]): Promise<void> {
    const runs = ids.map((id) => this.#runs.get(id)!);
    const page = { ...this.#firstPage(ids[0]!), summary: false }; // the list of series has the last values
    const answers = await this.#pool.run(() =>
      api.overviews(ids, page, this.#abort.signal).then(
        ({ list }) => list,
        (cause) => ids.map(() => asApiError(cause)),
      ),
    );
    for (const [i, loaded] of runs.entries()) {
      const [id, answer, failed] = [ids[i]!, answers[i]!, this.#failed(loaded)];
      if (answer instanceof ApiError) failed(answer);
      else {
        this.#loaded(id, loaded, { ...answer.detail!, summary: lastsOf(answer.series.items) });
        this.#list(id, loaded, answer.series).catch(failed);
      }
    }
  }

  #failed(loaded: Loaded): (cause: unknown) => void {
    return (cause) => {
      if (loaded.abort.signal.aborted) return;
      loaded.error.value = asApiError(cause);
      if (isMissing(loaded)) this.#listen();
    };
  }

  #loaded(id: string, loaded: Loaded, detail: RunDetail): void {
    loaded.named ||= detail.seriesCount;
    this.#publish(() => {
      loaded.detail.value = detail;
    });
    if ([...loaded.heard.keys()].some((run) => inherits(detail, run))) this.#renew(id, loaded);
  }

  /** The first page comes with preview lines; the names after it are many and come without. */
  async #list(id: string, loaded: Loaded, first: Page<Series>): Promise<void> {
    const { list } = loaded;
    // A list that somebody scrolled in is as long when it is read again.
    const most = Math.max(mostListed / this.#shown.peek().length, list.cursor ? list.known.size : 0);
    const gone = new Set(list.known.keys());
    list.begin();
    let page = first;
    let published = 0;
    for (let read = 0; ; ) {
      read += page.items.length;
      const added = list.take(page, read >= most);
      if (page.items.length === nextPage) this.#cards.take(this.#listed()); // before it is published, not all at once
      for (const s of page.items) gone.delete(seriesKey(s));
      const ends = !page.next || (read >= most && added);
      // Laying out many cards takes a while: they are shown each time their number has doubled.
      if (added && (ends || list.known.size >= 2 * published)) {
        published = list.known.size;
        this.#publish(() => {
          loaded.shape.value++;
        });
      }
      this.#cut(loaded, ends, most);
      if (ends) break;
      page = await api.series(id, { limit: nextPage, cursor: page.next }, loaded.abort.signal);
    }
    // Of an ancestor that cannot be read any more.
    if (gone.size)
      list.keep(
        (key, s) => !gone.has(key) || loaded.beside.has(s.metric) || (!!list.cursor && isDocument(s)),
      );
    if (published !== list.known.size)
      this.#publish(() => {
        loaded.shape.value++;
      });
    loaded.complete.value = true;
    this.#publish(() => {
      loaded.listed.value = true;
    });
    if (!loaded.missed) return;
    loaded.missed = false;
    await this.#listAnew(id, loaded);
    loaded.tick.value++;
  }

  /** Whether a list is read as far as somebody scrolls, which a search need not wait for. */
  #cut(loaded: Loaded, ends: boolean, most: number): void {
    const long = ends || (loaded.detail.peek()?.seriesCount ?? 0) > most;
    loaded.partial.value = long && loaded.list.cursor !== "";
  }

  async #listAnew(id: string, loaded: Loaded): Promise<void> {
    loaded.reading = true;
    const began = Date.now();
    try {
      await this.#list(id, loaded, await api.series(id, this.#firstPage(id), loaded.abort.signal));
    } finally {
      loaded.reading = false;
      loaded.againAtMs = Date.now() + 20 * (Date.now() - began);
    }
  }

  /** The page's own run. */
  #own(): string | undefined {
    return this.#runs.keys().next().value;
  }

  #firstPage(id: string): { limit: number; preview: number } {
    const crowd = this.#own() === id ? crowdPreview : 0;
    const preview = this.#runs.size <= previewRuns ? previewBuckets : crowd;
    return { limit: preview ? firstPage : crowdPage, preview };
  }

  /** The first run is shown at once; of many that arrive together, a few at a time. */
  #publish(change: () => void): void {
    if (this.cards.peek().length === 0) {
      change();
      return;
    }
    if (this.#unpublished.length === 0)
      setTimeout(() => {
        const all = this.#unpublished.splice(0);
        together(() => {
          for (const one of all) one();
        });
      }, publishMs);
    this.#unpublished.push(change);
  }

  #heard(event: LiveEvent | "reset"): void {
    for (const id of this.#shown.peek())
      if (this.#concerns(event, id, this.#runs.get(id)!)) this.#dirty.add(id);
    this.#flushSoon();
  }

  /** Whether an event is of a run, or of one that it inherits from; notes what it says. */
  #concerns(event: LiveEvent | "reset", id: string, loaded: Loaded): boolean {
    const detail = loaded.detail.peek();
    if (event === "reset") {
      loaded.stale ||= !!detail?.lineage.ancestors.length;
      return true;
    }
    if (event.run === id) {
      if (detail)
        loaded.detail.value = {
          ...detail,
          status: event.status,
          last_ns: event.last_ns,
          seriesCount: event.series,
        };
      return true;
    }
    if (detail && !inherits(detail, event.run)) return false;
    if (detail && loaded.heard.get(event.run) !== event.series) loaded.stale = true;
    loaded.heard.set(event.run, event.series);
    return !!detail;
  }

  /** Nothing is read for a tab that nobody sees; it catches up when it is shown. */
  readonly #flushSoon = (): void => {
    if (document.hidden || this.#timer || this.#dirty.size === 0) return;
    const ids = [...this.#dirty];
    this.#dirty.clear();
    const many: string[] = [];
    for (const id of ids) {
      const loaded = this.#runs.get(id);
      if (loaded?.some && loaded.complete.peek()) many.push(id);
      else if (loaded) this.#refresh(id, loaded).catch(() => {}); // what is lost here is made good by the next event
    }
    this.#refreshMany(many);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#flushSoon();
    }, tickMs);
  };

  async #refresh(id: string, loaded: Loaded): Promise<void> {
    if (!loaded.complete.peek()) {
      loaded.missed = true;
      return;
    }
    const detail = loaded.detail.peek();
    const known = detail?.seriesCount ?? 0; // those of the run itself
    if (Date.now() - loaded.detailAtMs > pauseOf(loaded)) this.#detail(id, loaded);
    if (!loaded.reading && hasMore(loaded, known)) {
      loaded.stale = false;
      loaded.named = known;
      await this.#listAnew(id, loaded).catch((cause) => {
        loaded.stale = true;
        throw cause;
      });
      this.#round.value++;
    } else await this.#lasts(id, loaded);
    loaded.tick.value++;
  }

  /** Runs of a crowd: names of new metrics, last values of what is in view, and details that are due. */
  #refreshMany(ids: string[]): void {
    const grown = ids.filter((id) => {
      const loaded = this.#runs.get(id)!;
      const known = loaded.detail.peek()?.seriesCount ?? 0;
      const more = known > loaded.named;
      if (more) loaded.named = known;
      return more;
    });
    if (grown.length) void this.#crowd?.name(grown);
    const isDue = (id: string) => {
      const loaded = this.#runs.get(id)!;
      return Date.now() - loaded.detailAtMs > pauseOf(loaded);
    };
    const due = new Set(ids.filter(isDue));
    this.#look([...due], this.#lastsQuery(), true);
    this.#look(
      ids.filter((id) => !due.has(id)),
      this.#lastsQuery(),
      false,
    );
    if (due.size === 0) return;
    // As of one run: the last event of a burst must not leave old details.
    const pause = Math.max(...[...due].map((id) => pauseOf(this.#runs.get(id)!)));
    setTimeout(() => {
      if (!this.#abort.signal.aborted && !document.hidden) this.#look([...due], null, true);
    }, pause);
  }

  /** Reads many runs with one request: their series of a query, and their details. */
  #look(ids: string[], q: string | null, detail: boolean): void {
    if (!q && !detail) return;
    for (let at = 0; at < ids.length; at += looksAtOnce) {
      const some = ids.slice(at, at + looksAtOnce);
      const began = Date.now();
      if (detail) for (const id of some) this.#runs.get(id)!.detailAtMs = began;
      const query = { q: q ?? "^$", limit: q ? nextPage : 1, preview: 0, summary: false, detail };
      const takeAll = ({ list }: api.Overviews) =>
        list.forEach((answer, i) => {
          const [id, loaded] = [some[i]!, this.#runs.get(some[i]!)!];
          if (answer instanceof ApiError) return;
          loaded.detailTookMs = Date.now() - began;
          if (answer.detail) this.#setDetail(id, loaded, answer.detail);
          take(loaded, answer.series.items);
          loaded.tick.value++;
        });
      this.#pool
        .run(() => api.overviews(some, query, this.#abort.signal))
        .then((answer) => together(() => takeAll(answer)))
        .catch(() => {}); // asked again with the next event
    }
  }

  #setDetail(id: string, loaded: Loaded, detail: RunDetail): void {
    const before = loaded.detail.peek();
    loaded.detail.value = detail;
    if (before && lineOf(before) !== lineOf(detail)) this.#renew(id, loaded); // its parent came, or went to the trash
  }

  #renew(id: string, loaded: Loaded): void {
    loaded.stale = true;
    this.#dirty.add(id);
    this.#flushSoon();
  }

  #detail(id: string, loaded: Loaded): void {
    loaded.detailAtMs = Date.now();
    const ask = () =>
      api
        .run(id, loaded.abort.signal)
        .then((detail) => this.#setDetail(id, loaded, detail))
        .finally(() => {
          loaded.detailTookMs = Date.now() - loaded.detailAtMs;
        })
        .catch(() => {}); // asked again with the next event
    ask();
    // The last event of a burst must not leave a ledger that is two seconds old.
    setTimeout(() => {
      if (loaded.abort.signal.aborted || document.hidden) return;
      loaded.detailAtMs = Date.now();
      ask();
    }, pauseOf(loaded));
  }

  /** The metrics in view; null where none is. */
  #lastsQuery(): string | null {
    const metrics = [...this.#visible.keys()].slice(0, lastCount);
    return metrics.length ? exactly(metrics) : null;
  }

  async #lasts(id: string, loaded: Loaded): Promise<void> {
    const q = this.#lastsQuery();
    if (!q) return;
    const { items } = await api.series(id, { q: [q], limit: nextPage }, loaded.abort.signal);
    take(loaded, items);
  }
}

/** An expression for these metrics. */
const exactly = (metrics: readonly string[]): string => `^(${metrics.map(escapeRegex).join("|")})$`;

type Placed = Card & { order: string };

/** The cards of all named metrics, those that are not known without members. */
function withNamed(
  known: Card[],
  names: ReadonlyMap<string, Named>,
  places: Map<string, Placed>,
  done: ReadonlySet<string>,
): Card[] {
  if (places.size !== names.size) {
    for (const [key, { metric, scale }] of names)
      if (!places.has(key)) {
        const group = prefixId(groupOf(metric));
        places.set(key, { ...{ key, metric, scale, group, members: [] }, order: orderOf(group, key) });
      }
    const sorted = [...places].sort(([, a], [, b]) => byOrder(a, b));
    places.clear();
    for (const [key, card] of sorted) places.set(key, card);
  }
  const by = new Map(known.map((c) => [c.key, c]));
  const out: Card[] = [];
  for (const [key, card] of places) {
    const shown = by.get(key) ?? (done.has(card.metric) ? undefined : card);
    if (shown) out.push(shown);
  }
  const unnamed = known.filter((c) => !places.has(c.key));
  return unnamed.length ? [...out, ...unnamed] : out;
}

/** The cards without series of which a run has nothing itself. */
function ownCards(cards: Card[]): Card[] {
  return cards
    .map((card) => ({
      ...card,
      members: card.members.filter((m) => isOwn(m.series)),
    }))
    .filter((card) => card.members.length > 0);
}
