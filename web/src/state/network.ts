import { signal } from "@preact/signals";
import { type ApiError, asApiError, login } from "../api/client.ts";
import type { Network } from "../api/network.ts";
import * as api from "../api/network.ts";

/** How the page shows a network: which rows, which columns, in which order. */
export interface Choice {
  q: string;
  hidden: ReadonlySet<string>;
  sort: string;
}

/** The miners to show, as places in doc.miners. */
export function rowsOf(doc: Network, choice: Choice): number[] {
  const words = choice.q.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: number[] = [];
  for (let i = 0; i < doc.miners.length; i++)
    if (!choice.hidden.has(doc.miners[i]!.verdict) && words.every((w) => matches(doc, i, w))) rows.push(i);
  const by = sorts[choice.sort];
  return by ? rows.sort((a, b) => by(doc, a) - by(doc, b) || a - b) : rows;
}

/** The validators to show; a hidden verdict hides its columns too. */
export function columnsOf(doc: Network, choice: Choice): number[] {
  const all = doc.validators.map((_, i) => i);
  return all.filter((i) => !choice.hidden.has(doc.validators[i]!.verdict));
}

const sorts: Record<string, (doc: Network, i: number) => number> = {
  score: (doc, i) => -(doc.miners[i]!.result?.score ?? -1),
  disputed: (doc, i) => -disputes(doc, i),
};

/** How many validators report something else than the result. */
export function disputes(doc: Network, row: number): number {
  return doc.validators.reduce((n, v) => n + ((v.flags[row] ?? 0) & api.differs ? 1 : 0), 0);
}

function matches(doc: Network, row: number, word: string): boolean {
  const m = doc.miners[row]!;
  if (/^\d+$/.test(word)) return m.uid === Number(word);
  if (word === "disputed") return disputes(doc, row) > 0;
  if (word === "allocated") return !!m.allocated || !!m.result;
  const gpu = m.result ? gpuText(doc, m.result.gpu) : "";
  return [m.hotkey, m.run, m.verdict, gpu].some((t) => t.toLowerCase().includes(word));
}

export function gpuText(doc: Network, gpu: number): string {
  const of = doc.gpus[gpu];
  return of ? `${of[1]} × ${of[0]}` : "no GPU named";
}

/** A hotkey cut to what tells it from others. */
export const cutKey = (hotkey: string): string =>
  hotkey.length > 12 ? `${hotkey.slice(0, 6)}…${hotkey.slice(-4)}` : hotkey;

/** How fresh a record is, in blocks where there are blocks, else in time. */
export function age(
  doc: Network,
  node: { block: number; time_ms: number },
): { blocks: number | null; ms: number } {
  const head = doc.chain?.block || Math.max(0, ...doc.validators.map((v) => v.block));
  const blocks = node.block > 0 && head > 0 ? Math.max(0, head - node.block) : null;
  return { blocks, ms: Math.max(0, doc.time_ms - node.time_ms) };
}

/** How many nodes have each verdict. */
export function tally(doc: Network): Map<string, number> {
  const out = new Map<string, number>();
  for (const node of [...doc.validators, ...doc.miners])
    out.set(node.verdict, (out.get(node.verdict) ?? 0) + 1);
  return out;
}

const waitSeconds = 25;
const pauseMs = 300; // between two answers: a busy network is drawn three times a second at most

/** Follows a project's network: each answer is the whole picture, the next one waits for news. */
export class NetworkFeed {
  readonly doc = signal<Network | null>(null);
  readonly error = signal<ApiError | null>(null);
  /** The link's token was refused: it was revoked, or never was. */
  readonly revoked = signal(false);
  readonly #workspace: string;
  readonly #project: string;
  readonly #token: string;

  constructor(workspace: string, project: string, token: string) {
    this.#workspace = workspace;
    this.#project = project;
    this.#token = token;
  }

  /** Reads until the returned function is called. */
  follow(netuid: string): () => void {
    const abort = new AbortController();
    void this.#loop(netuid, abort.signal);
    return () => abort.abort();
  }

  async #loop(netuid: string, abort: AbortSignal): Promise<void> {
    let since = -1;
    while (!abort.aborted) {
      try {
        const news = { since: since < 0 ? "" : since, wait: since < 0 ? "" : waitSeconds };
        const doc = await api.network(this.#workspace, this.#project, { netuid, ...news }, abort);
        since = doc.judging ? -1 : doc.index;
        this.doc.value = doc;
        this.error.value = null;
        await pause(pauseMs, abort);
      } catch (cause) {
        if (abort.aborted) return;
        since = -1;
        if (!(await this.#recover(cause, abort))) return;
      }
      await visible(abort);
    }
  }

  /** Reports whether it is worth asking again. */
  async #recover(cause: unknown, abort: AbortSignal): Promise<boolean> {
    const error = asApiError(cause);
    if ((error.status === 401 || error.status === 403) && this.#token) return this.#trade(abort);
    this.error.value = error;
    if (error.status >= 400 && error.status < 500) return false;
    await pause(2000, abort);
    return true;
  }

  /** Trades the link's token for a session; only when the browser may not read without it. */
  async #trade(abort: AbortSignal): Promise<boolean> {
    try {
      await login(this.#token);
      return !abort.aborted;
    } catch (cause) {
      this.doc.value = null;
      this.revoked.value = true;
      this.error.value = cause as ApiError;
      return false;
    }
  }
}

function pause(ms: number, abort: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    abort.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}

/** Waits while nobody looks. */
function visible(abort: AbortSignal): Promise<void> {
  if (!document.hidden || abort.aborted) return Promise.resolve();
  return new Promise((done) => {
    const listener = () => {
      if (document.hidden && !abort.aborted) return;
      document.removeEventListener("visibilitychange", listener);
      done();
    };
    document.addEventListener("visibilitychange", listener);
    abort.addEventListener("abort", listener);
  });
}
