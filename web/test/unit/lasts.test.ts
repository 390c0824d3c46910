import { expect, test } from "vitest";
import type { Series } from "../../src/api/types.ts";
import { lastsOf } from "../../src/state/lasts.ts";

const series = (metric: string, value: unknown, change: object = {}): Series =>
  ({ metric, scale: "ML_STEP", labels: {}, kind: "float64", last: { value }, ...change }) as never;

// The rules are those of the server's package summary, with the cases of its own test.
test("last values are of plain series: ML_STEP stands for a metric, evaluation is told apart", () => {
  const evaluation = { labels: { evaluation: "true" } };
  const list = [
    series("loss", 1),
    series("loss", 2, { scale: "EPISODE" }),
    series("loss", 3, evaluation),
    series("score", 4, evaluation),
    series("reward", 5, { scale: "EPISODE" }),
    series("reward", 6, { scale: "ML_STEP", labels: { env_id: "default" } }),
    series("reward", 7, { labels: { env_id: "other" } }),
    series("note", "x", { kind: "text" }),
    series("empty", 0, { last: null }),
    series("__proto__", "NaN"),
  ];
  const lasts = lastsOf(list);
  expect(Object.entries(lasts).map(([name, s]) => [name, s.value])).toEqual([
    ["loss", 1],
    ["loss (evaluation)", 3],
    ["score", 4],
    ["reward", 6],
    ["__proto__", "NaN"],
  ]);
});
