import { type Signal, signal } from "@preact/signals";
import * as api from "../api/client.ts";
import { type ApiError, asApiError } from "../api/client.ts";
import type { BucketQuery, LiveEvent, Run, Series } from "../api/types.ts";
import type { PanelSpec, ViewDocument } from "../api/view.ts";
import {
  type Found,
  idOf,
  isNumber,
  matcher,
  nearest,
  type Span,
  spanOf,
  type Totals,
  takesLabels,
  takesRun,
  totalsOf,
} from "../chart/panel.ts";
import { batch, live } from "./app.ts";
import { Pool } from "./turn.ts";

const mostRuns = 1000; // whose series are read
const mostSeries = 50_000;
const page = 5000;
const loadsAtOnce = 4; // a browser has six connections a server, and one streams events
const renewMs = 2000;
const slideMs = 60_000; // a range that ends now is asked for again so often, also where nothing is logged
const grainMs = 10_000; // it begins and ends on such times, so that panels ask the same and answers are kept
const together = 150; // series whose totals one request asks for
const lookedAt = 5; // runs whose names are compared with one that is not there

/** Panels is what a page of panels knows: the runs and series that any panel of its document takes. */
export class Panels {
  readonly found: Signal<Found[]> = signal([]);
  readonly loading = signal(true);
  readonly error: Signal<ApiError | null> = signal(null);
  /** What was left out, and why. */
  readonly cut = signal("");
  /** The range of time that is shown; undefined: all. */
  readonly span: Signal<Span | undefined> = signal(undefined);
  #last = "";
  readonly #slider: ReturnType<typeof setInterval>;
  readonly #workspace: string;
  readonly #project: string;
  readonly #document: ViewDocument;
  readonly #abort = new AbortController();
  readonly #pool = new Pool(loadsAtOnce);
  readonly #series = new Map<string, Found[]>();
  readonly #dirty = new Set<string>();
  #runs: Run[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #unlisten: () => void;

  constructor(workspace: string, project: string, document: ViewDocument) {
    this.#workspace = workspace;
    this.#project = project;
    this.#document = document;
    this.#unlisten = live.listen([`project=${workspace}/${project}`], (e) => this.#heard(e));
    this.#slider = setInterval(() => this.#slide(), slideMs);
    void this.#load(true);
  }

  /** Shows the last 24h, or another range; "" for all. */
  look(last: string): void {
    this.#last = last;
    this.#slide();
  }

  #slide(): void {
    const ms = spanOf(this.#last);
    const now = Math.ceil(Date.now() / grainMs) * grainMs;
    const next = ms === undefined ? undefined : { from: (now - ms) * 1e6, to: now * 1e6 };
    if (next?.from !== this.span.value?.from) this.span.value = next;
  }

