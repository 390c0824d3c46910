import { type Signal, signal } from "@preact/signals";
import type { ApiError } from "../api/client.ts";
import type { RunDetail, Series } from "../api/types.ts";
import { SeriesList } from "./serieslist.ts";

const detailMs = 2000; // ledger, heartbeat and writers need no more

/** Loaded is what is known of a run that is shown. */
export interface Loaded {
  begun: boolean;
  /** Only the series in view are read, and when it had `named` of them its metrics were. */
  some: boolean;
  named: number;
  detail: Signal<RunDetail | null>;
  list: SeriesList;
  /** The list is long, and is read as far as somebody scrolls: a search is asked of the server. */
  partial: Signal<boolean>;
  /** What the search finds of a partial list. */
  found: Signal<SeriesList | null>;
  /** A part of a list is on its way. */
  reading: boolean;
  /** When a partial list may be read again, since the run has more series. */
  againAtMs: number;
  /** Metrics that were asked for beside the list, and whether documents were. */
  beside: Set<string>;
  documents: boolean;
  /** Rises when series were added. */
  shape: Signal<number>;
  /** Rises when counts and last values of series moved. */
  tick: Signal<number>;
  complete: Signal<boolean>;
  /** All of them are in the cards, too, which are published a moment later. */
  listed: Signal<boolean>;
  /** Something was logged while the list of series was on its way, which may not have it. */
  missed: boolean;
  error: Signal<ApiError | null>;
  abort: AbortController;
  detailAtMs: number;
  /** How long an answer took; a run that says much is asked less often. */
  detailTookMs: number;
  /** How many series other runs have that had news, by id: of ancestors, and of any while these are not known. */
  heard: Map<string, number>;
  /** An ancestor may have series that are not listed. */
  stale: boolean;
}

export function loading(): Loaded {
  return {
    begun: false,
    some: false,
    named: 0,
    detail: signal(null),
    list: new SeriesList(),
    partial: signal(false),
    found: signal(null),
    reading: false,
    againAtMs: 0,
    beside: new Set(),
    documents: false,
    shape: signal(0),
    tick: signal(0),
    complete: signal(false),
    listed: signal(false),
    missed: false,
    error: signal(null),
    abort: new AbortController(),
    detailAtMs: Date.now(),
    detailTookMs: 0,
    heard: new Map(),
    stale: false,
  };
}

/** The run itself logged some of it. */
export const isOwn = (s: Series): boolean => s.count === 0 || (s.inherited ?? 0) < s.count;
export const isDocument = (s: Series): boolean => s.kind === "histogram" || s.kind === "scatter";

/** There is no such run, or none for this reader; any other failure may pass. */
export const isMissing = (loaded: Loaded): boolean =>
  ["not_found", "permission_denied", "invalid_argument"].includes(loaded.error.peek()?.code ?? "");

/** The pause between two looks at a run: the looks take at most a twentieth of the time. */
export const pauseOf = (loaded: Loaded): number => Math.max(detailMs, 20 * loaded.detailTookMs);
export const inherits = (d: RunDetail, run: string): boolean => d.lineage.ancestors.some((a) => a.id === run);
export const lineOf = (d: RunDetail): string => d.lineage.ancestors.map((a) => `${a.id} ${a.up_to}`).join();

/** A run has series that its list lacks. A list that is partial is read again for a small part of the time. */
export function hasMore(loaded: Loaded, known: number): boolean {
  if (loaded.stale) return true;
  if (loaded.partial.peek()) return known > loaded.named && Date.now() > loaded.againAtMs;
  let listed = loaded.list.known.size;
  if (loaded.detail.peek()?.lineage.ancestors.length)
    for (const { series } of loaded.list.known.values()) if (!isOwn(series)) listed--;
  return known > listed;
}

/** Takes last values, and series that are new in what is listed. */
export function take(loaded: Loaded, items: readonly Series[]): void {
  const found = loaded.found.peek();
  if (found) for (const s of items) loaded.list.update(s);
  if ((found ?? loaded.list).add(items)) loaded.shape.value++;
}
