import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { darkPalette, lightPalette } from "../../src/chart/color.ts";
import { curveOf } from "../../src/chart/curve.ts";
import { densityOf, opacity } from "../../src/chart/density.ts";
import { bestOf, guess, objectives } from "../../src/chart/direction.ts";
import { allBut, groupsOf, keysOf, readKey, type Subject, scaleColor } from "../../src/chart/grouping.ts";
import { importanceOf, offerOf, strength } from "../../src/chart/importance.ts";
import { cellAt, layersOf, type Part, statistics } from "../../src/chart/layer.ts";
import { type Frame, type Line, toX, toY } from "../../src/chart/paint.ts";
import { scaleOf } from "../../src/chart/scale.ts";
import * as stat from "../../src/chart/stat.ts";
import { random } from "../standin/data.ts";

/** Computed with NumPy 2.4.6 and SciPy 1.17.1: the line that did it stands over each. */
describe("statistics, as NumPy and SciPy have them", () => {
  const a = stat.ascending([3, 1, 4, 1.5, 5, 9.25, 2, 6, 5.5, 3.5, 5, Number.NaN, Infinity]);

  test("of a sample", () => {
    expect(stat.mean(a)).toBeCloseTo(4.159090909090909, 12); // np.mean(a)
    expect(stat.sum(a)).toBe(45.75); // a.sum()
    expect(stat.median(a)).toBe(4); // np.median(a)
    // np.quantile(a, [.1, .25, .75, .9])
    expect([0.1, 0.25, 0.75, 0.9].map((q) => stat.quantile(a, q))).toEqual([1.5, 2.5, 5.25, 6]);
    expect(stat.std(a)).toBeCloseTo(2.367152105570973, 12); // np.std(a, ddof=1)
    expect(stat.stderr(a)).toBeCloseTo(0.7137232141707884, 12); // stats.sem(a)
    expect(stat.iqm(a)).toBeCloseTo(4, 12); // stats.trim_mean(a, .25)
  });

  test("of few values, and of the largest there are", () => {
    const none = stat.ascending([]);
    for (const f of [stat.mean, stat.median, stat.std, stat.stderr, stat.iqm]) expect(f(none)).toBeNaN();
    expect(stat.std(stat.ascending([3]))).toBeNaN();
    expect(stat.std(stat.ascending([3, 3, 3]))).toBe(0);
    const huge = stat.ascending([1.7e308, 1.7e308, 1.5e308]);
    expect(stat.mean(huge)).toBeCloseTo(1.6333333333333334e308, -300);
    expect(stat.std(huge) / 1.1547005383792515e307).toBeCloseTo(1, 9); // np.std([17, 17, 15], ddof=1) * 1e307
  });

  test("ranks, rank correlation and Kruskal–Wallis, with ties", () => {
    // stats.rankdata([1, 2, 2, 3, 7, 7, 7, 8])
    expect(stat.ranks([1, 2, 2, 3, 7, 7, 7, 8])).toEqual([1, 2.5, 2.5, 4, 6, 6, 6, 8]);
    expect(stat.ranks([Infinity, -Infinity, Infinity, 0])).toEqual([3.5, 1, 3.5, 2]);
    const x = [1, 2, 2, 4, 5, 6, 7, 7, 9, 10];
    const y = [2.1, 1.9, 3.3, 3, 4.7, 4.7, 6, 5.5, 9.9, 8];
    expect(stat.spearman(x, y)).toBeCloseTo(0.9419004288014992, 12); // stats.spearmanr(x, y).statistic
    const groups = [
      [6.9, 7.1, 6.2, 8],
      [5, 5.5, 6.2, 4.1, 5],
      [8.8, 9.1, 7.1],
    ];
    expect(stat.kruskal(groups)).toBeCloseTo(8.71060070671378, 12); // stats.kruskal(*groups).statistic
    expect(stat.separation(groups)).toBeCloseTo((8.71060070671378 - 3 + 1) / (12 - 3), 12);
    expect(stat.kruskal([[1, 1], [1]])).toBe(0);
    expect(stat.separation([[1, 2, 3]])).toBe(0);
  });

  test("the bootstrap interval is that of 200,000 resamples, within a tenth of its width", () => {
    const b = [
      ...[0.0012, 0.2987, -0.2741, -0.8906, -0.4547, -0.9916, 0.0601, 1.3402, -0.4922, -0.6205],
      ...[0.4898, 0.3569, 0.1054, -0.9305, -0.0293, 0.6953, -1.3442, -0.4576, -1.9012, -1.2895],
      ...[-1.8417, -0.2351, -1.2674, 0.2713, 0.1568, -0.1869, -2.5168, -0.5387, -0.0485, 0.1133],
      ...[-1.5301, -0.4778, -0.9785, -0.8088, 1.0609, -0.8075, -0.0325, 0.8844, -0.5836, -0.1117],
    ];
    // t = np.sort(rng.choice(s, (200000, n)), 1)[:, n//4 : n - n//4].mean(1); np.quantile(t, [.025, .975])
    const cases: [stat.Sample, number, number][] = [
      [a, 2.5714285714285716, 5.464285714285714],
      [stat.ascending(b), -0.615900375, -0.10071987500000001],
    ];
    for (const [s, low, high] of cases) {
      const found = stat.bootstrap(s, stat.resampling(s.length));
      expect(Math.abs(found[0] - low)).toBeLessThan(0.1 * (high - low));
      expect(Math.abs(found[1] - high)).toBeLessThan(0.1 * (high - low));
    }
    expect(stat.bootstrap(stat.ascending([2]), stat.resampling(1))).toEqual([2, 2]);
  });

  test("every resample keeps as much of a sample as its interquartile mean does", () => {
    for (const n of [2, 3, 5, 8, 13]) {
      const weights = stat.resampling(n);
      for (let b = 0; b < weights.length; b += n)
        expect(weights.slice(b, b + n).reduce((x, y) => x + y)).toBeCloseTo(1, 9);
    }
  });
});

