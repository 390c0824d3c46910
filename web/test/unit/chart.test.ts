import { describe, expect, test } from "vitest";
import { axisFor, storedRange, unitOf, xTicks } from "../../src/chart/axis.ts";
import { lightPalette } from "../../src/chart/color.ts";
import { curveOf, extent, forkPlace, lastPoint, nearest, ratio } from "../../src/chart/curve.ts";
import { excursionsOf } from "../../src/chart/excursion.ts";
import { csv, svg } from "../../src/chart/export.ts";
import { duration, short, tickLabels } from "../../src/chart/number.ts";
import { needlesOf, noFront, stretches, toX, toY } from "../../src/chart/paint.ts";
import { rangeOf, withLane } from "../../src/chart/range.ts";
import { smooth } from "../../src/chart/smooth.ts";
import { linearTicks, logTicks, timeTicks } from "../../src/chart/tick.ts";
import { cutMiddle, fitTitle, groupOf, natural, naturalKey } from "../../src/chart/title.ts";
import { rowsAt } from "../../src/chart/tooltip.ts";
import { random } from "../standin/data.ts";

/** Buckets of y over x = 0, 1, 2, … with `per` points each, by definition. */
function bucketed(y: number[], per: number) {
  const columns = {
    lo: [],
    hi: [],
    min: [],
    max: [],
    mean: [],
    count: [],
    nan: [],
    pos_inf: [],
    neg_inf: [],
  } as Record<string, (number | null)[]>;
  for (let i = 0; i < y.length; i += per) {
    const part = y.slice(i, i + per);
    const finite = part.filter(Number.isFinite);
    const row = {
      lo: i,
      hi: i + part.length - 1,
      min: finite.length ? Math.min(...finite) : null,
      max: finite.length ? Math.max(...finite) : null,
      mean: finite.length ? finite.reduce((a, b) => a + b, 0) / finite.length : null,
      count: finite.length,
      nan: part.filter(Number.isNaN).length,
      pos_inf: part.filter((v) => v === Infinity).length,
      neg_inf: part.filter((v) => v === -Infinity).length,
    };
    for (const [k, v] of Object.entries(row)) columns[k]!.push(v);
  }
  return curveOf(columns as never);
}

const line = (curve: ReturnType<typeof curveOf>, id = "a") => ({
  ...{ id, curve, color: "#000", own: "#000", stems: [] },
  alpha: 1,
  dash: [],
  band: true,
  faded: false,
});

