import type { BucketQuery, BucketResult } from "./types.ts";

const maxQueries = 500; // a request, as the contract says
const maxBuckets = 8000; // a request: an answer is parsed in one piece, and a card of 200 runs is drawn once for all of them
const minQueries = 50; // a request, however many buckets they have
const mostNumbers = 3_000_000; // in answers that are kept: about 8 screens of full charts, and 24 MB

interface Waiting {
  query: BucketQuery;
  digits: number;
  version: number;
  key: string;
  abort?: AbortSignal;
  resolve: (result: BucketResult) => void;
  reject: (error: unknown) => void;
}

type Send = (queries: BucketQuery[], digits: number) => Promise<BucketResult[]>;
type Schedule = (run: () => void) => void;

/** An answer and the version of the data that it is of. */
interface Kept {
  version: number;
  result: BucketResult;
  numbers: number;
}

/** Batch collects the queries of one animation frame into one request and keeps the answers. */
export class Batch {
  readonly #send: Send;
  readonly #schedule: Schedule;
  /** By question: a live series has one answer, not one for each of its points. */
  readonly #kept = new Map<string, Kept>();
  #numbers = 0;
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
    const key = `${digits} ${JSON.stringify(query)}`;
    const kept = this.#kept.get(key);
    if (kept?.version === version) return Promise.resolve(kept.result);
    const sent = this.#sent.get(`${version} ${key}`);
    if (sent) return sent;
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) this.#schedule(() => this.#flush());
      this.#waiting.push({ query, digits, version, key, abort, resolve, reject });
    });
  }

  #flush(): void {
    const waiting = this.#waiting.filter((w) => !w.abort?.aborted);
    this.#waiting = [];
    for (const digits of new Set(waiting.map((w) => w.digits))) {
      const same = waiting.filter((w) => w.digits === digits);
      for (let i = 0; i < same.length; ) {
        const end = endOf(same, i);
        this.#post(same.slice(i, end), digits);
        i = end;
      }
    }
  }

  #post(waiting: Waiting[], digits: number): void {
    const queries = waiting.map((w) => w.query);
    const answer = this.#send(queries, digits);
    waiting.forEach((w, i) => {
      const mine = answer.then((results) => {
        this.#keep(w, results[i]!);
        return results[i]!;
      });
      const key = `${w.version} ${w.key}`;
      this.#sent.set(key, mine);
      mine.then(w.resolve, w.reject).finally(() => this.#sent.delete(key));
    });
  }

  #keep({ key, version }: Waiting, result: BucketResult): void {
    if ("error" in result) return;
    const numbers = Object.values(result.columns).reduce((n, column) => n + (column?.length ?? 0), 0);
    this.#forget(key);
    this.#kept.set(key, { version, result, numbers });
    this.#numbers += numbers;
    while (this.#numbers > mostNumbers) this.#forget(this.#kept.keys().next().value!);
  }

  #forget(key: string): void {
    this.#numbers -= this.#kept.get(key)?.numbers ?? 0;
    this.#kept.delete(key);
  }
}

/** Where the request that begins with a query ends. */
function endOf(waiting: readonly Waiting[], begin: number): number {
  let end = begin;
  for (let buckets = 0; end < waiting.length && end - begin < maxQueries; end++) {
    buckets += waiting[end]!.query.n;
    if (buckets > maxBuckets && end - begin >= minQueries) break;
  }
  return end;
}
