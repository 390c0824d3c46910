import { describe, expect, test } from "vitest";
import * as a from "../../src/state/arrangement.ts";
import type { Card } from "../../src/state/session.ts";
import { random } from "../standin/data.ts";

const card = (metric: string): Card => ({
  ...{ key: `${metric}\u0000ML_STEP`, metric, scale: "ML_STEP", members: [] },
  group: `/${metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : ""}`,
});
const cards = ["lr", "eval/acc", "eval/loss", "train/acc", "train/loss", "train/norm"].map(card);
/** What is shown: each section and its metrics. */
function shown(by: a.Arrangement, of = cards): string[] {
  const out = new Map<string, string[]>();
  for (const c of a.arrange(of, by)) out.set(c.group, [...(out.get(c.group) ?? []), c.metric]);
  return [...out].map(([id, metrics]) => `${id}: ${metrics.join(" ")}`);
}

describe("the places of charts", () => {
  test("without a reader's wish are those of their names", () => {
    expect(shown({})).toEqual([
      "/: lr",
      "/eval: eval/acc eval/loss",
      "/train: train/acc train/loss train/norm",
    ]);
  });

  test("pins come first, in their order, and go back to where they were", () => {
    const pinned = a.togglePinned(a.togglePinned({}, "train/loss"), "lr");
    expect(shown(pinned)).toEqual([
      ...["pinned: train/loss lr", "/eval: eval/acc eval/loss", "/train: train/acc train/norm"],
    ]);
    expect(shown(a.togglePinned(a.togglePinned(pinned, "lr"), "train/loss"))).toEqual(shown({}));
  });

  test("a section that was made takes charts from others, is renamed and removed", () => {
    let by: a.Arrangement = a.placeIn({}, a.madeId("A"), ["train/norm", "lr"]);
    expect(shown(by)[0]).toBe("+A: train/norm lr");
    by = a.placeIn(by, a.madeId("B"), ["lr"]);
    expect(shown(by).slice(0, 2)).toEqual(["+A: train/norm", "+B: lr"]);
    by = a.orderSections(by, ["/train", "+B", "+A", "/eval"]);
    by = a.toggleFolded(a.renameSection(by, "B", "C"), "+C");
    expect([by.order, by.folded]).toEqual([["/train", "+C", "+A", "/eval"], ["+C"]]);
    expect(shown(by)[0]).toBe("/train: train/acc train/loss");
    by = a.removeSection(a.removeSection(by, "C"), "A");
    expect([by.sections, by.order, by.folded]).toEqual([[], ["/train", "/eval"], []]);
    // The last chart that leaves a section takes it along.
    expect(a.sendHome(a.placeIn<a.Arrangement>({}, "+A", ["lr"]), "lr").sections).toEqual([]);
  });

  test("a pinned chart of a section goes back to the section", () => {
    const by = a.togglePinned(a.placeIn({}, "+A", ["lr", "eval/acc"]), "lr");
    expect(shown(by).slice(0, 2)).toEqual(["pinned: lr", "+A: eval/acc"]);
    expect(shown(a.togglePinned(by, "lr"))[0]).toBe("+A: lr eval/acc");
  });

  test("what was moved in the section of a prefix comes first there", () => {
    const by = a.placeIn({}, "/train", ["train/norm", "train/gone"]);
    expect(shown(by)[2]).toBe("/train: train/norm train/acc train/loss");
  });

  test("names that every object has are names like any other", () => {
    const hostile = ["__proto__", "constructor/x", "<img src=x onerror=alert(1)>/y"].map(card);
    const by = a.placeIn(a.togglePinned({}, "__proto__"), a.madeId("__proto__"), ["constructor/x"]);
    expect(shown(by, hostile)).toEqual([
      ...["pinned: __proto__", "+__proto__: constructor/x"],
      "/<img src=x onerror=alert(1)>: <img src=x onerror=alert(1)>/y",
    ]);
    expect(shown(a.merge({}, by, {}), hostile)).toEqual(shown(by, hostile));
  });

  test("of 100,000 charts take a moment", () => {
    const many = Array.from({ length: 100_000 }, (_, i) => card(`g${i % 100}/m${i}`));
    const by: a.Arrangement = { pinned: many.slice(0, 2000).map((c) => c.metric), order: ["/g50"] };
    const begun = performance.now();
    expect(a.arrange(many, by)).toHaveLength(100_000);
    expect(performance.now() - begun).toBeLessThan(1000); // 60 ms alone on a machine; a tenth of a second of ten
  });
});

describe("two readers' changes", () => {
  test("of different things are both kept", () => {
    const base: a.Arrangement = {
      pinned: ["a"],
      sections: [{ title: "S", made: true, metrics: ["x", "y"] }],
    };
    const mine = a.togglePinned(a.placeIn(base, "+S", ["y", "x"]), "b");
    const theirs = a.toggleFolded(a.placeIn(a.togglePinned(base, "c"), "+T", ["z"]), "/train");
    expect(a.merge(base, mine, theirs)).toEqual({
      pinned: ["a", "c", "b"],
      sections: [
        { title: "S", made: true, metrics: ["y", "x"] },
        { title: "T", made: true, metrics: ["z"] },
      ],
      folded: ["/train"],
    });
  });

  test("keep what only a newer version knows", () => {
    const theirs = { pinned: ["a"], newer: { x: 1 }, sections: [{ title: "S", made: true, icon: "star" }] };
    const merged = a.merge<a.Arrangement>({}, a.placeIn({}, "+S", ["m"]), theirs);
    expect(merged).toMatchObject({
      newer: { x: 1 },
      pinned: ["a"],
      sections: [{ icon: "star", metrics: ["m"] }],
    });
    expect(a.togglePinned(theirs, "b")).toMatchObject({ newer: { x: 1 } });
  });

  test("a change that is taken back leaves what others did since", () => {
    const before: a.Arrangement = { pinned: ["a"] };
    const after = a.togglePinned(before, "b");
    const since = a.togglePinned(a.togglePinned(after, "c"), "a");
    expect(a.merge(after, before, since).pinned).toEqual(["c"]);
  });

  // Pins are sets: a merge has what both have, what one added, and not what one took away.
  test("of pins, many times, are those of sets", () => {
    const next = random(7);
    const names = ["a", "b", "c", "d", "e", "f"];
    for (let round = 0; round < 500; round++) {
      const some = () => names.filter(() => next() < 0.5);
      const [base, mine, theirs] = [some(), some(), some()];
      const want = names.filter((n) => {
        const [b, m, t] = [base, mine, theirs].map((list) => list.includes(n));
        return m === b ? t : m;
      });
      const got = a.merge<a.Arrangement>({ pinned: base }, { pinned: mine }, { pinned: theirs }).pinned ?? [];
      expect([...got].sort()).toEqual(want);
      expect(new Set(got).size).toBe(got.length);
    }
  });
});
