import { afterEach, describe, expect, test, vi } from "vitest";
import type { RunGroup } from "../../src/api/table.ts";
import type { Run } from "../../src/api/types.ts";
import {
  aggregateName,
  aggregateOf,
  askedColumns,
  cellOf,
  columnsText,
  fileColumns,
  found,
  moved,
  ownColumns,
  parseColumns,
  serverColumn,
} from "../../src/state/columns.ts";
import { parseWays, waysText } from "../../src/state/direction.ts";
import type { RunList } from "../../src/state/runlist.ts";
import { joined, pieces } from "../../src/state/statistics.ts";
import { groupedRows, groupLabel } from "../../src/state/tablerows.ts";

const odd = [
  "__proto__",
  "a,b",
  "a~120",
  "a%2Cb",
  'q"uote',
  "zero\u200bwidth",
  "with space",
  "50%",
  "a)b",
  "ä, 5",
];

describe("columns as a text", () => {
  test("every name, width and pin comes back", () => {
    const columns = [
      { name: "name", pinned: true },
      ...odd.map((name, i) => ({ name: `config/${name}`, ...(i % 2 && { width: 100 + i }) })),
      ...odd.map((name) => ({ name: aggregateName("at", name, "1000") })),
    ];
    expect(parseColumns(columnsText(columns))).toEqual(columns);
  });

  test("older links name no column of the run itself, and had all of them", () => {
    expect(parseColumns("config/lr,summary/loss").map((c) => c.name)).toEqual([
      ...ownColumns,
      "config/lr",
      "summary/loss",
    ]);
    expect(parseColumns("none").map((c) => c.name)).toEqual(ownColumns);
  });

  test("a column comes once, pinned ones first, and no width is absurd", () => {
    expect(parseColumns("name,config/a~9999999,~config/b~1,config/a")).toEqual([
      { name: "config/b", width: 44, pinned: true },
      { name: "name" },
      { name: "config/a", width: 1200 },
    ]);
  });

  test("moves to either side, and into the pinned ones", () => {
    const of = (...names: string[]) => names.map((name) => ({ name }));
    const order = (columns: { name: string }[]) => columns.map((c) => c.name).join("");
    expect(order(moved(of("a", "b", "c"), "a", "c"))).toBe("bca");
    expect(order(moved(of("a", "b", "c"), "c", "a"))).toBe("cab");
    expect(order(moved(of("a", "b", "c"), "b", "b"))).toBe("abc");
    expect(moved([{ name: "a", pinned: true }, { name: "b" }, { name: "c" }], "c", "a")).toEqual([
      { name: "c", pinned: true },
      { name: "a", pinned: true },
      { name: "b" },
    ]);
  });
});

