import { computed } from "@preact/signals";
import { type KymographRow, mostRows, type Reduction } from "../api/kymograph.ts";
import { type Member, type Order, orders, parseLimits, parseRows } from "../chart/rows.ts";
import { param, setParams, withParams } from "./route.ts";

/** What the kymograph shows, as the address says it. The x axis and its zoom are those of the charts, see view.ts. */

export const metric = computed(() => param("metric"));
export const scale = computed(() => param("scale"));
export const reduce = computed<Reduction>(() => {
  const text = param("reduce");
  return text === "min" || text === "max" ? text : "mean";
});

const order = computed<Order>(() => orders.find(([name]) => name === param("order"))?.[0] ?? "");

/** The order of so many rows: similarity is told of as many as one picture has. */
export const orderOf = (rows: number): Order =>
  order.value === "similar" && rows > mostRows ? "" : order.value;

export type Bar = "last" | "min" | "max" | "mean";
export const bars: Bar[] = ["last", "min", "max", "mean"];
export const bar = computed<Bar>(() => bars.find((b) => b === param("bar")) ?? "last");
export const height = computed(() => param("height"));
export const row = computed(() => param("row"));

const limitsText = computed(() => param("limits"));
export const limits = computed(() => parseLimits(limitsText.value));

export function setLimits(next: [number, number] | null): void {
  setParams({ limits: next ? next.map((v) => String(Number(v.toPrecision(6)))).join(",") : "" });
}

const rowsText = computed(() => param("rows"));
/** The rows in view, first and last (not included) in the order that is shown; null for all. */
export const rows = computed(() => parseRows(rowsText.value));

export const rowOf = ({ run, series }: Member): KymographRow => ({
  ...{ run, metric: series.metric, scale: series.scale, labels: series.labels },
});

/** Where the kymograph of a metric, or of all that a selector takes, is. */
export function kymographPath(run: string, selector: string, change: Record<string, string> = {}): string {
  const params = new URLSearchParams({ metric: selector });
  for (const [name, value] of Object.entries(change)) if (value) params.set(name, value);
  return withParams(`/runs/${encodeURIComponent(run)}/kymograph`, params);
}

/** What the charts and the kymograph of a run have in common in the address: the axis, its zoom, the other runs. */
export function shared(): Record<string, string> {
  return { x: param("x"), zoom: param("zoom"), with: param("with") };
}
