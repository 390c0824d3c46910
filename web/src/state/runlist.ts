import { signal } from "@preact/signals";
import * as api from "../api/client.ts";
import { ApiError, asApiError } from "../api/client.ts";
import type { LiveEvent, Run } from "../api/types.ts";
import { type Cut, cellOf, type Named, serverColumn } from "./columns.ts";
import type { Known } from "./complete.ts";

const pageSize = 500;

export interface ListQuery {
  q: string;
  status: string;
  sort: string;
  /** The trash instead. */
  deleted?: boolean;
  /** Archived runs, too. */
  archived?: boolean;
  /** Of a group only: RunGroup.member. */
  group?: string;
  /** Columns whose values a list does not bring by itself. */
  columns?: string[];
}

/** The tag of runs that the list leaves out. */
export const archiveTag = "archived";
const namesArchived = /\btag\s*!?=\s*"?archived"?(?![^\s)])/;

/** What the server is asked: archived runs come when they are asked for. */
export function serverQuery({
  q,
  status,
  sort,
  deleted,
  archived,
  group,
  columns,
}: ListQuery): api.RunsQuery {
  const hidden = `not tag=${archiveTag}`;
  const line = archived || deleted || namesArchived.test(q) ? q : q.trim() ? `${hidden} (${q})` : hidden;
  return { q: line, status, sort: serverSort(sort), group, column: columns, ...(deleted && { deleted: 1 }) };
}

/** A column's order as the server names it. */
function serverSort(sort: string): string {
  const [sign, column] = sort.startsWith("-") ? ["-", sort.slice(1)] : ["", sort];
  return sign + (serverColumn(column) || column);
}

/** RunList is the runs of a project, read page by page as far as somebody has looked. */
export class RunList {
  readonly runs = signal<Run[]>([]);
  readonly next = signal<string | null>(null);
  readonly loading = signal(false);
  /** Some run has more than a list says of it. */
  readonly cut = signal<Cut>({ config: false, summary: false });
  readonly error = signal<ApiError | null>(null);
  /** What the filter of an empty list may have meant, "" where there is nothing to say. */
  readonly hint = signal("");
  readonly #workspace: string;
  readonly #project: string;
  #query: ListQuery = { q: "", status: "", sort: "" };
  #abort = new AbortController();
  #target = 0;
  #tookMs = 0;

  constructor(workspace: string, project: string) {
    this.#workspace = workspace;
    this.#project = project;
  }

  /** Starts again with another question. What is shown stays until the answer is there. */
  ask(query: ListQuery): void {
    this.#query = query;
    this.#abort.abort();
    this.#abort = new AbortController();
    this.next.value = null;
    this.loading.value = false;
    this.#target = 1;
    void this.#read("");
  }

  close(): void {
    this.#abort.abort();
  }

