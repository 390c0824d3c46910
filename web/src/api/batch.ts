import type { BucketQuery, BucketResult } from "./types.ts";

const maxQueries = 150; // a request; the contract allows 500, but an answer is parsed in one piece
const maxEntries = 4000; // answers kept: about 30 screens of charts

interface Waiting {
  query: BucketQuery;
  digits: number;
  key: string;
  abort?: AbortSignal;
  resolve: (result: BucketResult) => void;
  reject: (error: unknown) => void;
}

type Send = (queries: BucketQuery[], digits: number) => Promise<BucketResult[]>;
type Schedule = (run: () => void) => void;

/** Batch collects the queries of one animation frame into one request and keeps the answers. */
export class Batch {
  readonly #send: Send;
  readonly #schedule: Schedule;
  readonly #kept = new Map<string, BucketResult>();
  /** Asked and not answered yet: who asks the same again waits for that answer. */
  readonly #sent = new Map<string, Promise<BucketResult>>();
  #waiting: Waiting[] = [];

  constructor(send: Send, schedule: Schedule) {
    this.#send = send;
    this.#schedule = schedule;
  }

  /**
   * The answer, kept or asked for. version is of the data: a kept answer to another version is not given. Of min, max
   * and mean so many significant digits come, 0 for all.
   */
  fetch(query: BucketQuery, version: number, abort?: AbortSignal, digits = 0): Promise<BucketResult> {
    const key = `${version} ${digits} ${JSON.stringify(query)}`;
    const kept = this.#kept.get(key);
    if (kept) return Promise.resolve(kept);
    const sent = this.#sent.get(key);
    if (sent) return sent;
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) this.#schedule(() => this.#flush());
      this.#waiting.push({ query, digits, key, abort, resolve, reject });
    });
  }

  #flush(): void {
    const waiting = this.#waiting.filter((w) => !w.abort?.aborted);
    this.#waiting = [];
    for (const digits of new Set(waiting.map((w) => w.digits))) {
      const same = waiting.filter((w) => w.digits === digits);
      for (let i = 0; i < same.length; i += maxQueries) this.#post(same.slice(i, i + maxQueries), digits);
    }
  }

  #post(waiting: Waiting[], digits: number): void {
    const queries = waiting.map((w) => w.query);
    const answer = this.#send(queries, digits);
    waiting.forEach((w, i) => {
      const mine = answer.then((results) => {
        this.#keep(w.key, results[i]!);
        return results[i]!;
      });
      this.#sent.set(w.key, mine);
      mine.then(w.resolve, w.reject).finally(() => this.#sent.delete(w.key));
    });
  }

  #keep(key: string, result: BucketResult): void {
    if ("error" in result) return;
    this.#kept.set(key, result);
    if (this.#kept.size > maxEntries) this.#kept.delete(this.#kept.keys().next().value!);
  }
}
