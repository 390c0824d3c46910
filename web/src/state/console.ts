import { signal } from "@preact/signals";
import { type Line, lines, type Stream, streams } from "../api/console.ts";

/** How many lines of a stream one request brings. */
export const pageLines = 2_000;
/** How many of a stream's last lines may still be replaced, as progress bars are. */
const replaceable = 128;
/** How many lines a tab holds. */
export const mostLines = 200_000;

interface Held {
  stream: Stream;
  /** The first number that was asked for: 0 when there is nothing before. */
  from: number;
  lines: Line[]; // by number
}

/** What a Console reads from: the server, or a test. */
export interface Source {
  streams(abort?: AbortSignal): Promise<Stream[]>;
  lines(stream: Stream, range: [number, number], limit: number, abort?: AbortSignal): Promise<Line[]>;
}

export const sourceOf = (run: string): Source => ({
  streams: (abort) => streams(run, abort),
  lines: (stream, range, limit, abort) => lines(run, stream, range, limit, abort),
});

/** Console holds the newest lines of a run's streams, in the order of time, and earlier ones as they are asked for. */
export class Console {
  /** The lines that are complete, oldest first; a new list with every change. */
  readonly shown = signal<Line[]>([]);
  /** The streams by name, null before they are known. */
  readonly names = signal<string[] | null>(null);
  readonly failure = signal("");
  readonly #source: Source;
  readonly #held = new Map<string, Held>();
  readonly #abort = new AbortController();
  #work: Promise<unknown> = Promise.resolve();

  constructor(source: Source) {
    this.#source = source;
  }

  close(): void {
    this.#abort.abort();
  }

  /** How many lines before those that are held there are, at most. */
  earlierCount(): number {
    let n = 0;
    for (const held of this.#held.values()) n += held.from;
    return n;
  }

  /** Whether the lines before are too many to be held. */
  isFull(): boolean {
    let n = 0;
    for (const held of this.#held.values()) n += held.lines.length;
    return n >= mostLines;
  }

  /** Reads what is new, and lines that were replaced. */
  refresh(): Promise<void> {
    return this.#inTurn(async () => {
      const found = await this.#source.streams(this.#abort.signal);
      for (const stream of found) await this.#update(stream);
      this.names.value = found.map((s) => s.name);
    });
  }

  /** Reads a page of lines before those that are held. */
  earlier(): Promise<void> {
    return this.#inTurn(async () => {
      // The stream whose lines begin last keeps those of the others from being complete.
      const open = [...this.#held.values()].filter((h) => h.from > 0);
      const held = open.sort((a, b) => beginOf(b) - beginOf(a))[0];
      if (!held || this.isFull()) return;
      const from = Math.max(0, held.from - pageLines);
      const got = await this.#source.lines(held.stream, [from, held.from - 1], pageLines, this.#abort.signal);
      held.from = from;
      held.lines = [...got, ...held.lines];
    });
  }

  async #update(stream: Stream): Promise<void> {
    const held = this.#held.get(stream.name);
    if (held?.stream.version === stream.version) return;
    const next = held?.lines.at(-1);
    let from = next
      ? Math.max(held!.from, next.step + 1 - replaceable)
      : Math.max(0, stream.last + 1 - pageLines);
    const into: Held = held ?? { stream, from, lines: [] };
    while (from <= stream.last) {
      const got = await this.#source.lines(stream, [from, stream.last], pageLines, this.#abort.signal);
      const kept = into.lines.filter((l) => l.step < from);
      into.lines = [...kept, ...got];
      if (got.length < pageLines) break;
      from = got.at(-1)!.step + 1;
    }
    into.stream = stream;
    this.#held.set(stream.name, into);
  }

  /** One request after the other, so that none overtakes another. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#work.then(work).then(
      () => {
        this.failure.value = "";
        this.#merge();
      },
      (cause: Error) => {
        if (!this.#abort.signal.aborted) this.failure.value = cause.message;
      },
    );
    this.#work = done;
    return done;
  }

  #merge(): void {
    const all = [...this.#held.values()];
    // Before the first held line of a stream that goes on before it, lines are missing.
    const from = Math.max(...all.filter((h) => h.from > 0).map(beginOf), Number.NEGATIVE_INFINITY);
    this.shown.value = merged(all.map((h) => h.lines)).filter((l) => l.timeNs >= from);
  }
}

const beginOf = (held: Held): number => held.lines[0]?.timeNs ?? Number.POSITIVE_INFINITY;

/** The lines of several streams by time; each stream keeps its own order. */
export function merged(lists: Line[][]): Line[] {
  const at = lists.map(() => 0);
  const out: Line[] = [];
  for (;;) {
    let best = -1;
    for (let i = 0; i < lists.length; i++) {
      const line = lists[i]![at[i]!];
      if (line && (best < 0 || line.timeNs < lists[best]![at[best]!]!.timeNs)) best = i;
    }
    if (best < 0) return out;
    out.push(lists[best]![at[best]!]!);
    at[best] = at[best]! + 1;
  }
}

// The joiner of emoji stays, and so does a tab.
const hidden = /(?![\t\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A line's text with what would be invisible, or turn the text round, by its number. */
export const visible = (text: string): string =>
  text.replace(hidden, (c) => `⟨${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** The places of a word in a text, without regard to case. */
export function placesOf(text: string, word: string): number[] {
  const out: number[] = [];
  if (!word) return out;
  const [low, needle] = [text.toLowerCase(), word.toLowerCase()];
  if (low.length !== text.length) return text.includes(word) ? [text.indexOf(word)] : [];
  for (let at = low.indexOf(needle); at >= 0; at = low.indexOf(needle, at + needle.length)) out.push(at);
  return out;
}
