import { describe, expect, test, vi } from "vitest";
import { Batch } from "../../src/api/batch.ts";
import { Parser } from "../../src/api/sse.ts";
import type { BucketQuery, Run } from "../../src/api/types.ts";
import { escapeRegex, patternOf, templateRegex } from "../../src/chart/pattern.ts";
import { cardsBetween, groupHead, layout } from "../../src/part/layout.ts";
import { cellOf } from "../../src/state/columns.ts";
import { complete, quoted, unquoted } from "../../src/state/complete.ts";
import { escapeName, unescapeName } from "../../src/state/escape.ts";
import { formatChosen, parseChosen, toggleChosen } from "../../src/state/overlay.ts";
import {
  columnsOf,
  defaultColumns,
  marked,
  RunList,
  serverQuery,
  sortBySummary,
} from "../../src/state/runlist.ts";
import { random } from "../standin/data.ts";

test("a filter's error marks the character that the server counts", () => {
  expect(marked("größe=😀 =2", 9)).toEqual(["größe=😀 ", "=", "2"]);
  expect(marked("lr<", 4)).toEqual(["lr<", "\u00a0", ""]);
});

test("a column named as what every object has shows what the run has", () => {
  const run = (config: string) => ({ config: JSON.parse(config), summary: {} }) as Run;
  expect(cellOf(run('{"__proto__": 3}'), "config/__proto__")).toBe(3);
  expect(cellOf(run("{}"), "config/__proto__")).toBeUndefined();
  expect(cellOf(run("{}"), "summary/constructor")).toBeUndefined();
});

describe("search", () => {
  test.each([
    ["layers/*/grad_norm", "layers/3/grad_norm", true],
    ["layers/*/grad_norm", "layers/3/x/grad_norm", false],
    ["layers/**", "layers/3/x/grad_norm", true],
    ["*.weight", "fc1.weight", true],
    ["loss|acc", "eval/accuracy", true],
    ["^train/", "eval/train/", false],
    ["LOSS", "train/loss", true],
    ["grad.*norm", "grad_norm", true],
    ["", "anything", true],
    ["loss eval", "eval/loss", true],
    ["loss eval", "train/loss", false],
    ["loss !eval", "train/loss", true],
    ["loss !eval", "eval/loss", false],
    ["!layers/*/grad", "layers/3/grad", false],
    ["!", "anything", true],
  ])("%s on %s: %s", (text, metric, found) => {
    const p = patternOf(text);
    expect(p.ok && p.test(metric)).toBe(found);
  });
  test("half a pattern is an error in words, not an exception", () => {
    expect(patternOf("loss(")).toMatchObject({ ok: false });
    expect(templateRegex("a.b/*").test("aXb/c")).toBe(false);
  });
  test("escaped text finds itself", () => {
    const hard = "a.b*c[0]+(x)|^$\\";
    expect(new RegExp(`^${escapeRegex(hard)}$`).test(hard)).toBe(true);
  });
});

describe("chosen runs", () => {
  test("keep their colour while others come and go", () => {
    let chosen = parseChosen("A,B,C");
    expect(chosen.map((c) => c.slot)).toEqual([1, 2, 3]);
    chosen = toggleChosen(chosen, "B");
    expect(formatChosen(chosen)).toBe("A,C~3");
    chosen = toggleChosen(parseChosen(formatChosen(chosen)), "D");
    expect(chosen.find((c) => c.id === "D")?.slot).toBe(2);
    expect(parseChosen(formatChosen(chosen))).toEqual(chosen);
  });
  test("nonsense in a link does no harm", () => {
    expect(parseChosen("A~x,A,,B~1")).toEqual([
      { id: "A", slot: 2 },
      { id: "B", slot: 1 },
    ]);
  });
});