describe("a column of a metric", () => {
  test("is named as the filter names it, whatever its name", () => {
    for (const name of odd)
      for (const of of ["last", "min", "max", "best", "at", "spark"] as const) {
        const column = aggregateName(of, name, of === "at" ? "-5" : "");
        expect(aggregateOf(column)).toEqual({ of, metric: name, step: of === "at" ? "-5" : "" });
      }
    expect(aggregateOf("at(loss)")).toBeNull();
    expect(aggregateOf("config/min(x)")).toBeNull();
  });

  test("asks the server for what the reader calls best", () => {
    expect(serverColumn("best(eval/loss)")).toBe("min(eval/loss)");
    expect(serverColumn("best(accuracy)")).toBe("max(accuracy)");
    expect(serverColumn("summary/my loss")).toBe('last("my loss")');
    expect(serverColumn("at(eval/loss, 1000)")).toBe("at(eval/loss, 1000)");
    expect(serverColumn("name")).toBe("");
    expect(
      fileColumns([{ name: "name" }, { name: "spark(loss)" }, { name: "duration" }, { name: "max(a b)" }]),
    ).toEqual(["id", "name", "duration_ms", 'max("a b")']);
  });

  test("shows what the run has, and nothing that every object has", () => {
    const summary = JSON.parse(
      '{"__proto__": {"value": 2, "min": 1}, "loss": {"value": 3, "min": 1, "max": 9}}',
    );
    const run = { config: {}, summary, values: { "at(loss, 5)": 7 } } as unknown as Run;
    expect(cellOf(run, "best(loss)")).toBe(1);
    expect(cellOf(run, "max(loss)")).toBe(9);
    expect(cellOf(run, "at(loss, 5)")).toBe(7);
    expect(cellOf(run, "at(loss, 6)")).toBeUndefined();
    expect(cellOf(run, "min(__proto__)")).toBe(1);
    expect(cellOf(run, "min(constructor)")).toBeUndefined();
    expect(cellOf({ ...run, values: undefined }, "at(toString, 1)")).toBeUndefined();
  });

  test("is asked for where a list leaves it out", () => {
    const columns = [
      "name",
      "config/lr",
      "summary/loss",
      "best(loss)",
      "spark(loss)",
      "at(loss, 5)",
      "best(odd)",
    ];
    const all = columns.map((name) => ({ name }));
    expect(askedColumns(all, { config: false, summary: false })).toEqual(["at(loss, 5)"]);
    expect(askedColumns(all, { config: true, summary: true })).toEqual([
      ...["config/lr", "last(loss)", "min(loss)", "at(loss, 5)"],
    ]);
    const cut = {
      ...{ config: {}, summary: {} },
      values: { "config/lr": 0.1, "max(acc)": 3, "last(acc)": 2 },
    } as unknown as Run;
    expect(
      ["config/lr", "max(acc)", "summary/acc", "best(acc)", "min(acc)"].map((c) => cellOf(cut, c)),
    ).toEqual([...[0.1, 3, 2, 3, undefined]]);
    expect(fileColumns(all)).toEqual(["id", "name", "config/lr", "last(loss)", "min(loss)", "at(loss, 5)"]);
    const wide = Array.from({ length: 3000 }, (_, i) => ({ name: `config/${"x".repeat(40)}${i}` }));
    expect(askedColumns(wide, { config: true, summary: false }).join("&column=").length).toBeLessThan(48_000);
  });

  test("is found by typing, also at a step", () => {
    const all = [
      { name: "config/lr", varies: true },
      { name: "summary/eval/loss", varies: true },
      { name: "summary/odd", varies: true },
    ];
    const names = (words: string) => found(all, words).map((c) => c.name);
    expect(names("best")).toEqual(["best(eval/loss)"]); // nobody knows which way odd is better
    expect(names("at(eval/loss, 1000)")[0]).toBe("at(eval/loss, 1000)");
    expect(names("spark")).toEqual(["spark(eval/loss)", "spark(odd)"]);
    expect(names("")).toContain("tags");
    expect(new Set(names("")).size).toBe(names("").length);
  });
});

describe("statistics of many columns", () => {
  const columns = Array.from({ length: 1000 }, (_, i) => `config/p${i}`);

  test("are asked for in pieces, each sorted by the same column", () => {
    const all = pieces([...columns, "config/p5"], "-mean:640");
    expect(all.every((p) => p.columns.length <= 100 && p.columns[0] === "config/p640")).toBe(true);
    expect(all.every((p) => p.sort === "-mean:0")).toBe(true);
    expect(all.flatMap((p) => p.columns.slice(1)).length).toBe(999);
    expect(new Set(all.flatMap((p) => p.columns))).toEqual(new Set(columns));
    expect(pieces(columns.slice(0, 3), "key")).toEqual([{ columns: columns.slice(0, 3), sort: "key" }]);
    expect(pieces([], "-runs")).toEqual([{ columns: [], sort: "-runs" }]);
  });

  test("whose names are long are asked for in more", () => {
    const long = Array.from({ length: 90 }, (_, i) => `min("${String(i).padStart(1000, "é")}")`);
    for (const { columns } of pieces(long, "key"))
      expect(columns.map((c) => `column=${encodeURIComponent(c)}`).join("&").length).toBeLessThan(60_000);
    expect(pieces(long, "key").flatMap((p) => p.columns)).toEqual(long);
  });

  test("come together by group, also where groups came and went in between", () => {
    const s = (n: number) => ({ ...{ n, mean: n, std: null, min: n, max: n }, min_run: null, max_run: null });
    const group = (member: string, ...of: number[]): RunGroup => ({
      ...{ values: [member], types: ["string"], member, runs: 1, columns: of.map(s) },
    });
    const answer = (...shown: RunGroup[]) => ({ runs: shown.length, groups: shown.length, shown });
    const all = joined(
      ["a", "b", "c", "b"],
      [
        { columns: ["b", "a"], answer: answer(group("x", 2, 1), group("y", 5, 4)) },
        { columns: ["b", "c"], answer: answer(group("z", 7, 8), group("x", 2, 3)) },
      ],
    );
    expect(all.shown.map((g) => [g.member, g.columns.map((c) => c.n)])).toEqual([
      ["x", [1, 2, 3, 2]],
      ["y", [4, 5, 0, 5]],
    ]);
  });
});

