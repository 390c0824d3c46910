import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Picture, RowStats } from "../api/kymograph.ts";
import { similarOrder } from "../chart/similar.ts";
import { natural } from "../chart/title.ts";
import type { Order } from "./kymograph.ts";
import { coarse, type View } from "./pictures.ts";
import { turn } from "./turn.ts";

const buckets = 64; // of a row, when rows are compared

/** The places of rows by a number, the largest first; rows without one come last, equal ones keep their order. */
export function descending(values: ArrayLike<number>): number[] {
  const rank = (v: number) => (Number.isNaN(v) ? -Infinity : v);
  const list = Array.from(values, (_, i) => i);
  return list.sort((a, b) => {
    const [x, y] = [values[a]!, values[b]!];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return rank(x) === rank(y) ? a - b : rank(x) < rank(y) ? 1 : -1;
  });
}

/** The order of rows by what is known of them; runs stay together as long as rows are in the order of their logs. */
export function orderOf(how: Order, rows: RowStats, names: string[], runs: string[]): number[] {
  if (how === "last") return descending(rows.last);
  if (how === "max") return descending(rows.max);
  if (how === "label") return names.map((_, i) => i).sort((a, b) => natural(names[a]!, names[b]!) || a - b);
  const place = new Map([...new Set(runs)].map((run, i) => [run, i]));
  const number = (i: number) => (Number.isNaN(rows.number[i]) ? Infinity : rows.number[i]!);
  return names
    .map((_, i) => i)
    .sort((a, b) => place.get(runs[a]!)! - place.get(runs[b]!)! || compare(number(a), number(b)) || a - b);
}

const compare = (a: number, b: number): number => (a === b ? 0 : a < b ? -1 : 1);

/** What an order is of, and the order; null while it is on its way. */
export interface Ordered {
  key: string;
  order: number[];
}

/**
 * The order of a view's rows, kept as long as neither the rows nor their ends change: rows of a run that goes on do not
 * jump. ready is the head of the very same view, which saves a question where it is there.
 */
export function useOrder(
  how: Order,
  view: View,
  key: string,
  names: string[],
  ready: Picture | null,
  wait: boolean,
) {
  const found = useSignal<Ordered>({ key: "", order: [] });
  const failed = useSignal("");
  const runs = view.members.map((m) => m.run);
  const direct = how !== "similar" && (how === "label" || ready !== null);
  useEffect(() => {
    if (found.peek().key === key || view.members.length === 0) return;
    failed.value = "";
    const take = (order: number[]) => {
      found.value = { key, order };
    };
    if (how === "label" || (direct && ready))
      return take(orderOf(how, ready?.rows ?? none(names.length), names, runs));
    if (how !== "similar" && wait) return; // the head is on its way
    const abort = new AbortController();
    const pause = () => turn().then(() => abort.signal.throwIfAborted());
    const find = async () => {
      const picture = await coarse(view, how === "similar" ? buckets : 1, abort.signal);
      if (how !== "similar") return orderOf(how, picture.rows, names, runs);
      return similarOrder(picture.cells, picture.columns, pause);
    };
    find().then(
      (order) => {
        if (!abort.signal.aborted) take(order);
      },
      (cause) => {
        if (!abort.signal.aborted) failed.value = (cause as Error).message;
      },
    );
    return () => abort.abort();
  }, [key, direct, wait]);
  return {
    order: found.value.key === key ? found.value.order : null,
    last: found.value,
    error: failed.value,
  };
}

function none(rows: number): RowStats {
  const empty = new Float64Array(rows).fill(Number.NaN);
  return { number: empty, last: empty, min: empty, max: empty, mean: empty, nan: empty };
}