describe("curve", () => {
  test("keeps every number, marks what is not finite, and breaks where nothing is", () => {
    const c = bucketed([1, 3, Number.NaN, Number.NaN, Infinity, 5, -Infinity, 7], 2);
    expect([...c.x]).toEqual([0.5, 2.5, 4.5, 6.5]);
    expect([...c.mean]).toEqual([2, Number.NaN, 5, 7]);
    expect([...c.max]).toEqual([3, Number.NaN, 5, 7]);
    expect(c.marks).toEqual([
      { kind: "nan", lo: 2, hi: 3, count: 2 },
      { kind: "posInf", lo: 4, hi: 5, count: 1 },
      { kind: "negInf", lo: 6, hi: 7, count: 1 },
    ]);
    expect(c.points).toBe(8);
    expect(ratio([c])).toBe(2);
  });
  test("reads what JSON cannot hold as a number, and columns left out", () => {
    const c = curveOf({
      lo: ["9007199254740993"],
      hi: [9007199254740994],
      min: [1],
      max: [1],
      mean: [1],
      count: [1],
    });
    expect(c.marks).toEqual([]);
    expect(c.lo[0]).toBe(Number("9007199254740993"));
  });
  test("finds the nearest bucket as a scan does", () => {
    const r = random(7);
    const lo = Array.from({ length: 60 }, (_, i) => i * 10 + Math.floor(r() * 4));
    const hi = lo.map((v) => v + Math.floor(r() * 5));
    const ones = lo.map(() => 1);
    const c = curveOf({ lo, hi, min: ones, max: ones, mean: ones, count: ones });
    const off = (i: number, x: number) => Math.max(lo[i]! - x, x - hi[i]!, 0);
    for (let x = -5; x < 620; x += 0.5) {
      const best = Math.min(...lo.map((_, i) => off(i, x)));
      expect(off(nearest(c, x), x)).toBe(best);
    }
    expect(nearest(curveOf({ lo: [], hi: [], min: [], max: [], mean: [], count: [] }), 1)).toBe(-1);
  });
  test("knows what is inherited, and where the fork goes on", () => {
    const three = { min: [4, 3, 1], max: [5, 3, 2], mean: [4.5, 3, 1.5] };
    const at = { lo: [0, 2, 4], hi: [1, 3, 5] };
    const curve = curveOf({ ...at, ...three, count: [2, 1, 2], nan: [0, 1, 0], inherited: [2, 2, 1] });
    expect([...curve.inherited!]).toEqual([1, 1, 0]); // a bucket of both is the fork's
    expect(stretches(curve)).toEqual([
      { from: 0, to: 2, inherited: true },
      { from: 2, to: 3, inherited: false },
    ]);
    expect(forkPlace(curve)).toBe(3.5);
    expect(forkPlace(curve, 4)).toBe(4);
    expect(forkPlace(curve, 9)).toBe(3.5); // not where the points are
    const parent = curveOf({ ...at, ...three, count: [2, 2, 2], inherited: [2, 2, 2] });
    expect(forkPlace(parent, 1)).toBeUndefined(); // nothing of its own in sight
    const alone = curveOf({ ...at, ...three, count: [2, 2, 2] });
    expect(forkPlace(alone)).toBeUndefined();
    expect(stretches(alone)).toEqual([{ from: 0, to: 3, inherited: false }]);
  });
  test("extent and last point", () => {
    expect(extent([bucketed([1, 2, 3], 1), bucketed([1, 2, 3, 4, 5], 2)])).toEqual([0, 4]);
    expect(extent([])).toBeNull();
    expect(lastPoint(bucketed([1, 2, 3], 1))).toBe(3);
    expect(lastPoint(bucketed([1, 2, 3, 4], 2))).toBeUndefined();
  });
});

describe("range", () => {
  const wave = Array.from({ length: 1000 }, (_, i) => Math.sin(i / 20));
  test("shows everything when nothing stands out", () => {
    const r = rangeOf([bucketed(wave, 4)], 0, 999, false, false);
    expect(r.clipped).toBe(false);
    expect(r.min).toBeLessThan(Math.min(...wave));
    expect(r.max).toBeGreaterThan(Math.max(...wave));
  });
  test("leaves one spike out, says so, and shows it as a needle with its value", () => {
    const y = wave.slice();
    y[618] = 1000;
    const curve = bucketed(y, 4);
    const r = rangeOf([curve], 0, 999, false, false);
    expect(r.clipped).toBe(true);
    expect(r.max).toBeLessThan(2);
    const f = {
      left: 0,
      top: 0,
      width: 300,
      height: 100,
      x0: 0,
      x1: 999,
      y0: r.min,
      y1: r.max,
      log: false,
      ratio: 1,
    };
    const needles = needlesOf(f, [line(curve)], r);
    expect(needles[0]).toMatchObject({ up: true, value: 1000, lo: 616, hi: 619 });
    expect(rangeOf([curve], 0, 999, true, false)).toMatchObject({ clipped: false });
    expect(rangeOf([curve], 0, 999, true, false).max).toBeGreaterThan(1000);
  });
  test("a spike among few coarse buckets is a needle too", () => {
    const y = wave.slice();
    y[500] = -800;
    expect(rangeOf([bucketed(y, 20)], 0, 999, false, false)).toMatchObject({ clipped: true });
  });
  test("log ignores what has no logarithm; flat and empty have a range", () => {
    const r = rangeOf([bucketed([-1, 0, 1, 10, 100], 1)], 0, 4, false, true);
    expect(r.min).toBeGreaterThan(0.5);
    expect(r.max).toBeGreaterThan(100);
    expect(rangeOf([bucketed([5, 5, 5], 1)], 0, 2, false, false)).toEqual({
      min: 4.5,
      max: 5.5,
      clipped: false,
    });
    expect(rangeOf([], 0, 1, false, false)).toEqual({ min: 0, max: 1, clipped: false });
  });
  test("only what lies in view counts", () => {
    expect(rangeOf([bucketed([0, 0, 100, 1, 2, 1], 1)], 3, 5, false, false).max).toBeLessThan(3);
  });
  test("the lane takes its pixels from under the curve", () => {
    const [lo, hi] = withLane(0, 100, 10, 110);
    expect(hi).toBe(100);
    expect(((0 - lo) / (hi - lo)) * 110).toBeCloseTo(10, 9);
  });
});