/** A line of single points, or of buckets of so many. */
function lineOf(id: string, points: [number, number][], bucket = 1): Line {
  const parts = Array.from({ length: Math.ceil(points.length / bucket) }, (_, i) =>
    points.slice(i * bucket, (i + 1) * bucket),
  );
  const finite = (p: [number, number][]) => p.map(([, y]) => y).filter(Number.isFinite);
  const of = (f: (p: [number, number][]) => number | null) => parts.map(f);
  const curve = curveOf({
    lo: parts.map((p) => p[0]![0]),
    hi: parts.map((p) => p.at(-1)![0]),
    min: of((p) => (finite(p).length ? Math.min(...finite(p)) : null)),
    max: of((p) => (finite(p).length ? Math.max(...finite(p)) : null)),
    mean: of((p) => (finite(p).length ? finite(p).reduce((a, b) => a + b) / finite(p).length : null)),
    count: parts.map((p) => finite(p).length),
    nan: parts.map((p) => p.length - finite(p).length),
  });
  const look = { color: "#123456", own: "#123456", alpha: 1, dash: [], band: false, stems: [], faded: false };
  return { id, curve, ...look };
}

const partOf = (lines: Line[], key = "g"): Part => ({ key, label: key, color: "#123456", dash: [], lines });
const range = (n: number, f: (i: number) => number): [number, number][] =>
  Array.from({ length: n }, (_, i) => [i, f(i)]);