describe("batch", () => {
  const query = (metric: string): BucketQuery => ({
    run: "R",
    metric,
    scale: "ML_STEP",
    labels: {},
    x: "step",
    n: 10,
  });
  const setUp = () => {
    let flush = () => {};
    const send = vi.fn(async (queries: BucketQuery[]) =>
      queries.map((q) => ({
        columns: { lo: [q.metric.length], hi: [1], min: [], max: [], mean: [], count: [] },
      })),
    );
    const batch = new Batch(send, (run) => {
      flush = run;
    });
    return { batch, send, flush: () => flush() };
  };
  test("one request a frame, answers in order, aborted ones not asked", async () => {
    const { batch, send, flush } = setUp();
    const gone = new AbortController();
    const a = batch.fetch(query("a"), 0);
    void batch.fetch(query("gone"), 0, gone.signal);
    const b = batch.fetch(query("bb"), 0);
    gone.abort();
    flush();
    expect(await a).toMatchObject({ columns: { lo: [1] } });
    expect(await b).toMatchObject({ columns: { lo: [2] } });
    expect(send.mock.calls.map((c) => c[0].length)).toEqual([2]);
  });
  test("the same question while the first is under way is asked once", async () => {
    const { batch, send, flush } = setUp();
    const gone = new AbortController();
    const first = batch.fetch(query("a"), 0, gone.signal);
    flush();
    gone.abort();
    const second = batch.fetch(query("a"), 0);
    flush();
    expect(await second).toEqual(await first);
    expect(send).toHaveBeenCalledTimes(1);
  });
  test("500 queries a request at most, and 8,000 buckets unless they are few queries", async () => {
    const { batch, send, flush } = setUp();
    const all = Array.from({ length: 1201 }, (_, i) => batch.fetch(query(String(i)), 0));
    flush();
    await Promise.all(all);
    expect(send.mock.calls.map((c) => c[0].length)).toEqual([500, 500, 201]);
    send.mockClear();
    const wide = Array.from({ length: 460 }, (_, i) =>
      batch.fetch({ ...query(String(i)), n: i < 400 ? 40 : 1200 }, 3),
    );
    flush();
    await Promise.all(wide);
    expect(send.mock.calls.map((c) => c[0].length)).toEqual([200, 200, 50, 10]);
  });
  test("an answer is kept for its version of the data only", async () => {
    const { batch, send, flush } = setUp();
    const first = batch.fetch(query("a"), 1);
    flush();
    await first;
    await batch.fetch(query("a"), 1);
    const newer = batch.fetch(query("a"), 2);
    flush();
    await newer;
    expect(send).toHaveBeenCalledTimes(2);
    // The older answer made room: a live chart leaves no trace of its thousand versions.
    const older = batch.fetch(query("a"), 1);
    flush();
    await older;
    expect(send).toHaveBeenCalledTimes(3);
  });
});

describe("event stream", () => {
  const text =
    ': beat\n\nid: 7\nevent: run\ndata: {"a":1}\n\ndata: x\r\ndata: y\r\n\r\nevent: reset\ndata:\n\n';
  const want = [
    { id: "7", event: "run", data: '{"a":1}' },
    { id: "7", event: "message", data: "x\ny" },
    { id: "7", event: "reset", data: "" },
  ];
  test("however it is cut", () => {
    const r = random(5);
    for (let round = 0; round < 200; round++) {
      const parser = new Parser();
      const out = [];
      for (let i = 0; i < text.length; ) {
        const n = 1 + Math.floor(r() * 9);
        // A chunk that ends between \r and \n: the reader joins them as one line's end.
        let end = Math.min(text.length, i + n);
        if (text[end - 1] === "\r") end++;
        out.push(...parser.push(text.slice(i, end)));
        i = end;
      }
      expect(out).toEqual(want);
    }
  });
});