test("no two groups look alike", () => {
  const values: [unknown, string | null][] = [
    ...([1, "1", null, "none", true, "true", "NaN", "", " ", '"1"', "0x10", "a"] as const).map(
      (v): [unknown, string | null] => [
        v,
        v === null ? null : typeof v === "number" ? "int64" : typeof v === "boolean" ? "bool" : "string",
      ],
    ),
    ["NaN", "float64"],
    [["a", "b"], "string_set"],
    ["a, b", "string"],
    ["9007199254740993", "int64"],
    ["9007199254740993", "string"],
    [1, "time"],
  ];
  const labels = values.map(([value, type]) =>
    groupLabel({ values: [value as never], types: [type], runs: 1, columns: [] }, ["config/x"]),
  );
  expect(new Set(labels).size).toBe(labels.length);
  expect(labels.slice(0, 4)).toEqual(["x = 1", 'x = "1"', "x = none", 'x = "none"']);
  expect(labels.at(-7)).toBe("x = a");
});

test("directions come back from the address as they were chosen", () => {
  const ways = new Map(odd.map((metric, i) => [metric, i % 2 ? "up" : "down"] as const));
  expect(new Map(parseWays(waysText(ways)))).toEqual(ways);
  expect(new Map(parseWays("loss~sideways,~,a~b~up,x~up"))).toEqual(new Map([["x", "up"]]));
});

test("rows of groups: each run once, below its group, and only those in view are read", () => {
  const runs = (n: number, of: string) => Array.from({ length: n }, (_, i) => ({ id: `${of}${i}` }) as Run);
  const groups = [3, 0, 100_000, 2].map(
    (n, i): RunGroup => ({ values: [i], types: ["int64"], member: `m${i}`, runs: n, columns: [] }),
  );
  const asked: string[] = [];
  const list = (name: string) =>
    ({ name, reach: (to: number) => asked.push(`${name} ${to}`) }) as unknown as RunList;
  const lists = new Map([
    ["m0", list("m0")],
    ["m2", list("m2")],
  ]);
  const read = (l: RunList) => runs((l as unknown as { name: string }).name === "m0" ? 3 : 50, "r");
  const rows = groupedRows(groups, lists, read);
  const naive: string[] = [];
  for (const g of groups) {
    naive.push(`group ${g.member}`);
    const open = lists.get(g.member!);
    if (open) for (let i = 0; i < g.runs; i++) naive.push(read(open)[i]?.id ?? "waiting");
  }
  expect(rows.total).toBe(naive.length);
  for (const at of [0, 1, 3, 4, 5, 6, 55, 56, 57, 99_999, naive.length - 2, naive.length - 1]) {
    const line = rows.at(at);
    expect(line.group ? `group ${line.group.member}` : (line.run?.id ?? "waiting")).toBe(naive[at]);
  }
  rows.reach(0, 4);
  expect(asked).toEqual(["m0 3"]);
  rows.reach(60, 90);
  expect(asked.slice(1)).toEqual(["m2 84"]);
  expect(groupedRows([], lists, read).total).toBe(0);
});

describe("a filter that finds nothing", () => {
  afterEach(() => vi.unstubAllGlobals());

  const answer = (runs: object[], hint?: string) =>
    vi
      .stubGlobal("sessionStorage", { getItem: () => null })
      .stubGlobal("fetch", async () =>
        Response.json({ runs, next: "" }, { headers: hint ? { "Kymogram-Hint": hint } : {} }),
      );

  test("says what it may have meant", async () => {
    const { RunList } = await import("../../src/state/runlist.ts");
    const list = new RunList("w", "p");
    const asked = async (q: string) => {
      list.ask({ q, status: "", sort: "" });
      await vi.waitFor(() => expect(list.next.value).toBe(""));
      return list.hint.value;
    };
    answer([], String.raw`no run of w/p has "gr\u00f6\u00dfe\U0001f600\\"; did you mean "lr"?`);
    expect(await asked("größe😀=1")).toBe(String.raw`no run of w/p has "größe😀\"; did you mean "lr"?`);
    answer([]);
    expect(await asked("lr=2")).toBe("");
  });

  test("says it where runs are compared, too", async () => {
    vi.stubGlobal("location", { pathname: "/", search: "", hash: "" });
    const { Comparison } = await import("../../src/state/comparison.ts");
    const all = new Comparison("w", "p");
    answer([], 'no run of w/p has "foo"');
    await all.ask(new Set(), { q: "foo=1", status: "", sort: "" });
    expect([all.complete.value, all.hint.value]).toEqual([true, 'no run of w/p has "foo"']);
    all.close();
  });
});
