import { series } from "./client.ts";
import { points } from "./media.ts";
import type { Num, Series } from "./types.ts";

/** A line that a program printed; step is its number in its stream. */
export interface Line {
  stream: string;
  step: number;
  timeNs: number;
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
  const page = await series(run, { q: [`^${consoleMetric}$`], limit: 100 }, abort);
  return page.items
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
  const range = { from: String(from), to: String(to), limit: String(limit) };
  const columns = await points<Columns>(run, stream.series, range, abort);
  return columns.value.map((text, i) => ({
    stream: stream.name,
    step: Number(columns.step[i]),
    timeNs: Number(columns.time_ns[i]),
    text,
  }));
}