describe("layers", () => {
  test("of runs with the same steps are the statistics of their points, step by step", () => {
    const r = random(5);
    const runs = Array.from({ length: 7 }, () => range(40, () => (r() < 0.1 ? Number.NaN : r() * 10 - 3)));
    const lines = runs.map((p, i) => lineOf(String(i), p));
    for (const [statistic] of statistics) {
      const [layer] = layersOf([partOf(lines)], [0, 39], statistic);
      for (let step = 0; step < 40; step++) {
        const at = runs.map((p) => p[step]![1]).filter(Number.isFinite);
        const sorted = at.sort((x, y) => x - y);
        const q = (share: number) => {
          const place = share * (sorted.length - 1);
          const [low, high] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!];
          return low + (high - low) * (place % 1);
        };
        const mean = sorted.reduce((x, y) => x + y, 0) / sorted.length;
        const std = Math.sqrt(sorted.reduce((x, y) => x + (y - mean) ** 2, 0) / (sorted.length - 1));
        const cut = Math.floor(sorted.length / 4);
        const inner = sorted.slice(cut, sorted.length - cut);
        const want = {
          iqr: [q(0.5), q(0.25), q(0.75)],
          deciles: [q(0.5), q(0.1), q(0.9)],
          std: [mean, mean - std, mean + std],
          stderr: [mean, mean - std / Math.sqrt(sorted.length), mean + std / Math.sqrt(sorted.length)],
          range: [mean, sorted[0]!, sorted.at(-1)!],
          iqm: [inner.reduce((x, y) => x + y) / inner.length],
        }[statistic];
        const got = [layer!.centre[step]!, layer!.low[step]!, layer!.high[step]!];
        want.forEach((w, i) => {
          expect(got[i]).toBeCloseTo(w, 9);
        });
        expect(layer!.n[step]).toBe(sorted.length);
        expect(layer!.sum[step]).toBeCloseTo(
          sorted.reduce((x, y) => x + y, 0),
          9,
        );
        if (statistic === "iqm") expect(got[0]! >= got[1]! && got[0]! <= got[2]!).toBe(true);
      }
    }
  });

  test("count a run only where it has points: not after its end, nor where it is NaN", () => {
    const long = lineOf(
      "long",
      range(100, () => 1),
    );
    const short = lineOf(
      "short",
      range(30, () => 3),
    );
    const broken = lineOf(
      "broken",
      range(100, (i) => (i >= 50 ? Number.NaN : 5)),
    );
    const [layer] = layersOf([partOf([long, short, broken])], [0, 99], "range");
    expect(layer!.members).toBe(3);
    const at = (x: number) => cellAt(layer!, x);
    expect([layer!.n[at(10)], layer!.centre[at(10)]]).toEqual([3, 3]);
    expect([layer!.n[at(40)], layer!.centre[at(40)]]).toEqual([2, 3]);
    expect([layer!.n[at(90)], layer!.centre[at(90)]]).toEqual([1, 1]);
  });

  test("of runs that are logged at other steps read each where its line is", () => {
    const every = lineOf(
      "every",
      range(101, (i) => i),
    );
    const tenth = lineOf(
      "tenth",
      range(11, (i) => i).map(([i]) => [i * 10, i * 10 + 8]),
    );
    const [layer] = layersOf([partOf([every, tenth])], [0, 100], "range");
    for (let i = 0; i < layer!.x.length; i++) {
      expect(layer!.n[i]).toBe(2);
      expect(Math.abs(layer!.centre[i]! - (layer!.x[i]! + 4))).toBeLessThan(1);
      expect(Math.abs(layer!.high[i]! - layer!.low[i]! - 8)).toBeLessThan(1);
    }
  });

  test("weigh buckets by their points", () => {
    // Cells are 0 to 3⅓ and so on; the first holds a bucket of one point, and one of three.
    const curve = curveOf({
      ...{
        lo: [0, 1, 10],
        hi: [0, 3, 10],
        min: [1, 0, 7],
        max: [1, 0, 7],
        mean: [1, 0, 7],
        count: [1, 3, 1],
      },
    });
    const uneven = { ...lineOf("a", [[0, 0]]), curve };
    const other = lineOf("b", [
      [0, 0],
      [10, 0],
    ]);
    const [layer] = layersOf([partOf([uneven]), partOf([other], "h")], [0, 10], "range");
    expect([...layer!.lo].map((v) => v.toFixed(2))).toEqual(["0.00", "3.33", "6.67"]);
    expect(layer!.centre[0]).toBe(0.25);
    expect(layer!.centre[2]).toBe(7);
  });

  test("of nothing are none, of one point one", () => {
    expect(layersOf([partOf([])], [0, 1], "iqr")).toEqual([]);
    const [one] = layersOf([partOf([lineOf("a", [[5, 2]])])], [0, 10], "iqr");
    expect([one!.x[0], one!.centre[0], one!.low[0], one!.n[0]]).toEqual([5, 2, 2, 1]);
    const apart = layersOf(
      [
        partOf([
          lineOf("a", [[5, 2]]),
          lineOf(
            "b",
            [
              [5, 4],
              [5, 4],
            ],
            2,
          ),
        ]),
      ],
      [0, 10],
      "iqr",
    );
    expect(apart[0]!.centre[0]).toBe(3);
  });
});

