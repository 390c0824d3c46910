const waiting: (() => void)[] = [];
let channel: MessageChannel | null = null;

function next(): void {
  waiting.shift()?.();
  if (waiting.length) channel!.port2.postMessage(0);
}

/** Resolves in a task of its own, one caller a task: what many cards do at once never stops the page for all of it. */
export function turn(): Promise<void> {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = next;
  }
  return new Promise((resolve) => {
    if (waiting.length === 0) channel!.port2.postMessage(0);
    waiting.push(resolve);
  });
}

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
