import { signal } from "@preact/signals";
import { type ApiError, asApiError } from "../api/client.ts";
import { type Groups, groups, type RunGroup, type Statistics } from "../api/table.ts";
import { say } from "./app.ts";
import { param, setParams } from "./route.ts";
import { type ListQuery, RunList, serverQuery } from "./runlist.ts";
import { joined, pieces } from "./statistics.ts";

const mostGroups = 1000;
/** RunGroups are the groups of all runs of a filter; without a key there is one, of all. */
export class RunGroups {
  readonly result = signal<Groups | null>(null);
  readonly error = signal<ApiError | null>(null);
  /** The columns that the statistics are of. */
  columns: string[] = [];
  readonly #workspace: string;
  readonly #project: string;
  #abort = new AbortController();
  #tookMs = 0;

  constructor(workspace: string, project: string) {
    this.#workspace = workspace;
    this.#project = project;
  }

  /** What is shown stays until the answer is there. */
  async ask(query: ListQuery, by: string[], columns: string[], sort: string): Promise<void> {
    this.#abort.abort();
    this.#abort = new AbortController();
    const abort = this.#abort;
    const began = Date.now();
    try {
      const limit = by.length ? mostGroups : 1;
      const { column: _, ...chosen } = serverQuery(query);
      const parts: { columns: string[]; answer: Groups }[] = [];
      for (const piece of pieces(columns, sort)) {
        const asked = { ...chosen, sort: piece.sort, limit };
        const of = [this.#workspace, this.#project, asked, by, piece.columns, abort.signal] as const;
        parts.push({ columns: piece.columns, answer: await groups(...of) });
        if (abort.signal.aborted) return;
      }
      const result = joined(columns, parts);
      this.columns = columns;
      this.result.value = result;
      this.error.value = null;
    } catch (cause) {
      if (abort.signal.aborted) return;
      this.result.value = null;
      this.error.value = asApiError(cause);
    }
    this.#tookMs = Date.now() - began;
  }

  /** The least pause before the next look: the looks take at most a twentieth of the time. */
  get pauseMs(): number {
    return Math.max(3000, 20 * this.#tookMs);
  }

  close(): void {
    this.#abort.abort();
  }

  /** The statistics of a column of the first group. */
  of(column: string): Statistics | undefined {
    const at = this.columns.indexOf(column);
    return at < 0 ? undefined : this.result.value?.shown[0]?.columns[at];
  }
}

const mostOpen = 16_000; // characters of the address that say which groups are open

const membersOf = (text: string): string[] => text.split(",").filter(Boolean);

/** Folds or unfolds a group; the address says which are open. */
export function toggleOpen(group: RunGroup): void {
  const open = new Set(membersOf(param("open")));
  const member = group.member ?? "";
  if (!open.delete(member)) open.add(member);
  const text = [...open].join(",");
  if (text.length > mostOpen) say("Too many groups are open for the address: fold some of them.", true);
  else setParams({ open: text });
}

/** Unfolded are the lists of the groups that are open, by member. */
export class Unfolded {
  readonly lists = signal<ReadonlyMap<string, RunList>>(new Map());
  readonly #make: () => RunList;
  #query: ListQuery | null = null;

  constructor(workspace: string, project: string) {
    this.#make = () => new RunList(workspace, project);
  }

  ask(query: ListQuery): void {
    this.#query = query;
    for (const [member, list] of this.lists.value) list.ask({ ...query, group: member });
  }

  /** Opens the groups that the address names, and closes all others. */
  show(open: string): void {
    const [before, lists] = [this.lists.peek(), new Map<string, RunList>()];
    for (const member of membersOf(open)) {
      const list = before.get(member) ?? this.#make();
      if (!before.has(member) && this.#query) list.ask({ ...this.#query, group: member });
      lists.set(member, list);
    }
    for (const [member, list] of before) if (!lists.has(member)) list.close();
    this.lists.value = lists;
  }

  /** All runs of a group, without unfolding it. */
  async runsOf(group: RunGroup): Promise<string[]> {
    const open = this.lists.value.get(group.member ?? "");
    if (open) return (await open.all()).map((r) => r.id);
    const list = this.#make();
    if (!this.#query) return [];
    list.ask({ ...this.#query, group: group.member });
    return (await list.all()).map((r) => r.id);
  }

  refresh(): void {
    for (const list of this.lists.value.values()) list.refresh().catch(() => {}); // the next event tries again
  }

  close(): void {
    for (const list of this.lists.value.values()) list.close();
    this.lists.value = new Map();
  }
}
