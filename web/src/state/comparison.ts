import { signal } from "@preact/signals";
import * as api from "../api/client.ts";
import { ApiError, asApiError } from "../api/client.ts";
import type { Run } from "../api/types.ts";
import { live } from "./app.ts";
import { type ListQuery, serverQuery } from "./runlist.ts";

const pageSize = 500;
const atOnce = 100; // runs whose absence one request explains
const pauseMs = 5000; // between two looks at runs that train
const mostRuns = 5000; // compared; the page says when a project has more

/** Missing says why chosen runs are not compared. */
export interface Missing {
  /** The filter leaves them out. */
  filtered: number;
  /** They are of another project. */
  elsewhere: number;
  /** They cannot be read. */
  failed: ApiError[];
}

const noneMissing: Missing = { filtered: 0, elsewhere: 0, failed: [] };

/** Comparison is the runs that a page compares: those that were chosen, or all that a filter finds. */
export class Comparison {
  readonly runs = signal<Run[]>([]);
  readonly complete = signal(false);
  /** The project has more runs than are compared. */
  readonly more = signal(false);
  readonly error = signal<ApiError | null>(null);
  /** What the filter of an empty list may have meant, "" where there is nothing to say. */
  readonly hint = signal("");
  /** The chosen runs that are not among them. */
  readonly missing = signal<Missing>(noneMissing);
  readonly #workspace: string;
  readonly #project: string;
  #abort = new AbortController();
  #again: () => void = () => {};
  #timer: ReturnType<typeof setTimeout> | null = null;
  #tookMs = 0;
  readonly #unlisten: () => void;

  constructor(workspace: string, project: string) {
    this.#workspace = workspace;
    this.#project = project;
    this.#unlisten = live.listen([`project=${workspace}/${project}`], () => this.#news());
  }

  close(): void {
    this.#abort.abort();
    this.#unlisten();
    if (this.#timer) clearTimeout(this.#timer);
  }

  /** Runs that train are read again now and then: reading takes at most a twentieth of the time. */
  #news(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = null;
        if (document.hidden) this.#news();
        else this.#again();
      },
      Math.max(pauseMs, 20 * this.#tookMs),
    );
  }

  /** Reads the runs of a filter; with ids only these. What is shown stays until the answer is there. */
  async ask(ids: ReadonlySet<string>, query: ListQuery): Promise<void> {
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#again = () => void this.ask(ids, query);
    const begun = performance.now();
    try {
      await this.#read(ids, serverQuery({ ...query, archived: query.archived || ids.size > 0 }), signal);
      this.#tookMs = performance.now() - begun;
      if (!signal.aborted) this.error.value = null;
      await this.#explain(ids, query, signal);
    } catch (cause) {
      if (signal.aborted) return;
      this.error.value = asApiError(cause);
    }
    if (!signal.aborted) this.complete.value = true;
  }

  /** Says of the chosen runs that were not found why: the filter, or what the server says of each. */
  async #explain(ids: ReadonlySet<string>, { q, status }: ListQuery, abort: AbortSignal): Promise<void> {
    if (abort.aborted) return;
    const found = new Set(this.runs.peek().map((r) => r.id));
    const lost = [...ids].filter((id) => !found.has(id));
    const missing: Missing = { filtered: 0, elsewhere: 0, failed: [] };
    for (let at = 0; at < lost.length; at += atOnce) {
      const query = { q: "^$", limit: 1, preview: 0, detail: false };
      const { list } = await api.overviews(lost.slice(at, at + atOnce), query, abort);
      if (abort.aborted) return;
      for (const answer of list)
        if (answer instanceof ApiError) missing.failed.push(answer);
        else if (q || status) missing.filtered++;
        else missing.elsewhere++;
    }
    this.missing.value = missing;
  }

  async #read(ids: ReadonlySet<string>, asked: api.RunsQuery, abort: AbortSignal): Promise<void> {
    const found: Run[] = [];
    let hint = "";
    const most = ids.size || mostRuns;
    let cursor = "";
    do {
      const query = { ...asked, limit: pageSize, cursor };
      const page = await api.runs(this.#workspace, this.#project, query, abort);
      if (abort.aborted) return;
      hint ||= page.hint;
      found.push(...(ids.size ? page.items.filter((r) => ids.has(r.id)) : page.items));
      cursor = page.next;
      // The first page is enough to begin with; the others come at once, since all is computed anew with each.
      if (cursor && this.runs.peek().length === 0 && !ids.size) this.runs.value = [...found];
    } while (cursor && found.length < most);
    this.more.value = !ids.size && cursor !== "";
    this.hint.value = hint;
    this.runs.value = found;
  }
}