describe("layout", () => {
  const cards = Array.from({ length: 23 }, (_, i) => ({
    key: String(i),
    metric: `g${i % 3}/m${i}`,
    scale: "",
    group: `g${i % 3}`,
    members: [],
  }));
  cards.sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
  test("every card has one place, none over another, and the view holds those that meet it", () => {
    const plan = layout(cards, 1120, 200, new Set());
    const places = plan.blocks.flatMap((b) => cardsBetween(b, -1e9, 1e9).map((p) => ({ ...p, y: p.top })));
    expect(places.map((p) => p.card.key).sort()).toEqual(cards.map((c) => c.key).sort());
    expect(new Set(places.map((p) => `${p.left} ${p.y}`)).size).toBe(23);
    for (const p of places) expect(p.left + plan.cardWidth).toBeLessThanOrEqual(1120);
    const seen = plan.blocks.flatMap((b) => cardsBetween(b, 300, 500).map((p) => p.card.key));
    const want = places.filter((p) => p.y <= 500 && p.y + 208 > 300).map((p) => p.card.key);
    expect(seen.sort()).toEqual(want.sort());
  });
  test("small groups share rows: nothing lies over anything, heads stand above their first card", () => {
    const r = random(7);
    for (let round = 0; round < 200; round++) {
      const sizes = Array.from(
        { length: 1 + Math.floor(r() * 8) },
        () => 1 + Math.floor(r() * (r() < 0.6 ? 3 : 14)),
      );
      const list = sizes.flatMap((n, g) =>
        Array.from({ length: n }, (_, i) => ({
          key: `${g}/${i}`,
          metric: "",
          scale: "",
          group: `g${g}`,
          members: [],
        })),
      );
      const closed = new Set(sizes.flatMap((_, g) => (r() < 0.2 ? [`g${g}`] : [])));
      const plan = layout(list, 300 + Math.floor(r() * 1500), 200, closed);
      const boxes: [string, number, number, number, number][] = [];
      for (const b of plan.blocks) {
        const left = b.column * (plan.cardWidth + 8);
        boxes.push([`head ${b.group}`, left, b.top, left + plan.cardWidth, b.top + groupHead]);
        if (closed.has(b.group)) continue;
        const places = cardsBetween(b, -1e9, 1e9);
        expect(places.length).toBe(b.cards.length);
        expect([places[0]!.left, places[0]!.top]).toEqual([left, b.top + groupHead]);
        for (const p of places) boxes.push([p.card.key, p.left, p.top, p.left + plan.cardWidth, p.top + 200]);
      }
      for (const [i, a] of boxes.entries()) {
        expect(a[4]).toBeLessThanOrEqual(plan.height);
        for (const b of boxes.slice(0, i))
          if (a[1] < b[3] && b[1] < a[3] && a[2] < b[4] && b[2] < a[4])
            throw new Error(`${a} lies over ${b} for ${sizes}`);
      }
    }
  });
  test("no row but the last, or one in front of a closed group, has a hole: groups of 1 to 7 fill three rows of four", () => {
    for (let size = 1; size <= 7; size++) {
      const list = Array.from({ length: 42 }, (_, i) => ({
        ...{ key: `${i}`, metric: "", scale: "", group: `g${Math.floor(i / size)}`, members: [] },
      }));
      const plan = layout(list, 1120, 200, new Set());
      const places = plan.blocks.flatMap((b) => cardsBetween(b, -1e9, 1e9));
      expect(places.filter((p) => p.top + 200 <= 3 * (24 + 208)).length).toBe(12);
      expect(new Set(places.map((p) => p.top)).size).toBe(Math.ceil(42 / 4));
    }
  });
  test("a closed group keeps its head", () => {
    expect(layout(cards, 1120, 200, new Set(["g0"])).blocks[0]!.height).toBeLessThan(50);
  });
});

