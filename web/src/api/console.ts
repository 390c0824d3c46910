import { series } from "./client.ts";
import { pointsPage } from "./media.ts";
import type { Num, Series } from "./types.ts";

/** A line that a program printed; step is its number in its stream. */
export interface Line {
  stream: string;
  step: number;
  timeNs: bigint; // a number holds it to 256 ns, and lines printed together are 1 ns apart
  text: string;
}

/** A stream of a run's console: stdout, stderr, log, or what W&B's SDK sent. */
export interface Stream {
  name: string;
  series: Series;
  /** The number of its newest line. */
  last: number;
  /** Changes with every line, also with one that is replaced. */
  version: string;
}

const consoleMetric = "console";

/** The streams of a run's console, none when nothing was kept. */
export async function streams(run: string, abort?: AbortSignal): Promise<Stream[]> {
  const found: Series[] = [];
  let cursor = "";
  do {
    // A fork's lines are its own: numbers of its parent's mean nothing among them.
    const query = { q: [`^${consoleMetric}$`], limit: 500, cursor, include_inherited: 0 as const };
    const page = await series(run, query, abort);
    found.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return found
    .filter((s) => s.metric === consoleMetric && s.kind === "text")
    .map((s) => ({
      name: [s.labels.stream, s.labels.process].filter(Boolean).join(" ") || "output",
      series: s,
      last: Number(s.last?.step ?? -1),
      version: [s.count, s.superseded, s.last?.step, s.last?.time_ns].join(),
    }));
}

/** The lines of a stream between two numbers, both of them too, at most `limit`. */
export async function lines(
  run: string,
  stream: Stream,
  [from, to]: [number, number],
  limit: number,
  abort?: AbortSignal,
): Promise<Line[]> {
  type Columns = { step: Num[]; time_ns: Num[]; value: string[] };
  const out: Line[] = [];
  let cursor = "";
  do {
    // The server ends a page earlier when its memory is short.
    const limited = { from: String(from), to: String(to), limit: String(limit - out.length) };
    const more = { ...limited, int64: "string", ...(cursor && { cursor }) };
    const page = await pointsPage<Columns>(run, stream.series, more, abort);
    const { step, time_ns, value } = page.columns;
    for (const [i, text] of value.entries())
      out.push({ stream: stream.name, step: Number(step[i]), timeNs: BigInt(time_ns[i]!), text });
    cursor = page.next ?? "";
  } while (cursor && out.length < limit);
  return out;
}
