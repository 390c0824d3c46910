import { describe, expect, test } from "vitest";
import type { Run, Series } from "../../src/api/types.ts";
import type { PanelSpec, Reduction } from "../../src/api/view.ts";
import {
  distance,
  type Found,
  groups,
  idOf,
  matcher,
  nearest,
  ranked,
  reduce,
  select,
  shortNames,
  since,
  spanOf,
  type Totals,
  tableOf,
  totalsOf,
} from "../../src/chart/panel.ts";

const run = (name: string, tags: string[] = []): Run =>
  ({ id: name, name, tags, display_name: "" }) as unknown as Run;
const made = (
  of: Run,
  metric: string,
  labels: Record<string, string> = {},
  last?: [number, number],
): Found => ({
  run: of,
  series: {
    ...{ metric, labels, scale: "ML_STEP", kind: "float64", axes: ["step"], count: 1 },
    last: last && { value: last[1], time_ns: last[0] },
  } as Series,
});
const panel = (change: Partial<PanelSpec>): PanelSpec => ({
  title: "p",
  kind: "stat",
  query: { metrics: ["**"] },
  ...change,
});

describe("what a panel takes", () => {
  test("patterns are whole, count capitals, and * stops at a slash", () => {
    for (const [pattern, text, want] of [
      ["loss", "loss", true],
      ["loss", "Loss", false],
      ["loss", "train/loss", false],
      ["*/loss", "train/loss", true],
      ["*/loss", "a/b/loss", false],
      ["**/loss", "a/b/loss", true],
      ["a.b", "axb", false],
      ["(a|b)", "a", false],
      ["", "anything/at all\n", true],
    ] as const)
      expect([pattern, text, matcher(pattern).test(text)]).toEqual([pattern, text, want]);
  });

  test("runs, tags, labels and kinds", () => {
    const [a, b] = [run("miner-1", ["x"]), run("validator-1")];
    const all = [
      made(a, "loss"),
      made(b, "loss"),
      made(b, "w", { uid: "2" }),
      made(b, "w", { uid: "12" }),
      made(a, "text"),
    ];
    all[4]!.series.kind = "text";
    const names = (query: Partial<PanelSpec["query"]>) =>
      select(panel({ query: { metrics: ["**"], ...query } }), all).map(
        (f) => `${f.run.name} ${f.series.metric}${f.series.labels.uid ?? ""}`,
      );
    expect(names({})).toEqual(["miner-1 loss", "validator-1 loss", "validator-1 w2", "validator-1 w12"]);
    expect(names({ runs: "miner-*" })).toEqual(["miner-1 loss"]);
    expect(names({ tags: ["x"] })).toEqual(["miner-1 loss"]);
    expect(names({ labels: { uid: "1*" } })).toEqual(["validator-1 w12"]);
    expect(names({ metrics: ["w", "loss"], runs: "validator-*" })).toHaveLength(3);
    expect(names({ metrics: ["text"] })).toEqual([]);
  });

  test("names say what tells the lines apart", () => {
    const [a, b] = [run("a"), run("b")];
    expect(shortNames([made(a, "m"), made(b, "m")])).toEqual(["a", "b"]);
    expect(shortNames([made(a, "m"), made(a, "n")])).toEqual(["m", "n"]);
    expect(shortNames([made(a, "m", { u: "1" }), made(a, "m", { u: "2" })])).toEqual(["u=1", "u=2"]);
    expect(shortNames([made(a, "m", { u: "1" }), made(b, "m", { u: "2" })])).toEqual(["a · u=1", "b · u=2"]);
    expect(shortNames([made(a, "m")])).toEqual(["a"]);
  });
});

describe("a range of time", () => {
  test("is a number and a unit", () => {
    for (const [text, ms] of [
      ["1m", 60_000],
      ["24h", 86_400_000],
      ["7d", 604_800_000],
      ["9999w", 9999 * 604_800_000],
      ...["", "all", "0h", "01h", "1.5h", "-1h", "10000h", "1y", " 1h", "1h "].map((bad) => [bad, undefined]),
    ] as const)
      expect([text, spanOf(text as string)]).toEqual([text, ms]);
  });

  test("takes the series with a point since it began", () => {
    const a = run("a");
    const all = [made(a, "old", {}, [99, 1]), made(a, "new", {}, [100, 1]), made(a, "none")];
    expect(since(all, undefined)).toEqual(all);
    expect(since(all, { from: 100, to: 200 }).map((f) => f.series.metric)).toEqual(["new"]);
  });
});