describe("place on the canvas", () => {
  const f = { left: 10, top: 20, width: 200, height: 100, x0: 0, x1: 50, y0: 0, y1: 4, log: false, ratio: 1 };
  test("linear and log", () => {
    expect([toX(f, 0), toX(f, 50), toY(f, 0), toY(f, 4)]).toEqual([10, 210, 120, 20]);
    expect(toY({ ...f, log: true }, 100)).toBe(70);
  });
});

describe("smoothing", () => {
  const r = random(3);
  const y = Float64Array.from({ length: 200 }, (_, i) => Math.sin(i / 9) + r());
  y[50] = Number.NaN;
  const x = Float64Array.from(y, (_, i) => i * i * 0.1 + i);
  test("EMA is the weighted mean of all values before, weights summing to one", () => {
    const w = 0.9;
    const curve = bucketed([...y], 1);
    const out = smooth(curve, { kind: "ema", weight: w })!.y;
    for (const i of [0, 1, 7, 49, 51, 199]) {
      const seen = [...y.slice(0, i + 1)].filter(Number.isFinite);
      const weights = seen.map((_, k) => w ** (seen.length - 1 - k));
      const want = seen.reduce((sum, v, k) => sum + v * weights[k]!, 0) / weights.reduce((a, b) => a + b, 0);
      expect(out[i]).toBeCloseTo(want, 10);
    }
    expect(out[0]).toBe(y[0]);
    expect(out[50]).toBeNaN();
  });
  test("Gaussian is the normalised sum over the window, at the ends too", () => {
    const overX = (values: Float64Array, width: number) => {
      const one = { lo: [...x], hi: [...x], min: [...values], max: [...values], mean: [...values] };
      const curve = curveOf({ ...one, count: [...values].map((v) => (Number.isNaN(v) ? 0 : 1)) });
      return smooth(curve, { kind: "gauss", width })!.y;
    };
    const out = overX(y, 0.02);
    const sigma = 0.02 * (x[199]! - x[0]!);
    for (const i of [0, 3, 60, 120, 199]) {
      let [sum, norm] = [0, 0];
      for (let j = 0; j < 200; j++) {
        if (Math.abs(x[j]! - x[i]!) > 4 * sigma || Number.isNaN(y[j])) continue;
        const k = Math.exp(-((x[j]! - x[i]!) ** 2) / (2 * sigma ** 2));
        sum += k * y[j]!;
        norm += k;
      }
      expect(out[i]).toBeCloseTo(sum / norm, 10);
    }
    const flat = new Float64Array(200).fill(4);
    expect([...overX(flat, 0.1)].every((v) => Math.abs(v - 4) < 1e-12)).toBe(true);
  });
});

describe("excursions", () => {
  const r = random(5);
  const decay = Array.from({ length: 2000 }, (_, i) => 0.7 + 1.7 * Math.exp(-i / 400) + 0.1 * (r() - 0.5));
  test("a decay has none, at any width", () => {
    for (const per of [1, 3, 10, 60]) expect(excursionsOf(bucketed(decay, per))).toEqual([]);
  });
  test("spikes out of it are found, though the decay goes as far", () => {
    const y = decay.slice();
    y[618] = 3;
    y[1207] = -1;
    for (const per of [1, 3, 10, 60])
      expect(excursionsOf(bucketed(y, per))).toEqual([Math.floor(618 / per), Math.floor(1207 / per)]);
  });
});