describe("table", () => {
  const run = (id: string, config: Run["config"], acc?: number | string) =>
    ({ id, config, summary: acc === undefined ? {} : { "eval/acc": { value: acc } } }) as unknown as Run;
  const runs = [
    run("a", { lr: 0.1, bs: 4 }, 0.5),
    run("b", { lr: 0.2, bs: 4 }, 0.9),
    run("c", { lr: 0.1, bs: 4 }),
    run("d", { lr: 0.1, bs: 4 }, "NaN"),
  ];
  test("shows what differs first", () => {
    const all = columnsOf(runs);
    expect(all.find((c) => c.name === "config/bs")?.varies).toBe(false);
    expect(defaultColumns(all)).toEqual(["config/lr", "summary/eval/acc"]);
  });
  test("sorts by a summary with the missing ones last, both ways", () => {
    expect(sortBySummary(runs, "-summary/eval/acc").map((r) => r.id)).toEqual(["b", "a", "c", "d"]);
    expect(sortBySummary(runs, "summary/eval/acc").map((r) => r.id)).toEqual(["a", "b", "c", "d"]);
  });
  test("asks the server for the order of a metric, and leaves archived runs out", () => {
    const ask = (q: string, sort = "") => serverQuery({ q, status: "", sort });
    expect(ask("", "-summary/eval/acc")).toMatchObject({ q: "not tag=archived", sort: "-last(eval/acc)" });
    expect(ask("a or b", "summary/my loss")).toMatchObject({
      q: "not tag=archived (a or b)",
      sort: 'last("my loss")',
    });
    for (const q of ["tag=archived", 'not (tag = "archived") or a', "x (tag!=archived)"])
      expect(ask(q).q).toBe(q);
    for (const q of ["name=archived-x", "tag=archived-x", "archived"])
      expect(ask(q).q).toBe(`not tag=archived (${q})`);
  });
  test("a column of the least value reads the summary of odd names too", () => {
    const odd = { config: {}, summary: { "a b": { value: 2, min: 1, max: 3 } } } as unknown as Run;
    expect([cellOf(odd, 'min("a b")'), cellOf(odd, "max(a b)"), cellOf(odd, "min(__proto__)")]).toEqual([
      1,
      3,
      undefined,
    ]);
  });
});

test("all runs of a list are those of its last question, or none", async () => {
  const answers: Record<string, () => Promise<Response>> = {
    first: async () => Response.json({ runs: [{ id: "a" }], next: "" }),
    second: async () => {
      await new Promise((done) => setTimeout(done, 50));
      return Response.json({ runs: [{ id: "b" }], next: "more" });
    },
    more: async () => Response.json({ runs: [{ id: "c" }], next: "" }),
    gone: async () => Promise.reject(new TypeError("no connection")),
  };
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (path: string) => {
    const params = new URL(path, "http://page").searchParams;
    return answers[params.get("cursor") || /\((.*)\)/.exec(params.get("q")!)![1]!]!();
  });
  const list = new RunList("w", "p");
  const ask = async (q: string) => {
    list.ask({ q, status: "", sort: "" });
    return (await list.all()).map((r) => r.id);
  };
  expect(await ask("first")).toEqual(["a"]);
  expect(await ask("second")).toEqual(["b", "c"]);
  expect(await ask("gone")).toEqual([]);
  vi.unstubAllGlobals();
});

describe("completion", () => {
  const known = {
    config: ["lr", "a b"],
    metrics: ["train/loss", "eval/loss", "__proto__", "zero\u200bwidth"],
    tags: ["best", "my tag"],
  };
  const texts = (line: string, caret = line.length) =>
    complete(line, caret, known)?.choices.map((c) => c.text);
  test.each([
    ["l", "lr"],
    ["lr<1 ev", "eval/loss"],
    ["min(tr", "train/loss"],
    ["status=fa", "failed"],
    ["not (tag=", "best"],
    ["tag=my", '"my tag"'],
    ["a b", '"a b"'],
    ["__p", "__proto__"],
    ["wid", "zero\u200bwidth"],
  ])("%s offers %s", (line, want) => expect(texts(line)).toContain(want));
  test("replaces the whole word at the caret, and offers nothing inside of quotes or after nothing", () => {
    expect(complete("x eva/lo<1", 4, known)).toMatchObject({ from: 2, to: 8 });
    expect(texts('name="l')).toBeUndefined();
    expect(texts("")).toBeUndefined();
    expect(texts("lr<")).toBeUndefined();
  });
  test("what it writes reads as the name", () => {
    for (const name of ["a b", 'q"uote', "back\\slash", "or", "x=1", "plain/name"])
      expect(unquoted(quoted(name))).toBe(name);
  });
});

test("names in lists of an address are read back as they were, and nothing throws", () => {
  for (const name of ["config/lr", "a,b", "~", "%", "%2C", "100 %", "", "é,~%25"]) {
    expect(unescapeName(escapeName(name))).toBe(name);
    expect(escapeName(name)).not.toMatch(/[,~]/);
  }
  expect(unescapeName("%zz %")).toBe("%zz %");
});