describe("the value of a group", () => {
  // Points of three series; the naive value is that of all of them in one list.
  const points = [[1, 2, Number.NaN], [10, 20, 30, 40], [Number.NaN]];
  const a = run("a");
  const found = points.map((p, i) => made(a, "m", { i: String(i) }, [100 - i, p.at(-1)!]));
  const totals = new Map<string, Totals>(
    points.map((p, i) => {
      const finite = p.filter(Number.isFinite);
      const columns = {
        ...{ lo: [0], hi: [1], count: [finite.length], nan: [p.length - finite.length] },
        min: [finite.length ? Math.min(...finite) : null],
        max: [finite.length ? Math.max(...finite) : null],
        mean: [finite.length ? finite.reduce((x, y) => x + y, 0) / finite.length : null],
      };
      return [idOf(found[i]!), totalsOf(columns)];
    }),
  );
  const value = (how: Reduction, members: Found[]) => reduce(how, members, (f) => totals.get(idOf(f)));

  test("is that of one list of all points", () => {
    const finite = points.flat().filter(Number.isFinite);
    expect(value("mean", found)).toBeCloseTo(finite.reduce((x, y) => x + y, 0) / finite.length, 12);
    expect(value("min", found)).toBe(Math.min(...finite));
    expect(value("max", found)).toBe(Math.max(...finite));
    expect(value("count", found)).toBe(finite.length);
    expect(value("nan", found)).toBe(2);
    expect(value("time", found)).toBe(100);
    expect(value("last", found)).toBeNaN(); // the newest point is NaN
    expect(value("last", [found[1]!])).toBe(40);
    expect(value("mean", [found[2]!])).toBeUndefined();
    expect(value("count", [found[2]!])).toBe(0);
  });

  test("what has no value comes last in both orders", () => {
    const all = [{ value: 1 }, { value: undefined }, { value: 3 }, { value: Number.NaN }, { value: 2 }];
    const order = (o: "asc" | "desc", top?: number) =>
      ranked(all, panel({ order: o, top })).map((v) => v.value);
    expect(order("asc")).toEqual([1, 2, 3, undefined, Number.NaN]);
    expect(order("desc", 2)).toEqual([3, 2]);
    expect(ranked(all, panel({}))).toEqual(all);
  });

  test("groups and tables", () => {
    const [m1, m2] = [run("m-2"), run("m-10")];
    const all = [
      made(m1, "a/x", { uid: "1" }, [1, 5]),
      made(m1, "a/y", { uid: "1" }, [1, 6]),
      made(m2, "a/x", { uid: "2" }, [1, 7]),
      made(m2, "a/x", { uid: "3" }, [2, 8]),
    ];
    expect(groups(all, ["run"]).map((g) => [g.key, g.members.length])).toEqual([
      [["m-2"], 2],
      [["m-10"], 2],
    ]);
    expect(groups(all, []).map((g) => g.members.length)).toEqual([4]);
    const table = tableOf(
      panel({ kind: "table", query: { metrics: ["a/y", "a/*"] }, order: "desc" }),
      all,
      () => undefined,
    );
    expect(table.columns).toEqual(["a/y", "a/x"]);
    expect(table.rows.map((r) => [r.key, r.cells])).toEqual([
      [["m-2"], [6, 5]],
      [["m-10"], [undefined, 8]],
    ]);
    const byRun = tableOf(panel({ kind: "table", by: ["label.uid"], columns: "run" }), all, () => undefined);
    expect(byRun.columns).toEqual(["m-2", "m-10"]);
    expect(byRun.rows.map((r) => [r.key, r.cells])).toEqual([
      [["1"], [5, undefined]], // two metrics of one time: the first by name
      [["2"], [undefined, 7]],
      [["3"], [undefined, 8]],
    ]);
  });
});

test("a name that is not there has those near to it", () => {
  expect(distance("kitten", "sitting")).toBe(3);
  expect(nearest("train/los", ["train/loss", "eval/loss", "lr", "train/loss"])).toEqual(["train/loss"]);
  expect(nearest("loss", ["accuracy"])).toEqual([]);
});

test("metrics of one panel are named by their last parts, where these differ", () => {
  const [a, b] = [run("a"), run("b")];
  const all = [made(a, "g/max"), made(b, "g/max"), made(a, "g/mean")];
  expect(shortNames(all)).toEqual(["a · max", "b · max", "a · mean"]);
  expect(shortNames([made(a, "g/max"), made(a, "h/max")])).toEqual(["g/max", "h/max"]);
});
