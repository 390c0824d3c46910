import { type Signal, signal } from "@preact/signals";
import {
  type KymographQuery,
  kymograph,
  kymographHead,
  mostColumns,
  mostRows,
  type Picture,
  type Reduction,
} from "../api/kymograph.ts";
import { rowOf } from "./kymograph.ts";
import type { Member } from "./session.ts";

const mostCells = 5 << 20; // that the server takes
const whole = 512; // rows whose cells come with the first answer; of more, those in sight
const kept = 8192; // rows whose cells stay: more than any window shows
const beyond = 32; // rows that are read before they come in sight
const pauseMs = 300; // between two looks at a run that goes on
const busyShare = 4; // a look waits so many times as long as the one before took
const rareMs = 2000; // all of many rows are read less often than those in sight

/** What a kymograph shows: which rows, on which axis, between which ends, in how many pixels. */
export interface View {
  members: Member[];
  ids: string[];
  x: string;
  from?: number;
  to?: number;
  columns: number;
  reduce: Reduction;
  limits: [number, number] | null;
  inherited: boolean;
}

/** Cells of one row, and the picture that they are of. */
export interface Strip {
  picture: Picture;
  cells: Uint8Array;
  /** Of which answer for the whole: cells of an older one are drawn until the new ones are there. */
  stamp: number;
}

/** Pictures keeps what the server said of a view: the head of all rows, and the cells of those that were in sight. */
export class Pictures {
  /** What is known of all rows together; null until the first answer. */
  readonly head: Signal<Picture | null> = signal(null);
  /** Where the picture ends; a run that goes on moves the end. */
  readonly span: Signal<{ from: number; to: number }> = signal({ from: 0, to: 0 });
  readonly error = signal("");
  readonly loading = signal(false);
  /** How many rows are read of a view that has more than one answer takes. */
  readonly progress = signal(0);
  /** Rises when there is something new to paint. */
  readonly version = signal(0);
  readonly #strips = new Map<string, Strip>();
  #view: View | null = null;
  #key = "";
  /** The key of the view that the head is of. */
  headKey = "";
  #tick = 0;
  #stamp = 0;
  #seen: number[] = [];
  #abort = new AbortController();
  #reading = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #headAt = 0;
  #tookMs = 0;
  #headMs = 0;

  close(): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  /** Shows a view; with another tick of the run it is read again, soon. */
  show(view: View, key: string, tick: number): void {
    if (view.members.length === 0 || view.columns < 1) return;
    this.#view = view;
    if (key !== this.#key) {
      this.#key = key;
      this.#tick = tick;
      this.#abort.abort();
      this.#abort = new AbortController();
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#reading = false;
      void this.#readHead();
    } else if (tick !== this.#tick) {
      this.#tick = tick;
      this.#timer ??= setTimeout(() => this.#again(), Math.max(pauseMs, busyShare * this.#tookMs));
    }
  }

  /** Asks again after an error. */
  retry(): void {
    void this.#readHead();
  }

  /** The rows in sight, as places in the view's members. */
  see(rows: number[]): void {
    this.#seen = rows;
    void this.#readRows();
  }

  strip(id: string): Strip | undefined {
    return this.#strips.get(id);
  }