describe("ticks", () => {
  test.each([
    [0, 1, 5],
    [-3.2, 7.1, 5],
    [0, 1_999, 5],
    [0.61, 0.6132, 5],
    [1e-9, 5e-9, 4],
    [-1e12, 1e12, 6],
  ])("from %d to %d: round, inside, evenly spaced, at most %d", (min, max, most) => {
    const ticks = linearTicks(min, max, most);
    expect(ticks.length).toBeGreaterThanOrEqual(2);
    expect(ticks.length).toBeLessThanOrEqual(most);
    const step = ticks[1]! - ticks[0]!;
    for (const [i, t] of ticks.entries()) {
      expect(t).toBeGreaterThanOrEqual(min - step * 1e-6);
      expect(t).toBeLessThanOrEqual(max + step * 1e-6);
      expect(t).toBeCloseTo(ticks[0]! + i * step, 12 - Math.ceil(Math.log10(Math.abs(max))));
    }
    expect(new Set(tickLabels(ticks)).size).toBe(ticks.length);
  });
  test("labels", () => {
    expect(tickLabels([0, 200_000, 400_000])).toEqual(["0", "200k", "400k"]);
    expect(tickLabels([0.5, 1, 1.5])).toEqual(["0.5", "1.0", "1.5"]);
    expect(tickLabels([1_000_000, 1_500_000])).toEqual(["1.0M", "1.5M"]);
    expect(tickLabels([1e-7, 2e-7])).toEqual(["1e−7", "2e−7"]);
    expect(tickLabels([1_795_240_304, 1_795_240_306])).toEqual(["1795240304", "1795240306"]);
    expect(tickLabels([-2, 0, 2])).toEqual(["−2", "0", "2"]);
    expect(tickLabels([0, 500, 1000])).toEqual(["0", "500", "1000"]);
    expect(tickLabels([0, 2.5, 5])).toEqual(["0", "2.5", "5.0"]);
  });
  test("log", () => {
    expect(logTicks(0, 4, 5)).toEqual([0, 1, 2, 3, 4]);
    expect(logTicks(-8, 0, 4).length).toBeLessThanOrEqual(5);
    expect(logTicks(0, 0.2, 4).length).toBeGreaterThanOrEqual(2);
  });
  test("time falls on whole units of the reader's zone", () => {
    for (const t of timeTicks(1_790_000_123, 1_790_010_000, 5, 3600)) expect((t + 3600) % 1800).toBe(0);
    expect(timeTicks(0, 0.01, 4).length).toBeGreaterThan(1);
  });
  test("steps are whole", () => {
    expect(xTicks(axisFor(["step"], ""), 0, 3, 8).every(Number.isInteger)).toBe(true);
  });
});

describe("axis", () => {
  test("a series without the chosen axis keeps its own", () => {
    expect(axisFor(["step", "episode"], "episode").name).toBe("episode");
    expect(axisFor(["step"], "window").name).toBe("step");
    expect(axisFor(["window"], "").name).toBe("window");
    expect(axisFor([], "").kind).toBe("wall");
    expect(axisFor(["step"], "relative")).toMatchObject({ name: "time_ns", kind: "relative" });
  });
  test("a drawn range asks for whole stored numbers inside it, and for all of a time's rounding", () => {
    expect(storedRange([0.4, 9.6], unitOf(axisFor(["step"], ""), 5))).toEqual({ from: 1, to: 9 });
    const start = 1_790_000_000_123_456_800;
    const { from, to } = storedRange([1, 2], unitOf(axisFor([], "relative"), start));
    expect(from).toBeLessThanOrEqual(start + 1e9);
    expect(to).toBeGreaterThanOrEqual(start + 2e9);
    expect(to - from).toBeLessThan(1e9 + 4096);
  });
});