describe("density", () => {
  const f: Frame = {
    ...{ left: 7, top: 3, width: 90, height: 60, x0: 0, x1: 30, y0: -2, y1: 2, log: false, ratio: 1 },
  };
  test("counts each line once in every cell that it passes", () => {
    const r = random(3);
    const lines = Array.from({ length: 30 }, (_, k) =>
      lineOf(
        String(k),
        range(31, (i) => (r() < 0.05 ? Number.NaN : Math.sin(i / 3 + k) * 2.4)),
      ),
    );
    const d = densityOf(f, lines);
    const want = new Uint32Array(d.counts.length);
    for (const line of lines) {
      // Many small steps along each edge; a cell that only a corner of an edge touches may be missed.
      const touched = new Set<number>();
      const { x, mean } = line.curve;
      for (let i = 0; i + 1 < x.length; i++)
        for (let k = 0; k <= 400; k++) {
          const [at, value] = [
            x[i]! + ((x[i + 1]! - x[i]!) * k) / 400,
            mean[i]! + ((mean[i + 1]! - mean[i]!) * k) / 400,
          ];
          const [c, row] = [
            Math.floor((toX(f, at) - f.left) / d.size),
            Math.floor((toY(f, value) - f.top) / d.size),
          ];
          if (c >= 0 && c < d.columns && row >= 0 && row < d.rows) touched.add(c * d.rows + row);
        }
      for (const cell of touched) want[cell]!++;
    }
    let [off, seen] = [0, 0];
    for (let i = 0; i < want.length; i++) {
      expect(d.counts[i]).toBeGreaterThanOrEqual(want[i]!); // no cell that a line passes is without it
      off += d.counts[i]! - want[i]!;
      seen += want[i]!;
    }
    expect(off / seen).toBeLessThan(0.02);
    expect(d.most).toBe(Math.max(...d.counts));
  });
  test("one line of many is still seen", () => {
    expect(opacity(0, 500)).toBe(0);
    expect(opacity(1, 500)).toBeGreaterThanOrEqual(0.06);
    expect(opacity(500, 500)).toBeGreaterThan(opacity(50, 500));
  });
});

const run = (i: number, config: Subject["config"], value?: number, tags: string[] = []): Subject => ({
  ...{ id: `r${i}`, tags, config },
  summary: value === undefined ? {} : { "eval/accuracy": { value } },
});