  #again(): void {
    this.#timer = undefined;
    if (document.hidden || this.#reading) {
      this.#timer = setTimeout(() => this.#again(), pauseMs);
      return;
    }
    const many = this.#view!.members.length > whole;
    if (many && Date.now() - this.#headAt < Math.max(rareMs, 20 * this.#headMs)) {
      this.#stamp++;
      void this.#readRows(true);
    } else void this.#readHead();
  }

  #ask(view: View, members: Member[]): KymographQuery {
    return {
      rows: members.map(rowOf),
      ...{ x: view.x, columns: this.#columns(members.length), reduce: view.reduce },
      ...(view.inherited && { include_inherited: true as const }),
    };
  }

  #columns(rows: number): number {
    const most = Math.floor(mostCells / Math.min(rows, mostRows));
    return Math.max(1, Math.min(mostColumns, this.#view!.columns, most));
  }

  async #readHead(): Promise<void> {
    const [view, key] = [this.#view!, this.#key];
    const few = view.members.length <= whole;
    const query: KymographQuery = {
      ...this.#ask(view, view.members),
      ...(view.from !== undefined && { from: view.from, to: view.to! }),
      ...(view.limits && { limits: view.limits }),
      fit: true,
    };
    const { signal: abort } = this.#abort;
    const asked = few
      ? kymograph(query, abort)
      : kymographHead(query, abort, (rows) => {
          this.progress.value = rows;
        });
    await this.#read(asked, abort, (picture, ms) => {
      this.#stamp++;
      this.#headAt = Date.now();
      this.#headMs = ms;
      if (few) this.#keep(view.ids, picture);
      this.span.value = { from: picture.from, to: picture.to };
      this.headKey = key;
      this.head.value = picture;
    });
    void this.#readRows();
  }

  /** Reads the rows in sight whose cells are not there or old; onward: to where their points end now. */
  async #readRows(onward = false): Promise<void> {
    const [view, head] = [this.#view, this.head.peek()];
    if (!view || !head || this.#reading || this.headKey !== this.#key) return;
    const rows = this.#missing(view);
    if (rows.length === 0) return;
    const limits = view.limits ?? head.limits;
    const open = onward && view.to === undefined;
    const { from, to } = this.span.peek();
    const query: KymographQuery = {
      ...this.#ask(
        view,
        rows.map((i) => view.members[i]!),
      ),
      ...(open ? { from, fit: true as const } : { from, to, columns: head.columns }),
      ...(limits && { limits }),
    };
    const { signal: abort } = this.#abort;
    await this.#read(kymograph(query, abort), abort, (picture) => {
      this.#keep(
        rows.map((i) => view.ids[i]!),
        picture,
      );
      if (open && picture.to > to) this.span.value = { from, to: picture.to };
    });
    void this.#readRows(onward); // what came in sight meanwhile
  }

  #missing(view: View): number[] {
    const old = (i: number) => this.#strips.get(view.ids[i]!)?.stamp !== this.#stamp;
    return this.#seen.filter((i) => i < view.ids.length && old(i)).slice(0, whole);
  }

  #keep(ids: string[], picture: Picture): void {
    const { cells, columns } = picture;
    ids.forEach((id, i) => {
      this.#strips.delete(id); // the newest are last
      this.#strips.set(id, {
        picture,
        cells: cells.subarray(i * columns, (i + 1) * columns),
        stamp: this.#stamp,
      });
    });
    for (const id of this.#strips.keys()) {
      if (this.#strips.size <= kept) break;
      this.#strips.delete(id);
    }
  }

  async #read(
    asked: Promise<Picture>,
    abort: AbortSignal,
    take: (picture: Picture, ms: number) => void,
  ): Promise<void> {
    this.#reading = true;
    this.loading.value = true;
    const start = performance.now();
    try {
      const picture = await asked;
      if (abort.aborted) return;
      this.#tookMs = performance.now() - start;
      take(picture, this.#tookMs);
      this.error.value = "";
      this.version.value++;
    } catch (cause) {
      if (abort.aborted) return;
      this.error.value = (cause as Error).message;
      this.#stamp = -1; // nothing is asked again before the view or the run moves
      this.#seen = [];
    }
    this.#reading = false;
    this.loading.value = false;
    this.progress.value = 0;
  }
}

/** The rows in sight, with some before and after them. */
export function around(first: number, last: number, rows: number): [number, number] {
  return [Math.max(0, first - beyond), Math.min(rows, last + beyond)];
}

/** All rows in so many columns: what is known of them, and with more than one column their cells, to tell which are alike. */
export async function coarse(view: View, columns: number, abort: AbortSignal): Promise<Picture> {
  const query: KymographQuery = {
    rows: view.members.map(rowOf),
    ...{ x: view.x, columns, reduce: view.reduce, fit: true },
    ...(view.from !== undefined && { from: view.from, to: view.to! }),
    ...(view.inherited && { include_inherited: true }),
  };
  return columns === 1 ? kymographHead(query, abort) : kymograph(query, abort);
}
