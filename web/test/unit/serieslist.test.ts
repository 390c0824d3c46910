import { expect, test } from "vitest";
import type { Series } from "../../src/api/types.ts";
import { patternOf, searchOf } from "../../src/chart/pattern.ts";
import { SeriesList } from "../../src/state/serieslist.ts";
import { random } from "../standin/data.ts";

const series = (metric: string, env: number): Series =>
  ({ metric, scale: "ML_STEP", labels: { env: `${env}` }, kind: "float64", axes: [], count: 1 }) as never;

test.each([1, 2, 3, 4, 5])("a list that ends anywhere has whole metrics, and all at last (%i)", (seed) => {
  const r = random(seed);
  const below = (n: number) => Math.floor(r() * n);
  const all: Series[] = [];
  for (let m = 0; m < 40; m++)
    for (let env = 1 + below(6); env > 0; env--) all.push(series(`a${String(m).padStart(2, "0")}/x`, env));
  const list = new SeriesList();
  for (let at = 0; at < all.length; ) {
    const to = Math.min(all.length, at + 1 + below(20));
    const end = below(2) === 0;
    const added = list.take({ items: all.slice(at, to), next: to < all.length ? String(to) : "" }, end);
    at = to;
    const known = [...list.known.values()].map((k) => k.series);
    expect(known).toEqual(all.slice(0, known.length));
    const of = (metric: string) => all.filter((s) => s.metric === metric).length;
    if (end && added && at < all.length)
      for (const { metric } of known)
        expect(known.filter((s) => s.metric === metric).length).toBe(of(metric));
    if (end) list.goOn();
  }
  expect([...list.known.values()].map((k) => k.series)).toEqual(all);
  const orders = [...list.known.values()].map((k) => k.order);
  expect([...orders].sort()).toEqual(orders);
});

test("the server is asked for what the search of the page finds", () => {
  const r = random(7);
  const names = ["train/loss", "eval/Loss", "layers/2/grad_norm", "layers/10/grad", "a.b", "lr (log)", "x*y"];
  const words = [
    "loss",
    "LOSS",
    "!eval",
    "!",
    "layers/*/grad*",
    "**/grad",
    "!l.*s",
    "a.b",
    "^l",
    "norm$|b",
    "[0-9]+",
  ];
  for (let i = 0; i < 500; i++) {
    const text = Array.from(
      { length: Math.floor(r() * 4) },
      () => words[Math.floor(r() * words.length)],
    ).join(" ");
    const search = searchOf(text) ?? { q: [], not: [] };
    const asked = (source: string) => {
      expect(source.startsWith("(?i)")).toBe(true);
      return new RegExp(source.slice(4), "i");
    };
    const page = patternOf(text);
    for (const name of names) {
      const found =
        search.q.every((q) => asked(q).test(name)) && !search.not.some((q) => asked(q).test(name));
      expect([text, name, found]).toEqual([text, name, page.ok && page.test(name)]);
    }
  }
  expect(searchOf("loss(")).toBe(null);
});
