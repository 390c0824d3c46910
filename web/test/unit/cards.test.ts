import { expect, test } from "vitest";
import type { Series } from "../../src/api/types.ts";
import { type Card, Cards, type Known } from "../../src/state/cards.ts";
import { random } from "../standin/data.ts";

/** What cards are, in the plainest words: all series again, by the key of their card, sorted. */
function naive(runs: [string, Map<string, Known>][]): Card[] {
  const out: (Card & { order: string })[] = [];
  for (const [run, list] of runs)
    for (const { series, card: key, group, order } of list.values()) {
      if (series.kind !== "float64") continue;
      const found = out.find((c) => c.key === key);
      if (found) found.members.push({ run, series });
      else
        out.push({ key, metric: series.metric, scale: "ML_STEP", group, members: [{ run, series }], order });
    }
  out.sort((a, b) => (a.order < b.order ? -1 : 1));
  return out.map(({ order: _, ...card }) => card);
}

function known(metric: string, label: number, kind: string): Known {
  const series = {
    metric,
    scale: "ML_STEP",
    labels: { label: `${label}` },
    kind,
    axes: [],
  } as never as Series;
  return { series, card: metric, group: metric[0]!, order: metric };
}

test.each([1, 2, 3, 4])("cards are those of all series, in whatever order they come (%i)", (seed) => {
  const r = random(seed);
  const below = (n: number) => Math.floor(r() * n);
  const cards = new Cards();
  let runs: [string, Map<string, Known>][] = [["a", new Map()]];
  for (let turn = 0; turn < 60; turn++) {
    const what = below(12);
    if (what === 0) runs.push([`run${turn}`, new Map()]);
    else if (what === 1) runs = [...runs].reverse();
    else if (what === 2 && runs.length > 1) runs = runs.slice(1);
    else if (what === 3) runs = runs.map(([id, list]) => [id, new Map([...list].slice(1))]);
    else
      for (let i = below(20); i > 0; i--) {
        const [metric, label] = [`${"xyz"[below(3)]}/${below(30)}`, below(2)];
        const list = runs[below(runs.length)]![1];
        const key = `${metric} ${label}`;
        if (!list.has(key)) list.set(key, known(metric, label, below(9) ? "float64" : "histogram"));
      }
    const before = cards.list();
    const said = structuredClone(before);
    cards.take(runs);
    expect(cards.list()).toEqual(naive(runs));
    expect(before).toEqual(said); // what was given out stays as it was
  }
});

test("a card that nothing was added to is the same one", () => {
  const cards = new Cards();
  const list = new Map([["a", known("x/a", 0, "float64")]]);
  cards.take([["run", list]]);
  const [a] = cards.list();
  list.set("b", known("x/b", 0, "float64"));
  cards.take([["run", list]]);
  expect(cards.list()[0]).toBe(a);
});
