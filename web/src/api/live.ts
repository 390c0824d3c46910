import { noteServer } from "./client.ts";
import { follow } from "./sse.ts";
import type { LiveEvent } from "./types.ts";

/** What a tab wants to hear of: "run=ID" or "project=W/P". */
export type Topic = string;

type Message =
  | { type: "want"; tab: string; topics: Topic[] }
  | { type: "who" }
  | { type: "server"; answers: boolean }
  | { type: "event"; event: string; data: LiveEvent | null };

const lockName = "kymogram-live";

type Listener = (event: LiveEvent | "reset") => void;

/**
 * Live is one event stream for all tabs of a browser: the tab that holds the lock reads it for everyone's topics
 * and passes events on; when that tab goes, the lock makes another one the leader.
 */
export class Live {
  readonly #channel = new BroadcastChannel(lockName);
  readonly #tab = crypto.getRandomValues(new Uint32Array(2)).join("-");
  readonly #listeners = new Map<Listener, Topic[]>();
  readonly #wanted = new Map<string, Topic[]>();
  #leading = false;
  readonly #streams = new Map<string, AbortController>();
  /** Somebody read before the next stream: the leader before this tab. */
  #late = false;
  /** What there was a stream of: the next one takes its place. A stream of something else has missed nothing. */
  readonly #had = new Set<string>();

  start(): void {
    this.#channel.onmessage = (e) => this.#receive(e.data as Message);
    // A page from another machine over plain http has no locks; then every tab reads for itself.
    if (navigator.locks) void this.#stand();
    else void this.#lead();
    addEventListener("pagehide", () => this.#post({ type: "want", tab: this.#tab, topics: [] }));
  }

  /** Calls listener for events of the topics until the returned function is called. */
  listen(topics: Topic[], listener: Listener): () => void {
    this.#listeners.set(listener, topics);
    this.#announce();
    return () => {
      this.#listeners.delete(listener);
      this.#announce();
    };
  }

  #announce(): void {
    const topics = [...new Set([...this.#listeners.values()].flat())].sort();
    this.#post({ type: "want", tab: this.#tab, topics });
  }

  /** To the other tabs and to ourselves. */
  #post(message: Message): void {
    this.#channel.postMessage(message);
    this.#receive(message);
  }

  #receive(message: Message): void {
    if (message.type === "event") {
      for (const listener of [...this.#listeners.keys()]) listener(message.data ?? "reset");
    } else if (message.type === "server") noteServer(message.answers);
    else if (message.type === "who") this.#announceQuietly();
    else {
      this.#wanted.set(message.tab, message.topics);
      if (message.topics.length === 0) this.#wanted.delete(message.tab);
      if (this.#leading) this.#connect();
    }
  }

  #announceQuietly(): void {
    const topics = [...new Set([...this.#listeners.values()].flat())].sort();
    if (topics.length) this.#channel.postMessage({ type: "want", tab: this.#tab, topics } satisfies Message);
  }

  async #stand(): Promise<void> {
    const free = await navigator.locks.request(lockName, { ifAvailable: true }, (lock) =>
      lock ? this.#lead() : false,
    );
    if (free !== false) return;
    this.#late = true;
    await navigator.locks.request(lockName, () => this.#lead());
  }

  /** Never resolves: the lock is held until the tab is closed. */
  #lead(): Promise<never> {
    this.#leading = true;
    this.#channel.postMessage({ type: "who" } satisfies Message);
    this.#connect();
    return new Promise(() => {});
  }

  /** Opens and ends streams so that there is one for each of what is wanted. */
  #connect(): void {
    const urls = streamsOf([...new Set([...this.#wanted.values()].flat())].sort());
    for (const [url, stream] of this.#streams)
      if (!urls.includes(url)) {
        stream.abort();
        this.#streams.delete(url);
      }
    for (const url of urls) if (!this.#streams.has(url)) this.#open(url);
  }

  #open(url: string): void {
    const stream = new AbortController();
    this.#streams.set(url, stream);
    const of = url.includes("?project=") ? url : "runs";
    // What happens between a stream and the one that replaces it is heard by neither.
    const late = this.#late || this.#had.has(of);
    this.#had.add(of);
    void follow(url, stream.signal, late, {
      event: (e) => {
        if (e.event === "run")
          this.#post({ type: "event", event: "run", data: JSON.parse(e.data) as LiveEvent });
        if (e.event === "reset") this.#gap();
      },
      gap: () => this.#gap(),
      answered: (answers) => this.#post({ type: "server", answers }),
    });
  }

  #gap(): void {
    this.#post({ type: "event", event: "reset", data: null });
  }
}

/** A stream is of runs, with those that they inherit from, or of one project: all runs share one. */
export function streamsOf(topics: Topic[]): string[] {
  const runs = topics.filter((t) => t.startsWith("run="));
  const projects = topics.filter((t) => t.startsWith("project="));
  const urls = projects.map((t) => `/api/v1/live?project=${encodeURIComponent(t.slice(8))}`);
  if (runs.length) urls.push(`/api/v1/live?${runs.join("&")}&include_inherited=1`);
  return urls;
}
