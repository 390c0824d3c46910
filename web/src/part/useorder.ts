import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Picture, RowStats } from "../api/kymograph.ts";
import { type Order, orderOf } from "../chart/rows.ts";
import { similarOrder } from "../chart/similar.ts";
import { coarse, type View } from "../state/pictures.ts";
import { turn } from "../state/turn.ts";

const buckets = 64; // of a row, when rows are compared

/** What an order is of, and the order; null while it is on its way. */
interface Ordered {
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