describe("grouping", () => {
  const rates = [0.001, 0.01, 0.1];
  const sweep = Array.from({ length: 30 }, (_, i) =>
    run(
      i,
      { lr: rates[i % 3]!, seed: Math.floor(i / 3), width: 64, opt: i % 2 ? "sgd" : "adam" },
      [0.5, 0.9, 0.2][i % 3]! + i / 1000,
      i % 5 ? [] : ["b", "a"],
    ),
  );

  test("a number, a truth and a text that reads as one are groups of their own", () => {
    const values = [1, "1", 1, true, "true", "NaN", "9007199254740993", "a"];
    const runs = values.map((x, i): Subject => ({ id: `r${i}`, tags: [], config: { x }, summary: {} }));
    const found = groupsOf(runs, "config/x", false, "").groups.map((g) => `${g.label}: ${g.runs}`);
    expect(found.sort()).toEqual(
      ['"1": r1', "1: r0,r2", "true: r3", '"true": r4', "NaN: r5", "9007199254740993: r6", "a: r7"].sort(),
    );
  });

  test("every run is in one group: by a number, a text, tags, or all parameters but one", () => {
    for (const by of [
      "config/lr",
      "config/seed",
      "config/opt",
      "tag",
      "summary/eval/accuracy",
      allBut("config/seed"),
      "config/none",
    ]) {
      const g = groupsOf(sweep, by, false, "#777777");
      expect(g.groups.flatMap((x) => x.runs).sort()).toEqual(sweep.map((r) => r.id).sort());
      for (const { runs } of g.groups) expect(runs.length).toBeGreaterThan(0);
    }
    expect(groupsOf(sweep, "config/lr", false, "").groups.map((g) => [g.label, g.runs.length])).toEqual([
      ["0.001", 10],
      ["0.01", 10],
      ["0.1", 10],
    ]);
    expect(groupsOf(sweep, "tag", false, "").groups.map((g) => [g.label, g.runs.length])).toEqual([
      ["a, b", 6],
      ["no tag", 24],
    ]);
    const same = groupsOf(sweep, allBut("config/seed"), false, "");
    expect(same.groups.map((g) => g.label)[0]).toBe("lr 0.001 · opt adam");
    expect(same.groups.map((g) => g.runs.length)).toEqual([5, 5, 5, 5, 5, 5]);
  });

  test("a number with many values is in five bins that part no equal values", () => {
    const r = random(9);
    const many = Array.from({ length: 97 }, (_, i) => run(i, { x: Math.floor(r() * 40) }));
    const { groups } = groupsOf(many, "config/x", false, "");
    expect(groups.length).toBe(5);
    const of = new Map(many.map((m) => [m.id, m.config.x as number]));
    let before = -Infinity;
    for (const g of groups) {
      const values = g.runs.map((id) => of.get(id)!);
      expect(Math.min(...values)).toBeGreaterThan(before);
      before = Math.max(...values);
      expect(g.runs.length).toBeGreaterThan(97 / 10);
    }
  });

  test("many categories fold into a last one that says how many; names that every object has are values", () => {
    const many = Array.from({ length: 60 }, (_, i) => run(i, { host: `h${i}` }));
    const { groups } = groupsOf(many, "config/host", false, "");
    expect(groups.length).toBe(24);
    expect(groups.at(-1)).toMatchObject({ label: "37 other values" });
    expect(groups.at(-1)!.runs.length).toBe(37);
    const odd = [run(1, JSON.parse('{"__proto__":1}')), run(2, {})];
    expect(keysOf(odd).config).toEqual(["config/__proto__"]);
    expect([readKey(odd[0]!, "config/__proto__"), readKey(odd[1]!, "config/__proto__")]).toEqual([
      1,
      undefined,
    ]);
    expect(readKey(odd[1]!, "config/toString")).toBeUndefined();
  });

  test("offers the key that separates the runs best, by its formula", () => {
    const rows = importanceOf(sweep, "eval/accuracy", "up");
    expect(offerOf(rows)!.key).toBe("config/lr");
    // The three groups do not overlap: the ranks are 1–10, 11–20, 21–30.
    const h = (12 / (30 * 31)) * ((55 ** 2 + 155 ** 2 + 255 ** 2) / 10) - 3 * 31;
    expect(offerOf(rows)!.eta).toBeCloseTo((h - 3 + 1) / (30 - 3), 9);
    expect(rows.find((o) => o.key === "config/opt")!.eta).toBeLessThan(0.1);
    expect(rows.map((o) => o.key)).not.toContain("config/width");
    // A text of its own for every run tells nothing.
    const named = sweep.map((r, i) => ({ ...r, config: { ...r.config, name: `n${i}` } }));
    expect(offerOf(importanceOf(named, "eval/accuracy", "up"))!.key).toBe("config/lr");
    expect(
      importanceOf(named, "eval/accuracy", "up").find((o) => o.key === "config/name")!.eta,
    ).toBeUndefined();
  });

  test("where some runs lack a parameter, only the others are ranked", () => {
    const some = sweep.map((r, i) => (i % 4 ? r : { ...r, config: { ...r.config, lr: undefined as never } }));
    const has = some.filter((_, i) => i % 4);
    const row = importanceOf(some, "eval/accuracy", "up").find((o) => o.key === "config/lr")!;
    const values = (rate: number) =>
      has.filter((r) => r.config.lr === rate).map((r) => r.summary["eval/accuracy"]!.value as number);
    expect(row.runs).toBe(has.length);
    expect(row.eta).toBeCloseTo(stat.separation(rates.map(values)), 12);
    expect(row.rho).toBeCloseTo(
      stat.spearman(
        has.map((r) => r.config.lr as number),
        has.map((r) => r.summary["eval/accuracy"]!.value as number),
      ),
      12,
    );
  });

  test("colours of numbers have a contrast of 3:1 on their card", () => {
    const light = (c: string) =>
      [0.2126, 0.7152, 0.0722].reduce((all, w, i) => {
        const v = Number.parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
        return all + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      }, 0.05);
    for (const [dark, card] of [
      [false, lightPalette.card],
      [true, darkPalette.card],
    ] as const)
      for (let i = 0; i <= 20; i++) {
        const [a, b] = [light(scaleColor(i / 20, dark)), light(card)];
        expect(Math.max(a, b) / Math.min(a, b)).toBeGreaterThanOrEqual(3);
      }
  });
});

