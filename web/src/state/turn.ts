type Job = () => void;

const budgetMs = 4; // of a frame of 16, for jobs while something scrolls
const mostMs = 2 * budgetMs; // a machine that is busy with other things still draws a card every third frame
const calmMs = 100; // after the last scroll the page is as fast as it can be

const waiting: Job[] = [];
let channel: MessageChannel | null = null;
let running = false;
let began = 0; // when the job before was begun
let owed = 0; // what jobs took beyond the parts of the frames so far
let scrolledAt = -calmMs;

const scrolling = (now: number) => !document.hidden && now - scrolledAt < calmMs;
const goOn = () => channel!.port2.postMessage(0);

/** Tells that something scrolls: until it stands still, jobs take a small part of each frame. */
export function scrolled(): void {
  scrolledAt = performance.now();
}

/** Comes after the job before and what it had rendered. */
function next(): void {
  const now = performance.now();
  owed = scrolling(now) ? Math.min(mostMs, owed + now - began) : 0;
  began = now;
  if (waiting.length === 0) {
    running = false;
  } else if (owed >= budgetMs) {
    requestAnimationFrame(() => {
      owed -= budgetMs;
      began = performance.now();
      goOn();
    });
  } else {
    // What came last stays in view for the longest time.
    const job = scrolling(now) ? waiting.pop()! : waiting.shift()!;
    goOn();
    job();
  }
}

/** Does a job in a task of its own, one a task: what many cards do at once never stops the page for all of it. */
export function later(job: Job): () => void {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = next;
  }
  waiting.push(job);
  if (!running) {
    running = true;
    began = performance.now();
    goOn();
  }
  return () => {
    const at = waiting.indexOf(job);
    if (at >= 0) waiting.splice(at, 1);
  };
}

/** Resolves in a task of its own. */
export const turn = (): Promise<void> => new Promise((resolve) => void later(resolve));

/** Pool lets a few of many tasks run at a time, in the order in which they came. */
export class Pool {
  readonly #most: number;
  #running = 0;
  readonly #queue: (() => void)[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#most) await new Promise<void>((go) => this.#queue.push(go));
    else this.#running++;
    try {
      return await task();
    } finally {
      const go = this.#queue.shift();
      if (go) go();
      else this.#running--;
    }
  }
}