  close(): void {
    clearInterval(this.#slider);
    this.#abort.abort();
    this.#unlisten();
    clearTimeout(this.#timer);
  }

  async #load(all: boolean): Promise<void> {
    try {
      if (all) await this.#listRuns();
      const ids = all ? this.#runs.map((r) => r.id) : [...this.#dirty];
      this.#dirty.clear();
      const known = new Map(this.#runs.map((r) => [r.id, r]));
      const lists = ids.flatMap((id) => known.get(id) ?? []);
      await Promise.all(lists.map((run) => this.#pool.run(() => this.#listSeries(run))));
      this.error.value = null;
      this.#slide();
      this.found.value = this.#kept();
    } catch (cause) {
      if (this.#abort.signal.aborted) return;
      this.error.value = asApiError(cause);
    }
    if (!this.#abort.signal.aborted) this.loading.value = false;
  }

  async #listRuns(): Promise<void> {
    const taken: Run[] = [];
    let cursor = "";
    let left = 0;
    do {
      const list = await api.runs(
        this.#workspace,
        this.#project,
        { limit: page / 5, cursor },
        this.#abort.signal,
      );
      for (const run of list.items) {
        if (!this.#document.panels!.some((p) => takesRun(p, run))) continue;
        if (taken.length < mostRuns) taken.push(run);
        else left++;
      }
      cursor = list.next;
    } while (cursor);
    this.#runs = taken;
    this.cut.value = left ? `${mostRuns} of ${mostRuns + left} runs are shown: those that began last.` : "";
  }

  async #listSeries(run: Run): Promise<void> {
    const patterns = new Set<string>();
    for (const panel of this.#document.panels!)
      if (takesRun(panel, run))
        for (const metric of panel.query.metrics) patterns.add(matcher(metric).source);
    const found: Found[] = [];
    for (let cursor = ""; ; ) {
      const q = [...patterns].map((p) => `(?:${p})`).join("|");
      const list = await api.series(run.id, { q, limit: page, cursor }, this.#abort.signal);
      found.push(...list.items.map((series) => ({ run, series })));
      if (!list.next || found.length >= mostSeries) break;
      cursor = list.next;
    }
    this.#series.set(run.id, found);
  }

  #kept(): Found[] {
    const all = this.#runs.flatMap((run) => this.#series.get(run.id) ?? []);
    if (all.length <= mostSeries) return all;
    this.cut.value = `The first ${mostSeries} of ${all.length} series are shown.`;
    return all.slice(0, mostSeries);
  }

  /** What was logged since is read in one go, every two seconds at most. */
  #heard(event: LiveEvent | "reset"): void {
    const all = event === "reset" || !this.#runs.some((r) => r.id === event.run);
    if (event !== "reset") this.#dirty.add(event.run);
    if (all) this.#dirty.add("");
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#load(this.#dirty.delete(""));
    }, renewMs);
  }

  /** Why a panel has nothing to show. */
  async why(panel: PanelSpec): Promise<string> {
    const runs = this.#runs.filter((run) => takesRun(panel, run));
    if (runs.length === 0) return this.#noRun(panel);
    const few = runs.slice(0, lookedAt);
    const lists = await Promise.all(
      few.map((run) => api.series(run.id, { limit: page / 5 }, this.#abort.signal)),
    );
    return whyEmpty(
      panel,
      lists.flatMap((list) => list.items),
      runs.length,
    );
  }

  #noRun({ query }: PanelSpec): string {
    const tags = query.tags?.length ? ` with the tags ${query.tags.map(quoted).join(", ")}` : "";
    return `No data: the project has no run named ${quoted(query.runs || "**")}${tags}.`;
  }

  /** Totals of some series, by idOf; a request is for some of them, and few are on their way at once. */
  async totals(found: Found[], abort: AbortSignal, span?: Span): Promise<Map<string, Totals>> {
    const out = new Map<string, Totals>();
    const some = async (part: Found[]) => {
      const asked = part.map((f) => batch.fetch({ ...totalsQuery(f), ...span }, f.series.count, abort));
      (await Promise.all(asked)).forEach((result, i) => {
        if (!("error" in result)) out.set(idOf(part[i]!), totalsOf(result.columns));
      });
    };
    const parts: Promise<void>[] = [];
    for (let i = 0; i < found.length; i += together)
      parts.push(
        this.#pool.run(async () => (abort.aborted ? undefined : some(found.slice(i, i + together)))),
      );
    await Promise.all(parts);
    return out;
  }
}

function totalsQuery({ run, series }: Found): BucketQuery {
  const { metric, scale, labels } = series;
  const query = { run: run.id, metric, scale, labels, x: "time_ns", n: 1 };
  return series.inherited ? { ...query, include_inherited: true } : query;
}

const quoted = (text: string) => `“${text}”`;

const did = (names: string[]) => (names.length ? ` Did you mean ${names.map(quoted).join(" or ")}?` : "");

/** Why a panel takes none of the series that some of its runs have. */
export function whyEmpty(panel: PanelSpec, series: Series[], runs: number): string {
  const metrics = panel.query.metrics.map(matcher);
  const named = series.filter((s) => metrics.some((m) => m.test(s.metric)));
  const of = runs === 1 ? "its run" : `its ${runs} runs`;
  if (named.length === 0) {
    const names = series.map((s) => s.metric);
    const near = panel.query.metrics.flatMap((m) => nearest(m, names));
    return `No data: there is no series named ${panel.query.metrics.map(quoted).join(" or ")} in ${of}.${did(near)}`;
  }
  if (!named.some(isNumber))
    return `No data: ${quoted(named[0]!.metric)} is ${named[0]!.kind}, and panels draw numbers.`;
  return (
    labelsMiss(panel, named) ?? `No data: the series named ${quoted(named[0]!.metric)} have no points yet.`
  );
}

function labelsMiss(panel: PanelSpec, named: Series[]): string | undefined {
  for (const [label, pattern] of Object.entries(panel.query.labels ?? {})) {
    const one = { ...panel, query: { ...panel.query, labels: { [label]: pattern } } };
    if (named.some((s) => takesLabels(one, s.labels))) continue;
    const values = [...new Set(named.flatMap((s) => s.labels[label] ?? []))].slice(0, 5);
    const there = values.length ? `it has ${values.map(quoted).join(", ")}` : "no series has this label";
    return `No data: no series has the label ${label} = ${quoted(pattern)}; ${there}.`;
  }
  return undefined;
}