describe("importance", () => {
  const r = random(11);
  const sweep = Array.from({ length: 60 }, (_, i) => {
    const lr = 10 ** (-4 + 3 * r());
    const loss = Math.abs(Math.log10(lr) + 2.5) + 0.01 * r();
    return run(i, { lr, depth: 1 + (i % 4), seed: Math.floor(r() * 1000), opt: i % 2 ? "a" : "b" }, loss);
  });
  const rows = importanceOf(sweep, "eval/accuracy", "down");

  test("orders parameters by what they explain, and names the value that did best", () => {
    expect(rows[0]!.key).toBe("config/lr");
    const [low, high] = rows[0]!.best!.label.split(" – ").map(Number) as [number, number];
    expect(low <= 10 ** -2.5 && high >= 10 ** -2.5).toBe(true);
    expect(rows[0]!.runs).toBe(60);
    for (const row of rows.slice(1)) expect(strength(row)).toBeLessThan(0.15);
    expect(rows.find((x) => x.key === "config/opt")!.rho).toBeUndefined();
  });

  test("is Spearman's correlation and η² of the same runs", () => {
    const values = sweep.map((s) => s.summary["eval/accuracy"]!.value as number);
    const depth = sweep.map((s) => s.config.depth as number);
    const row = rows.find((x) => x.key === "config/depth")!;
    expect(row.rho).toBeCloseTo(stat.spearman(depth, values), 12);
    const by = [1, 2, 3, 4].map((d) => values.filter((_, i) => depth[i] === d));
    expect(row.eta).toBeCloseTo(stat.separation(by), 12);
    const medians = by.map((v) => stat.median(stat.ascending(v)));
    expect(row.best).toEqual({
      label: String(1 + medians.indexOf(Math.min(...medians))),
      median: Math.min(...medians),
      runs: 15,
    });
  });

  test("says nothing of fewer than three runs, and no best without a direction", () => {
    expect(importanceOf(sweep.slice(0, 2), "eval/accuracy", "down")).toEqual([]);
    expect(importanceOf(sweep, "eval/accuracy", undefined)[0]!.best).toBeUndefined();
  });
});

describe("axes of parameters", () => {
  test("numbers that were spread over decades are on a log axis, others are not", () => {
    const r = random(2);
    const rates = Array.from({ length: 50 }, () => 10 ** (-4 + 3 * r()));
    const seeds = Array.from({ length: 50 }, () => 1 + Math.floor(r() * 999));
    expect([scaleOf(rates).kind, scaleOf(seeds).kind, scaleOf([0, 1, 1000]).kind]).toEqual([
      "log",
      "linear",
      "linear",
    ]);
    for (const values of [rates, seeds]) {
      const scale = scaleOf(values);
      const places = values.map((v) => scale.at(v)!);
      for (const [i, at] of places.entries()) {
        expect(at >= 0 && at <= 1).toBe(true);
        expect(scale.value(at) / values[i]!).toBeCloseTo(1, 9);
      }
      // Places are in the order of the values.
      expect(stat.spearman(values, places)).toBeCloseTo(1, 12);
      for (const t of scale.ticks) expect(t.at >= 0 && t.at <= 1).toBe(true);
    }
  });

  test("texts have places of their own; what is no value has none", () => {
    const scale = scaleOf(["b", "a10", "a2", true]);
    const ticks = scale.ticks.map((t) => t.label);
    expect(ticks).toEqual(["a2", "a10", "b", "true"]);
    expect(new Set(ticks.map((t) => scale.at(t))).size).toBe(4);
    for (const none of [undefined, null]) expect(scale.at(none)).toBeUndefined();
    for (const none of [Number.NaN, Infinity, "x"]) expect(scaleOf([1, 2]).at(none)).toBeUndefined();
    expect(scaleOf([3]).at(3)).toBe(0.5);
    expect(scaleOf([]).ticks).toEqual([]);
  });
});

describe("direction", () => {
  test("a name tells what the server's best(…) takes from it", () => {
    const table = JSON.parse(
      readFileSync(new URL("../../../testdata/directions.json", import.meta.url), "utf8"),
    );
    for (const [name, want] of Object.entries(table)) expect([name, guess(name) ?? ""]).toEqual([name, want]);
  });
  test("is guessed from the name, or not at all", () => {
    for (const m of ["train/loss", "loss", "eval/perplexity", "val_loss", "grad/error", "mse", "policy_loss"])
      expect([m, guess(m)]).toEqual([m, "down"]);
    for (const m of ["eval/accuracy", "episode/return", "mean_reward", "f1", "top1_acc", "test/acc@1"])
      expect([m, guess(m)]).toEqual([m, "up"]);
    for (const m of ["lr", "grad_norm", "step", "gloss/x", "returned", "place"])
      expect([m, guess(m)]).toEqual([m, undefined]);
  });
  test("the best is the furthest finite value", () => {
    expect(bestOf([3, Number.NaN, 5, Infinity, 1], "up")).toBe(2);
    expect(bestOf([3, Number.NaN, 5, -Infinity, 1], "down")).toBe(4);
    expect(bestOf([Number.NaN], "up")).toBe(-1);
  });
  test("what runs are compared by comes first", () => {
    expect(objectives(["lr", "train/loss", "eval/loss", "grad_norm", "eval/accuracy"])).toEqual([
      "eval/accuracy",
      "eval/loss",
      "train/loss",
      "grad_norm",
      "lr",
    ]);
  });
});
