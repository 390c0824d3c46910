import { describe, expect, test } from "vitest";
import type { RunGroup } from "../../src/api/table.ts";
import type { Run } from "../../src/api/types.ts";
import {
  aggregateName,
  aggregateOf,
  cellOf,
  columnsText,
  fileColumns,
  found,
  moved,
  ownColumns,
  parseColumns,
  serverColumn,
} from "../../src/state/columns.ts";
import type { RunList } from "../../src/state/runlist.ts";
import { groupedRows } from "../../src/state/tablerows.ts";

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

test("rows of groups: each run once, below its group, and only those in view are read", () => {
  const runs = (n: number, of: string) => Array.from({ length: n }, (_, i) => ({ id: `${of}${i}` }) as Run);
  const groups = [3, 0, 100_000, 2].map(
    (n, i) => ({ values: [i], member: `m${i}`, runs: n, columns: [] }) as RunGroup,
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
