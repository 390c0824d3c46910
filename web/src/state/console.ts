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
  readonly #page: number;
  readonly #most: number;
  #work: Promise<unknown> = Promise.resolve();

  constructor(source: Source, page = pageLines, most = mostLines) {
    this.#source = source;
    this.#page = page;
    this.#most = most;
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
    return n >= this.#most;
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
      const last = merged(open.map((h) => h.lines)).findLast((l) => open.some((h) => h.lines[0] === l));
      const held = open.find((h) => h.lines.length === 0) ?? open.find((h) => h.lines[0] === last);
      if (!held || this.isFull()) return;
      const from = Math.max(0, held.from - this.#page);
      const got = await this.#source.lines(
        held.stream,
        [from, held.from - 1],
        this.#page,
        this.#abort.signal,
      );
      held.from = from;
      held.lines = [...got, ...held.lines];
    });
  }

  async #update(stream: Stream): Promise<void> {
    const held = this.#held.get(stream.name);
    if (held?.stream.version === stream.version) return;
    const newest = held?.lines.at(-1);
    // Where more came than a tab holds, it begins anew.
    const goesOn = held && newest && stream.last - newest.step < this.#most;
    let from = goesOn
      ? Math.max(held.from, newest.step + 1 - replaceable)
      : Math.max(0, stream.last + 1 - this.#page);
    const into: Held = goesOn
      ? { stream, from: held.from, lines: held.lines.filter((l) => l.step < from) }
      : { stream, from, lines: [] };
    while (from <= stream.last) {
      const got = await this.#source.lines(stream, [from, stream.last], this.#page, this.#abort.signal);
      into.lines.push(...got);
      if (got.length < this.#page) break;
      from = got.at(-1)!.step + 1;
    }
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
    const held = [...this.#held.values()];
    const all = merged(held.map((h) => h.lines));
    // Before the first held line of a stream that goes on before it, lines are missing.
    const first = new Set(held.filter((h) => h.from > 0).map((h) => h.lines[0]));
    const over = Math.max(0, all.length - this.#most);
    this.shown.value = all.slice(
      Math.max(
        over,
        all.findLastIndex((l) => first.has(l)),
      ),
    );
    if (over === 0) return;
    const kept = new Set(all.slice(over));
    for (const h of held) {
      h.lines = h.lines.filter((l) => kept.has(l));
      h.from = Math.max(h.from, h.lines[0]?.step ?? h.stream.last + 1);
    }
  }
}

/**
 * The lines of several streams by time; each stream keeps its own order. A line that was replaced has the time of
 * that, and its place before the line after it. So the order of lines is the same whatever is held before them.
 */
export function merged(lists: Line[][]): Line[] {
  const placed = lists.flatMap((lines) => {
    let at = lines.at(-1)?.timeNs ?? 0n;
    return lines
      .toReversed()
      .map((line) => {
        if (line.timeNs < at) at = line.timeNs;
        return { line, at };
      })
      .reverse();
  });
  return placed.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)).map((p) => p.line);
}

/** Whether both are the same line, which may have been replaced since. */
export const isSame = (a: Line, b: Line): boolean => a.step === b.step && a.stream === b.stream;

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
