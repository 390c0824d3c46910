import { authorization } from "./client.ts";

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Parser turns the text of an event stream into events, however it is cut into chunks. */
export class Parser {
  #rest = "";
  #event = { id: "", event: "message", data: [] as string[] };

  push(chunk: string): ServerEvent[] {
    const lines = (this.#rest + chunk).split(/\r\n|\n|\r/);
    this.#rest = lines.pop()!;
    const out: ServerEvent[] = [];
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else if (this.#event.data.length) out.push(this.#take());
    }
    return out;
  }

  #take(): ServerEvent {
    const { id, event, data } = this.#event;
    this.#event = { id, event: "message", data: [] };
    return { id, event, data: data.join("\n") };
  }

  #field(line: string): void {
    const at = line.indexOf(":");
    if (at === 0) return; // a comment: the heartbeat
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "data") this.#event.data.push(value);
    else if (name === "event") this.#event.event = value;
    else if (name === "id") this.#event.id = value;
  }
}

const firstRetryMs = 500;
const lastRetryMs = 5_000;
const silenceMs = 5_000; // the server speaks every 2 s; more than two silences are a connection that hangs
const graceMs = 200; // what came while this page was busy is read first

/** What a stream tells its reader. */
export interface Reader {
  event(e: ServerEvent): void;
  /** The stream is open, and events before this moment may have been missed. */
  gap(): void;
  /** Whether the server answered a try to connect. */
  answered(yes: boolean): void;
}

/**
 * Reads an event stream until the signal aborts, connecting again where it broke. fetch and not EventSource,
 * because only fetch can send a key. late: somebody else read before, so that the start is a gap too.
 */
export async function follow(url: string, abort: AbortSignal, late: boolean, reader: Reader): Promise<void> {
  let last = "";
  let retryMs = firstRetryMs;
  let missed = late;
  while (!abort.aborted) {
    const opened = () => {
      reader.answered(true);
      // With an id the server continues behind it, or says reset itself.
      if (missed && !last) reader.gap();
    };
    const heard = (events: ServerEvent[]) => {
      retryMs = firstRetryMs;
      for (const e of events) {
        if (e.id) last = e.id;
        reader.event(e);
      }
    };
    const ended = await once(url, last, abort, opened, heard);
    missed = true;
    if ((ended === "unreachable" || ended === "silent") && !abort.aborted) reader.answered(false);
    if (ended === "refused") last = "";
    await pause(retryMs, abort);
    retryMs = Math.min(lastRetryMs, retryMs * 2);
  }
}

async function once(
  url: string,
  last: string,
  outer: AbortSignal,
  opened: () => void,
  heard: (events: ServerEvent[]) => void,
): Promise<"broken" | "refused" | "unreachable" | "silent"> {
  const silence = new AbortController();
  let answered = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listen = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = setTimeout(() => silence.abort(), graceMs);
    }, silenceMs);
  };
  listen();
  try {
    const headers: Record<string, string> = { Accept: "text/event-stream", ...authorization() };
    if (last) headers["Last-Event-ID"] = last;
    const res = await fetch(url, { headers, signal: AbortSignal.any([outer, silence.signal]) });
    answered = true;
    if (!res.ok || !res.body) return "refused";
    opened();
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "broken";
      listen();
      heard(parser.push(value));
    }
  } catch {
    if (silence.signal.aborted) return "silent";
    return answered ? "broken" : "unreachable"; // the next try says whether the server is back
  } finally {
    clearTimeout(timer);
  }
}

function pause(ms: number, abort: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const over = () => {
      clearTimeout(timer);
      abort.removeEventListener("abort", over);
      done();
    };
    const timer = setTimeout(over, ms);
    abort.addEventListener("abort", over);
  });
}