describe("words", () => {
  test.each([
    [0, "0"],
    [0.123456, "0.1235"],
    [1234.5678, "1,235"],
    [123_456, "123,456"],
    [1e9, "1e9"],
    [-0.00001234, "−1.234e−5"],
    ["NaN", "NaN"],
    ["-Infinity", "−Inf"],
    [null, "–"],
  ])("%s is written %s", (value, text) => expect(short(value)).toBe(text));
  test("durations have two units", () => {
    expect([840, 5_300, 65_000, 3_600_000, 273_600_000].map(duration)).toEqual([
      "840 ms",
      "5.3 s",
      "1 m 5 s",
      "1 h",
      "3 d 4 h",
    ]);
  });
  test("titles lose their middle", () => {
    expect(cutMiddle("abcdefghij", 5)).toBe("ab…ij");
    expect(cutMiddle("abc", 5)).toBe("abc");
    expect(fitTitle("layers/12/attention/grad_norm", 20)).toEqual(
      ["layer…tion/", "grad_norm"].map((t, i) => (i ? t : cutMiddle("layers/12/attention/", 11))),
    );
    const [prefix, name] = fitTitle("a/very_long_metric_name_of_forty_characters", 20);
    expect(prefix).toBe("");
    expect(name.length).toBe(20);
  });
  test("names are in the order a person counts", () => {
    const names = ["layers/10/a", "layers/2/a", "Layers/3", "loss", "eval/acc"];
    const byKey = names.slice().sort((a, b) => (naturalKey(a) < naturalKey(b) ? -1 : 1));
    expect(byKey).toEqual(names.slice().sort(natural));
    expect([groupOf("a/b/c"), groupOf("loss")]).toEqual(["a", ""]);
  });
});

describe("tooltip", () => {
  test("at most eight rows, the nearest first, none of a line that ended before", () => {
    const f = {
      left: 0,
      top: 0,
      width: 400,
      height: 100,
      x0: 0,
      x1: 99,
      y0: 0,
      y1: 20,
      log: false,
      ratio: 1,
    };
    const lines = Array.from({ length: 12 }, (_, i) =>
      line(bucketed(new Array(i === 3 ? 20 : 100).fill(i), 1), String(i)),
    );
    const rows = rowsAt(lines, f, 80, toY(f, 4.2));
    expect(rows.map((r) => r.line.id)).toEqual(["4", "5", "6", "2", "7", "1", "8", "0"]);
  });
});

describe("export", () => {
  const sceneOf = (lines: ReturnType<typeof line>[]) => ({
    ...{ lines, axis: axisFor(["step"], ""), x: [0, 3] as [number, number], log: false, front: noFront },
    ...{ y: { min: 0, max: 4, clipped: false }, palette: lightPalette, version: "", needleLabel: () => "" },
  });
  test("CSV holds every bucket and quotes names", () => {
    const frame = { left: 0, top: 0, width: 1, height: 1, x0: 0, x1: 1, y0: 0, y1: 1, log: false, ratio: 1 };
    const scene = sceneOf([line(bucketed([1, 3, Number.NaN], 2))]);
    const text = csv({ title: "t", scene, name: () => 'a "b", c', frame });
    expect(text).toBe(
      'line,step,last_x,min,max,mean,count\r\n"a ""b"", c",0,1,1,3,2,2\r\n"a ""b"", c",2,2,,,,0\r\n',
    );
  });
  test("marks what is inherited in CSV, and dims it in SVG up to the line where the fork left", () => {
    const frame = {
      left: 0,
      top: 0,
      width: 100,
      height: 50,
      x0: 0,
      x1: 3,
      y0: 0,
      y1: 4,
      log: false,
      ratio: 1,
    };
    const ones = [1, 1, 1, 1];
    const [x, y] = [
      [0, 1, 2, 3],
      [1, 2, 3, 4],
    ];
    const columns = { lo: x, hi: x, min: y, max: y, mean: y, count: ones, inherited: [1, 1, 0, 0] };
    const forked = { ...line(curveOf(columns)), fork: 1.5 };
    const picture = { title: "t", scene: sceneOf([forked]), name: () => "f", frame };
    const text = csv(picture);
    expect(text.split("\r\n").map((row) => row.split(",").at(-1))).toEqual([
      "inherited",
      "1",
      "1",
      "0",
      "0",
      "",
    ]);
    const drawn = svg(picture);
    const strokes = [...drawn.matchAll(/<path d="([^"]*)" fill="none"[^>]* opacity="([^"]*)"/g)];
    expect(strokes.map((m) => m[2])).toEqual(["0.4", "1", "0.8"]);
    expect(strokes[2]![1]).toBe("M50.5 28L50.5 78");
  });
});
