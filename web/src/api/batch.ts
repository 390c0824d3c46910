import type { BucketQuery, BucketResult } from "./types.ts";

const maxQueries = 500; // the contract's limit for one POST /api/v1/buckets
const maxEntries = 4000; // answers kept: about 30 screens of charts

interface Waiting {
  query: BucketQuery;
  key: string;
  abort?: AbortSignal;
  resolve: (result: BucketResult) => void;
  reject: (error: unknown) => void;
}

type Send = (queries: BucketQuery[]) => Promise<BucketResult[]>;
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

  /** The answer, kept or asked for. version is of the data: a kept answer to another version is not given. */
  fetch(query: BucketQuery, version: number, abort?: AbortSignal): Promise<BucketResult> {
    const key = `${version} ${JSON.stringify(query)}`;
    const kept = this.#kept.get(key);
    if (kept) return Promise.resolve(kept);
    const sent = this.#sent.get(key);
    if (sent) return sent;
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) this.#schedule(() => this.#flush());
      this.#waiting.push({ query, key, abort, resolve, reject });
    });
  }

  #flush(): void {
    const waiting = this.#waiting.filter((w) => !w.abort?.aborted);
    this.#waiting = [];
    for (let i = 0; i < waiting.length; i += maxQueries) this.#post(waiting.slice(i, i + maxQueries));
  }

  #post(waiting: Waiting[]): void {
    const answer = this.#send(waiting.map((w) => w.query));
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
