import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Curve } from "../chart/curve.ts";
import { justBefore, leadOf } from "../chart/lead.ts";
import { reach, type Smoothing } from "../chart/smooth.ts";
import { ask, type Wanted } from "./wanted.ts";

const buckets = 512; // of a lead; many lines ask for no more than they draw
const digits = 7;
const none: ReadonlyMap<string, Curve> = new Map();

/** What lies before a zoom and still has weight in the EMA of what is drawn, by line. */
export function useLeads(wanted: Wanted[], smoothing: Smoothing): ReadonlyMap<string, Curve> {
  const found = useSignal<{ key: string; leads: ReadonlyMap<string, Curve> }>({ key: "", leads: none });
  const weight = smoothing.kind === "ema" ? smoothing.weight : 0;
  const cut = weight ? wanted.filter((w) => w.query.from !== undefined && !w.faded) : [];
  const key = cut.length ? JSON.stringify([weight, ...cut.map((w) => [w.query, w.member.series.count])]) : "";
  useEffect(() => {
    if (!key) return;
    const abort = new AbortController();
    const leads = Promise.all(
      cut.map(async (w) => [w.id, await leadFor(w, reach(weight), abort.signal)] as const),
    );
    leads.then(
      (all) => {
        const known = all.flatMap(([id, lead]) => (lead ? [[id, lead] as const] : []));
        if (!abort.signal.aborted) found.value = { key, leads: new Map(known) };
      },
      () => {}, // the question for what is drawn tells what is wrong
    );
    return () => abort.abort();
  }, [key]);
  return found.value.key === key ? found.value.leads : none;
}

function leadFor(w: Wanted, points: number, abort: AbortSignal): Promise<Curve | undefined> {
  const n = Math.min(buckets, w.query.n);
  const { from, ...query } = w.query;
  return leadOf(
    async (range) => {
      const result = await ask(w, { ...query, ...range, n }, abort, digits);
      return "error" in result ? null : result.columns;
    },
    justBefore(from!),
    n,
    points,
  );
}