  /** Reads on until row `upTo` is there. */
  reach(upTo: number): void {
    this.#target = Math.max(this.#target, upTo);
    if (!this.loading.value && this.next.value && this.runs.value.length < this.#target)
      void this.#read(this.next.value);
  }

  /** All runs of the list, read to its end; none where that fails, never those of an earlier question. */
  async all(): Promise<Run[]> {
    while (!this.#abort.signal.aborted && (this.loading.value || this.next.value)) {
      if (this.loading.value) await new Promise((done) => setTimeout(done, 20));
      else await this.#read(this.next.value!);
    }
    return this.error.value || this.#abort.signal.aborted ? [] : this.runs.value;
  }

  async #read(cursor: string): Promise<void> {
    const abort = this.#abort;
    this.loading.value = true;
    try {
      const query = { ...serverQuery(this.#query), limit: pageSize, cursor };
      const page = await api.runs(this.#workspace, this.#project, query, abort.signal);
      if (abort.signal.aborted) return;
      this.#noteCut(page.items);
      this.runs.value = cursor ? [...this.runs.value, ...page.items] : page.items;
      this.next.value = page.next;
      if (!cursor) this.hint.value = page.hint;
      this.error.value = null;
    } catch (cause) {
      if (abort.signal.aborted) return;
      if (cause instanceof ApiError && cause.column && !this.#query.archived) {
        // The place is one of the reader's own line.
        this.#query = { ...this.#query, archived: true };
        return this.#read(cursor);
      }
      this.error.value = asApiError(cause);
      this.next.value = null;
    }
    this.loading.value = false;
    this.reach(this.#target);
  }

  #noteCut(runs: readonly Run[]): void {
    const before = this.cut.peek();
    const config = before.config || runs.some((r) => r.config_cut);
    const summary = before.summary || runs.some((r) => r.summary_cut);
    if (config !== before.config || summary !== before.summary) this.cut.value = { config, summary };
  }

  /** A run that is shown changed its status; an unknown one is new. */
  heard(event: LiveEvent | "reset"): boolean {
    if (event === "reset") return false;
    const at = this.runs.value.findIndex((r) => r.id === event.run);
    if (at < 0) return false;
    const runs = this.runs.value.slice();
    const run = runs[at]!;
    runs[at] = {
      ...run,
      status: event.status,
      last_ns: event.last_ns,
      duration_ms: Math.max(0, (event.last_ns - run.created_ns) / 1e6),
    };
    this.runs.value = runs;
    return true;
  }

  /** The least pause before the next look: the looks take at most a twentieth of the time. */
  get pauseMs(): number {
    return 20 * this.#tookMs;
  }

  /** Reads the first page again and puts it over what is shown, without losing the place. */
  async refresh(): Promise<void> {
    const query = { ...serverQuery(this.#query), limit: pageSize };
    const began = Date.now();
    const page = await api.runs(this.#workspace, this.#project, query, this.#abort.signal);
    this.#tookMs = Date.now() - began;
    const fresh = new Set(page.items.map((r) => r.id));
    const rest = this.runs.value.slice(page.items.length ? pageSize : 0).filter((r) => !fresh.has(r.id));
    this.runs.value = [...page.items, ...rest];
  }
}

/** All columns that some run has, those first whose values differ between runs. */
export function columnsOf(runs: readonly Run[]): Named[] {
  const seen = new Map<string, { first: string; varies: boolean; runs: number }>();
  const note = (name: string, value: unknown) => {
    const text = String(value);
    const known = seen.get(name);
    if (!known) seen.set(name, { first: text, varies: false, runs: 1 });
    else {
      known.runs++;
      if (known.first !== text) known.varies = true;
    }
  };
  const some = runs.length > 2000 ? runs.slice(0, 2000) : runs;
  for (const run of some) {
    for (const [k, v] of Object.entries(run.config)) note(k.startsWith("config/") ? k : `config/${k}`, v);
    for (const [k, s] of Object.entries(run.summary)) note(`summary/${k}`, s.value);
  }
  return [...seen]
    .map(([name, s]) => ({ name, varies: s.varies || s.runs < some.length }))
    .sort((a, b) => Number(b.varies) - Number(a.varies) || a.name.localeCompare(b.name));
}

const shownConfig = 4;
const shownSummary = 4;
const telling = /(^|[/_])(acc|accuracy|return|reward|score|f1|loss)/i;

/** The columns of a table that nobody has chosen columns for: what differs, and the metrics that tell runs apart. */
export function defaultColumns(all: readonly Named[]): string[] {
  const config = all.filter((c) => c.name.startsWith("config/") && c.varies).slice(0, shownConfig);
  const summary = all.filter((c) => c.name.startsWith("summary/"));
  const rank = (name: string) => (telling.test(name) ? 0 : 2) + (/(eval|val|test)/i.test(name) ? 0 : 1);
  summary.sort((a, b) => rank(a.name) - rank(b.name) || a.name.localeCompare(b.name));
  return [...config, ...summary.slice(0, shownSummary)].map((c) => c.name);
}

/** What completion knows of the runs that were read. */
export function knownOf(runs: readonly Run[]): Known {
  const columns = columnsOf(runs).map((c) => c.name);
  const of = (group: string) => columns.filter((c) => c.startsWith(group)).map((c) => c.slice(group.length));
  const tags = new Set(runs.slice(0, 2000).flatMap((r) => r.tags));
  return { config: of("config/"), metrics: of("summary/"), tags: [...tags].sort() };
}

/** Sorts by a summary; runs without the value come last whichever way. */
export function sortBySummary(runs: Run[], sort: string): Run[] {
  const sign = sort.startsWith("-") ? -1 : 1;
  const column = sort.replace(/^-/, "");
  const key = (run: Run) => {
    const v = cellOf(run, column);
    return v === undefined || v === null ? Number.NaN : Number(v);
  };
  return runs
    .map((run) => ({ run, v: key(run) }))
    .sort((a, b) => {
      if (Number.isNaN(a.v) || Number.isNaN(b.v))
        return Number(Number.isNaN(a.v)) - Number(Number.isNaN(b.v));
      return (a.v - b.v) * sign;
    })
    .map((x) => x.run);
}

/** Cuts a line at a character, counted from 1 as the server counts; at its end there is a space to mark. */
export function marked(line: string, column: number): [string, string, string] {
  const characters = [...line];
  const at = column - 1;
  return [characters.slice(0, at).join(""), characters[at] ?? "\u00a0", characters.slice(at + 1).join("")];
}
