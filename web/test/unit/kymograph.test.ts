import { describe, expect, test, vi } from "vitest";
import { decode, kymographHead, mostRows } from "../../src/api/kymograph.ts";
import type { Rendering } from "../../src/api/media.ts";
import { relative, storedRange, unitOf } from "../../src/chart/axis.ts";
import { sidesOf } from "../../src/chart/brush.ts";
import { nearest, shareOf } from "../../src/chart/episode.ts";
import { colorOf, gradient, levelValue, table } from "../../src/chart/heat.ts";
import {
  cellAt,
  codesAt,
  columnsAt,
  countClipped,
  type Grid,
  hatched,
  merge,
  paintRow,
  rowAt,
  rowHeight,
  rowsIn,
} from "../../src/chart/raster.ts";
import {
  bracketsOf,
  descending,
  idsOf,
  type Member,
  namesOf,
  type Order,
  orderOf,
  parseLimits,
  parseRows,
  rowsParam,
  select,
  selectorOf,
  templateOf,
  templates,
} from "../../src/chart/rows.ts";
import { averageLinkage, distances, leaves, pairAt, similarOrder } from "../../src/chart/similar.ts";
import type { Curve } from "../standin/data.ts";
import { picture } from "../standin/kymograph.ts";

const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 4294967296;
};

// --- A naive program: from points to the colour of each pixel, from what the documents say. ---

type Rgb = [number, number, number];
const parse = (text: string): Rgb[] =>
  text.split(" ").map((h) => [1, 3, 5].map((i) => Number.parseInt(h.slice(i, i + 2), 16)) as Rgb);
const viridis = parse("#440f5c #46327e #3b528b #2c728e #21908d #27ad81 #5ec962 #aadc32 #fde725");
const around = parse("#123f8f #2f6cc4 #6fa0e0 #b3cbea #d9dadb #f0bd93 #e5884a #c4540f #7d2f06");

function along(stops: Rgb[], share: number): Rgb {
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return [0, 1, 2].map((c) => stops[i]![c]! * (1 - (at - i)) + stops[i + 1]![c]! * (at - i)) as Rgb;
}

/** A value's colour: one scale for values of one sign, one around 0 for both; beyond the limits that of the end. */
function naiveColor(value: number, lo: number, hi: number): Rgb {
  const v = Math.min(hi, Math.max(lo, value));
  if (lo < 0 && hi > 0) return along(around, 0.5 + v / Math.max(-lo, hi) / 2);
  return along(viridis, lo === hi ? 0.5 : (v / 4 - lo / 4) / (hi / 4 - lo / 4));
}

interface Point {
  x: number;
  value: number;
}

type How = "mean" | "min" | "max";

/** What a cell shows: nothing, no number, or a value; and whether there is a NaN among its points. */
function naiveCell(points: Point[], how: How): { value: number | "none" | "empty"; nan: boolean } {
  const nan = points.some((p) => Number.isNaN(p.value));
  const all = points.map((p) => p.value).filter((v) => !Number.isNaN(v));
  const finite = all.filter(Number.isFinite);
  if (points.length === 0) return { value: "none", nan };
  if (all.length === 0) return { value: "empty", nan };
  if (how === "max")
    return { value: Math.max(...all.filter((v) => v !== -Infinity || finite.length === 0)), nan };
  if (how === "min")
    return { value: Math.min(...all.filter((v) => v !== Infinity || finite.length === 0)), nan };
  if (finite.length) return { value: finite.reduce((n, v) => n + v / finite.length, 0), nan };
  return { value: all.every((v) => v === all[0]) ? all[0]! : "empty", nan };
}

/** The server's byte for a cell. */
function naiveCode(points: Point[], how: How, lo: number, hi: number): number {
  const { value, nan } = naiveCell(points, how);
  const extra = nan ? 128 : 0;
  if (value === "none") return extra;
  if (value === "empty") return 1 | extra;
  if (value < lo) return 2 | extra;
  if (value > hi) return 67 | extra;
  if (lo === hi) return 35 | extra;
  return (3 + Math.min(63, Math.floor(((value / 4 - lo / 4) / (hi / 4 - lo / 4)) * 64))) | extra;
}

const kinds: ((r: () => number, i: number) => number)[] = [
  (r) => r() * 2 - 1,
  (r) => 10 ** (r() * 12 - 6),
  () => 7,
  (r) => Math.round(r() * 3),
  (r) => (r() - 0.5) * 2e300,
  (r) => (r() - 0.5) * Number.MAX_VALUE * 2,
  (r) => -(r() + 1),
  (r) => (r() < 0.3 ? Number.NaN : r() < 0.5 ? Infinity : r() < 0.5 ? -Infinity : r()),
  () => Number.NaN,
  (r, i) => i + r() * 0.01,
];

/** The points of a row as a run leaves them: with gaps, and a restart whose later points win. */
function pointsOf(r: () => number, span: number): Point[] {
  const kind = kinds[Math.floor(r() * kinds.length)]!;
  const [every, gap] = [1 + Math.floor(r() * 3), Math.floor(r() * span)];
  const first: Point[] = [];
  for (let x = 0; x < span; x += every)
    if (x < gap || x > gap + span / 5) first.push({ x, value: kind(r, x) });
  if (r() < 0.5) return first;
  const resumed = Math.floor(r() * span);
  const again: Point[] = [];
  for (let x = resumed; x < span; x += every) again.push({ x, value: kind(r, x) });
  return [...first.filter((p) => p.x < resumed), ...again];
}

/** An answer as the server writes it. */
function answer(grid: Grid, limits: [number, number] | null, rows: number, cells: number[]) {
  const zeros = (n: number) => Array.from({ length: n }, () => 0);
  const named = (n: number) => ({
    ...{ number: zeros(n), last: zeros(n), min: zeros(n), max: zeros(n), mean: zeros(n) },
    ...{ count: zeros(n), nan: zeros(n), pos_inf: zeros(n), neg_inf: zeros(n) },
  });
  const head = { x: "step", ...grid, limits, rows: named(rows), profile: named(grid.columns) };
  return decode(new Uint8Array([...new TextEncoder().encode(`${JSON.stringify(head)}\n`), ...cells]));
}

const ink = { hatch: 0xff010203, ground: 0xff0a0b0c, mark: 0xff111213 };
const unpack = (p: number): Rgb => [p & 255, (p >> 8) & 255, (p >> 16) & 255];

describe("what the server is asked for", () => {
  test("is a range that it takes, whatever the address says", async () => {
    vi.stubGlobal("location", new URL("http://x/"));
    vi.stubGlobal("matchMedia", () => ({ matches: false }));
    vi.stubGlobal("localStorage", { getItem: () => null });
    const { parseZoom } = await import("../../src/state/view.ts");
    vi.unstubAllGlobals();
    const steps = unitOf({ name: "step", key: "step", kind: "number" }, 0);
    for (const zoom of ["0.5:7.5", "1.2:1.4", "-0.4:-0.1", "-1e308:1e308", "1e300:1e308"]) {
      const { from, to } = parseZoom(`step:${zoom}`)!;
      const asked = storedRange([from, to], steps);
      expect(asked.from).toBeLessThanOrEqual(asked.to);
      for (const end of [asked.from, asked.to].map((n) => BigInt(JSON.stringify(n))))
        expect(BigInt.asIntN(64, end)).toBe(end);
    }
    expect(parseZoom("step:1.2:1.4")).toEqual({ key: "step", from: 1, to: 2 });
    expect(parseZoom("step:0.5:1.4")).toEqual({ key: "step", from: 0.5, to: 1.4 });
    expect(parseZoom(`${relative}:1.2:1.4`)).toEqual({ key: relative, from: 1.2, to: 1.4 });
  });
});

describe("pixels", () => {
  test("400 random pictures show what their points say", () => {
    const r = random(11);
    let compared = 0;
    for (let round = 0; round < 400; round++) {
      const how = (["mean", "min", "max"] as const)[round % 3]!;
      const span = round % 10 === 0 ? 1 : 1 + Math.floor(r() * 60);
      const rows = round % 7 === 0 ? 1 : 1 + Math.floor(r() * 4);
      const columns = round % 9 === 0 ? 1 : 1 + Math.floor(r() * span);
      const width = columns + Math.floor(r() * 100);
      const height = 1 + Math.floor(r() * 12);
      const points = Array.from({ length: rows }, () => pointsOf(r, span));
      const cell = (row: number, c: number) =>
        points[row]!.filter((p) => Math.floor((p.x * columns) / span) === c);
      const values = points
        .flat()
        .map((p) => p.value)
        .filter(Number.isFinite)
        .sort((a, b) => a - b);
      const lo = values[Math.floor(values.length / 20)] ?? 0;
      const hi = values[values.length - 1 - Math.floor(values.length / 20)] ?? 0;
      const cells = points.flatMap((_, row) =>
        Array.from({ length: columns }, (_, c) => naiveCode(cell(row, c), how, lo, hi)),
      );
      const grid = { from: 0, to: span - 1, columns };
      const picture = answer(grid, [lo, hi], rows, cells);
      const at = columnsAt(picture, { ...grid, columns: width });
      const colors = table(picture.limits!, [lo, hi], false);
      const pixels = new Uint32Array(width * rows * height);
      const codes = new Uint8Array(width);
      for (let row = 0; row < rows; row++) {
        codesAt(codes, picture.cells.subarray(row * columns, (row + 1) * columns), at, how);
        paintRow(pixels, width, row * height, height, codes, at, colors, ink);
      }
      for (let row = 0; row < rows; row++)
        for (let x = 0; x < width; x++) {
          // The cell that is under the middle of the pixel.
          const c = Math.min(columns - 1, Math.floor(((x + 0.5) * columns) / width));
          const { value, nan } = naiveCell(cell(row, c), how);
          for (let y = 0; y < height; y++) {
            const pixel = pixels[(row * height + y) * width + x]!;
            compared++;
            const where = `round ${round}: pixel ${x},${y} of row ${row}`;
            if (pixel === ink.mark) {
              const clipped = typeof value === "number" && (value < lo || value > hi);
              if (!clipped || height < 7)
                throw new Error(`${where} has a mark, its value is ${value} in ${lo}…${hi}`);
            } else if (value === "none") expect(pixel, where).toBe(0);
            else if ((nan || value === "empty") && hatched(x, row * height + y))
              expect(pixel, where).toBe(ink.hatch);
            else if (value === "empty") expect(pixel, where).toBe(ink.ground);
            else {
              const [got, want] = [unpack(pixel), naiveColor(value, lo, hi)];
              // A level is 1/64 of the scale: about a twelfth of the way between two of its nine colours.
              const step = lo < 0 && hi > 0 ? ((hi / 2 - lo / 2) / Math.max(-lo, hi)) * 9 : 9;
              if (got.some((v, i) => Math.abs(v - want[i]!) > step + 1))
                throw new Error(`${where} is ${got}, ${value} in ${lo}…${hi} is ${want}`);
            }
          }
        }
    }
    expect(compared).toBeGreaterThan(300_000);
  });

  test("every clipped cell of enough size has one corner, and none of the others", () => {
    const cells = new Uint8Array([2, 30, 67, 67, 0, 195]);
    const grid = { from: 0, to: 5, columns: 6 };
    const at = columnsAt(grid, { ...grid, columns: 60 });
    const pixels = new Uint32Array(60 * 10);
    const codes = new Uint8Array(60);
    codesAt(codes, cells, at, "mean");
    paintRow(pixels, 60, 0, 10, codes, at, table([0, 1], [0, 1], false), ink);
    const marks = Array.from({ length: 6 }, (_, c) => {
      const inCell = (x: number) => Math.floor(x / 10) === c;
      return pixels.reduce((n, p, i) => n + (p === ink.mark && inCell(i % 60) ? 1 : 0), 0);
    });
    expect(marks).toEqual([15, 0, 15, 15, 0, 15]);
    expect(pixels[9 * 60]).toBe(ink.mark); // below: at the bottom left
    expect(pixels[29]).toBe(ink.mark); // above: at the top right
    expect(countClipped([cells])).toEqual({ below: 1, above: 3, nan: 1, cells: 5 });
  });

  test("a picture of another range lies at its own x, and finer cells keep their extremes", () => {
    const r = random(5);
    for (let round = 0; round < 200; round++) {
      const p = { from: Math.floor(r() * 50) - 25, to: 0, columns: 1 + Math.floor(r() * 80) };
      p.to = p.from + p.columns * (1 + Math.floor(r() * 3)) - 1;
      const view = { from: Math.floor(r() * 50) - 25, to: 0, columns: 1 + Math.floor(r() * 60) };
      view.to = view.from + Math.floor(r() * 60);
      const at = columnsAt(p, view);
      const cells = Uint8Array.from({ length: p.columns }, () => 3 + Math.floor(r() * 64));
      const seen = new Set<number>();
      for (let i = 0; i < view.columns; i++) {
        const x = (k: number) => view.from + (k * (view.to - view.from + 1)) / view.columns;
        const middle = x(i + 0.5);
        const inside = middle >= p.from && middle < p.to + 1;
        if (at.first[i]! >= 0) for (let c = at.first[i]!; c <= at.last[i]!; c++) seen.add(c);
        const own = Math.floor(((middle - p.from) * p.columns) / (p.to - p.from + 1));
        const near = Math.abs(at.first[i]! - own) <= 1 || (at.first[i]! <= own && own <= at.last[i]!);
        if (inside && (at.first[i]! < 0 || !near))
          throw new Error(`round ${round}: pixel ${i} is of ${at.first[i]}, not ${own}`);
        const part = [...cells.subarray(Math.max(0, at.first[i]!), at.last[i]! + 1)];
        if (at.first[i]! >= 0) expect(merge(cells, at.first[i]!, at.last[i]!, "max")).toBe(Math.max(...part));
        if (at.first[i]! >= 0) expect(merge(cells, at.first[i]!, at.last[i]!, "min")).toBe(Math.min(...part));
      }
      // Cells narrower than a pixel are all in one: nothing is left out.
      const wide = (p.to - p.from + 1) / p.columns;
      if (wide < (view.to - view.from + 1) / view.columns)
        for (let c = 0; c < p.columns; c++) {
          const [a, b] = [p.from + c * wide, p.from + (c + 1) * wide];
          if (a >= view.from && b <= view.to + 1)
            expect(seen.has(c), `round ${round}: column ${c}`).toBe(true);
        }
    }
  });

  test("NaN is kept when cells are merged, and no cell is none", () => {
    expect(merge(new Uint8Array([0, 0]), 0, 1, "mean")).toBe(0);
    expect(merge(new Uint8Array([129, 0, 40]), 0, 2, "mean")).toBe(168);
    expect(merge(new Uint8Array([129, 1]), 0, 1, "max")).toBe(129);
    expect(merge(new Uint8Array([10, 21]), 0, 1, "mean")).toBe(16);
  });
});

describe("colours", () => {
  test("a level has the colour of its values; other limits move it, and the ends stay ends", () => {
    for (const [lo, hi] of [
      [0, 1],
      [-1, 3],
      [-5, -2],
      [1e-300, 1e300],
      [-1e308, 1.7e308],
    ] as [number, number][]) {
      const colors = table([lo, hi], [lo, hi], false);
      for (let level = 0; level < 64; level++)
        expect(unpack(colors[3 + level]!)).toEqual(colorOf(levelValue(level, [lo, hi]), [lo, hi], false));
      expect(colors[2]).toBe(table([lo, hi], [lo, hi], false)[2 | 128]);
      expect(unpack(colors[67]!)).toEqual(colorOf(hi, [lo, hi], false));
    }
    const moved = table([0, 1], [0.5, 1], false);
    expect(new Set(Array.from({ length: 32 }, (_, i) => moved[3 + i])).size).toBe(1);
  });

  test("0 is the middle of a scale of both signs, however uneven it is", () => {
    for (const dark of [false, true])
      for (const limits of [
        [-1, 1],
        [-1, 100],
        [-1e300, 1],
      ] as [number, number][])
        expect(colorOf(0, limits, dark)).toEqual(colorOf(0, [-1, 1], dark));
    expect(colorOf(0, [0, 1], false)).not.toEqual(colorOf(0, [-1, 1], false));
    expect(gradient([-1, 1], true)).toHaveLength(33);
  });
});

describe("hits", () => {
  test("rows in sight and under the pointer are those of a program that looks at each", () => {
    const r = random(3);
    for (let round = 0; round < 500; round++) {
      const [rows, height] = [Math.floor(r() * 60), 1 + r() * 17];
      const [scroll, room] = [r() * rows * height, r() * 400];
      const seen = Array.from({ length: rows }, (_, i) => i).filter(
        (i) => (i + 1) * height > scroll && i * height < scroll + room,
      );
      const [first, last] = rowsIn(scroll, room, height, rows);
      expect(last - first).toBe(seen.length);
      if (seen.length) expect(first).toBe(seen[0]);
      const y = r() * (rows + 3) * height;
      const under = Array.from({ length: rows }, (_, i) => i).find(
        (i) => y >= i * height && y < (i + 1) * height,
      );
      expect(rowAt(y, height, rows)).toBe(under ?? -1);
    }
    expect(rowAt(-1, 10, 5)).toBe(-1);
  });

  test("the x of a cell are those that the server puts there", () => {
    const r = random(4);
    for (let round = 0; round < 500; round++) {
      const span = 1 + Math.floor(r() * 300);
      const grid = { from: Math.floor((r() - 0.5) * 1000), to: 0, columns: 1 + Math.floor(r() * span) };
      grid.to = grid.from + span - 1;
      const view = { ...grid, columns: grid.columns + Math.floor(r() * 200) };
      const px = Math.floor(r() * view.columns);
      const cell = cellAt(px, view, grid)!;
      const own: number[] = [];
      for (let x = grid.from; x <= grid.to; x++)
        if (Math.floor(((x - grid.from) * grid.columns) / span) === cell.column) own.push(x);
      expect([cell.from, cell.to]).toEqual([own[0], own.at(-1)]);
      expect(cell.column).toBe(
        Math.min(grid.columns - 1, Math.floor(((px + 0.5) * grid.columns) / view.columns)),
      );
    }
  });

  test("rows are 3 to 18 pixels high, as chosen or as fits", () => {
    expect([rowHeight("", 4096, 700), rowHeight("", 48, 700), rowHeight("", 1, 700)]).toEqual([3, 14, 18]);
    expect([rowHeight("12", 4096, 700), rowHeight("2", 4096, 700), rowHeight("x", 100, 700)]).toEqual([
      12, 3, 7,
    ]);
    expect(rowHeight("", 0, 700)).toBe(18);
  });
});

const never = () => Promise.resolve();

describe("similarity", () => {
  /** Average linkage as it is defined: the two clusters whose rows are nearest on average, again and again. */
  function naiveLinkage(
    d: (i: number, j: number) => number,
    n: number,
  ): { heights: number[]; sets: Set<string> } {
    let clusters = Array.from({ length: n }, (_, i) => [i]);
    const heights: number[] = [];
    const sets = new Set<string>();
    while (clusters.length > 1) {
      let best = { far: Infinity, a: 0, b: 0 };
      for (let a = 0; a < clusters.length; a++)
        for (let b = a + 1; b < clusters.length; b++) {
          let sum = 0;
          for (const i of clusters[a]!) for (const j of clusters[b]!) sum += d(i, j);
          const far = sum / (clusters[a]!.length * clusters[b]!.length);
          if (far < best.far) best = { far, a, b };
        }
      const joined = [...clusters[best.a]!, ...clusters[best.b]!].sort((x, y) => x - y);
      heights.push(best.far);
      sets.add(joined.join());
      clusters = [...clusters.filter((_, i) => i !== best.a && i !== best.b), joined];
    }
    return { heights: heights.sort((x, y) => x - y), sets };
  }

  test("the chain of nearest neighbours joins what average linkage joins, in random pictures", async () => {
    const r = random(7);
    for (let round = 0; round < 40; round++) {
      const [n, columns] = [2 + Math.floor(r() * 24), 20 + Math.floor(r() * 40)];
      const cells = Uint8Array.from({ length: n * columns }, () =>
        r() < 0.1 ? 0 : 3 + Math.floor(r() * 64),
      );
      const d = await distances(cells, columns, never);
      const far = (i: number, j: number) => {
        let [sum, shared] = [0, 0];
        for (let k = 0; k < columns; k++) {
          const [a, b] = [cells[i * columns + k]!, cells[j * columns + k]!];
          if (a && b) [sum, shared] = [sum + (a - b) ** 2, shared + 1];
        }
        return Math.sqrt((sum * columns) / shared);
      };
      for (let i = 0; i < n; i++)
        for (let j = i + 1; j < n; j++) expect(d[pairAt(n, i, j)]).toBeCloseTo(far(i, j), 3);
      const want = naiveLinkage(far, n);
      const merges = await averageLinkage(n, d, never);
      const sets: number[][] = Array.from({ length: n }, (_, i) => [i]);
      for (const { a, b } of merges) sets.push([...sets[a]!, ...sets[b]!].sort((x, y) => x - y));
      expect(new Set(sets.slice(n).map((s) => s.join()))).toEqual(want.sets);
      const heights = merges.map((m) => m.distance).sort((x, y) => x - y);
      for (const [i, h] of heights.entries()) expect(h).toBeCloseTo(want.heights[i]!, 2);
      const order = leaves(n, merges, new Float64Array(n));
      expect([...order].sort((x, y) => x - y)).toEqual(Array.from({ length: n }, (_, i) => i));
      for (const set of sets) {
        const places = set.map((row) => order.indexOf(row));
        expect(Math.max(...places) - Math.min(...places)).toBe(set.length - 1); // a branch lies in one piece
      }
    }
  });

  test("equal rows lie together, high ones first; no row, one row and rows without a value are no case of their own", async () => {
    const rows = [50, 10, 50, 10, 50].flatMap((v) => [v, v, v]);
    expect(await similarOrder(Uint8Array.from(rows), 3, never)).toEqual([0, 2, 4, 1, 3]);
    expect(await similarOrder(new Uint8Array(0), 3, never)).toEqual([]);
    expect(await similarOrder(new Uint8Array([3, 4, 5]), 3, never)).toEqual([0]);
    expect((await similarOrder(new Uint8Array([0, 0, 3, 4, 129, 1, 0, 0]), 2, never)).sort()).toEqual([
      0, 1, 2, 3,
    ]);
  });

  test("4,096 rows are put in order without a long task", async () => {
    const r = random(9);
    const cells = Uint8Array.from({ length: 4096 * 64 }, () => 3 + Math.floor(r() * 64));
    const slices: number[] = [];
    let last = performance.now();
    const start = last;
    const order = await similarOrder(cells, 64, async () => {
      slices.push(performance.now() - last);
      await new Promise(setImmediate);
      last = performance.now();
    });
    const longest = Math.max(...slices);
    console.info(
      `4,096 rows by similarity: ${(performance.now() - start).toFixed(0)} ms in ${slices.length} slices, the longest ${longest.toFixed(0)} ms`,
    );
    expect(new Set(order).size).toBe(4096);
    expect(slices.length).toBeGreaterThan(100);
  });
});

const noted = (metric: string, labels: Record<string, string> = {}, scale = "ML_STEP"): Member => ({
  run: "r",
  series: { metric, labels, scale, kind: "float64", axes: ["step"], count: 1 },
});
const cardOf = (...members: Member[]) => {
  const { metric, scale } = members[0]!.series;
  return { key: `${metric} ${scale}`, metric, scale, group: "", members };
};

describe("rows", () => {
  test("a selector is a metric or a pattern, of one scale", () => {
    const layers = [0, 1, 2].map((i) => cardOf(noted(`layers/${i}/grad`)));
    const loss = cardOf(noted("loss", { rank: "0" }), noted("loss", { rank: "1" }));
    const episodes = cardOf(noted("loss", {}, "EPISODE"));
    const cards = [...layers, loss, episodes];
    const names = (text: string, scale = "") =>
      select(cards, text, scale).members.map((m) => m.series.metric);
    expect(names("layers/*/grad")).toEqual(["layers/0/grad", "layers/1/grad", "layers/2/grad"]);
    expect(names("loss")).toEqual(["loss", "loss"]);
    expect(names("loss", "EPISODE")).toEqual(["loss"]);
    expect(select(cards, "loss", "").scales).toEqual(["ML_STEP", "EPISODE"]);
    for (const text of ["", "(", "none", "__proto__"]) expect(names(text)).toEqual([]);
    // A metric that looks like a pattern is itself.
    expect(select([cardOf(noted("a*")), cardOf(noted("ab"))], "a*", "").members).toHaveLength(1);
  });

  test("names keep what tells rows apart, ids find them again, and none is taken for code", () => {
    const env = (i: number, map: string) => noted("return", { env_id: `env-${i}`, map, kind: "x" });
    const members = [env(0, "cave"), env(1, "sea"), env(2, "cave")];
    expect(namesOf(members, String)).toEqual(["env-0 · cave", "env-1 · sea", "env-2 · cave"]);
    expect(bracketsOf(members, String)).toBeNull(); // a map of one row is no group
    expect(bracketsOf([...members, env(3, "sea")], String)).toEqual(["cave", "sea", "cave", "sea"]);
    expect(namesOf([noted("layers/0/grad"), noted("layers/1/grad")], String)).toEqual(["0", "1"]);
    expect(namesOf([noted("a"), noted("a/b")], String)).toEqual(["a", "a/b"]);
    expect(namesOf([noted("only")], String)).toEqual(["only"]);
    const hidden = ["ab", "a\u200bb", "\u202eab", " ", "👨‍👩‍👧"].map((who) => noted("m", { who }));
    const seen = ["ab", "a⟨200B⟩b", "⟨202E⟩ab", "“ ”", "👨‍👩‍👧"];
    expect(namesOf(hidden, String)).toEqual(seen);
    expect(templates([cardOf(noted("a/1", { r: "1" }), noted("a/1", { r: "2" }))]).size).toBe(0);
    const hostile = ["__proto__", "constructor", "<img src=x onerror=alert(1)>", "x".repeat(65_536), ""];
    const odd = hostile.map((v) => noted("m", { [v.slice(0, 20) || "k"]: v }));
    expect(new Set(idsOf(odd)).size).toBe(odd.length);
    for (const id of idsOf(odd)) expect(id.length).toBeLessThanOrEqual(200);
    expect(namesOf(odd, String)).toHaveLength(odd.length);
    expect(templates([cardOf(noted("__proto__/1")), cardOf(noted("__proto__/2"))]).get("__proto__/*")).toBe(
      2,
    );
  });

  test("a template stands for numbers alone", () => {
    expect(["layers/12/grad", "block3/mlp7", "loss", "eval/top5/acc", "a*1"].map(templateOf)).toEqual([
      ...["layers/*/grad", "block*/mlp*", "loss", "eval/top*/acc", "a**"],
    ]);
    const cards = [cardOf(noted("l/0/g")), cardOf(noted("l/1/g")), cardOf(noted("loss/2"))];
    expect(cards.map((c) => selectorOf(cards, c))).toEqual(["l/*/g", "l/*/g", ""]);
  });

  test("what is no number in the address is nothing", () => {
    expect(["1,2", "2,1", "1", "", "a,b", "-1e300,1e300", "NaN,1", "1,Infinity"].map(parseLimits)).toEqual([
      ...[[1, 2], null, null, null, null, [-1e300, 1e300], null, null],
    ]);
    expect(["1-4096", "3-3", "0-2", "4-1", "x", "", "1.5-2"].map(parseRows)).toEqual([
      ...[[0, 4096], [2, 3], null, null, null, null, null],
    ]);
    expect(parseRows(rowsParam([11, 40]))).toEqual([11, 40]);
  });

  test("orders are those of a plain sort: gaps last, ties as they came, runs together", () => {
    const r = random(13);
    for (let round = 0; round < 100; round++) {
      const n = Math.floor(r() * 30);
      const values = Array.from({ length: n }, () => {
        const pick = [Number.NaN, Infinity, -Infinity, Math.floor(r() * 4), r()];
        return pick[Math.floor(r() * pick.length)]!;
      });
      const naive: number[] = [];
      const left = new Set(values.keys());
      while (left.size) {
        const best = [...left].reduce((a, b) => {
          if (Number.isNaN(values[b])) return a;
          return Number.isNaN(values[a]) || values[b]! > values[a]! ? b : a;
        });
        naive.push(best);
        left.delete(best);
      }
      expect(descending(values)).toEqual(naive);
    }
    const column = (...v: number[]) => Float64Array.from(v);
    const stats = { number: column(3, 1, 2), last: column(1, 3, 2), max: column(5, 5, 9) };
    const rows = { ...stats, min: stats.max, mean: stats.max, nan: stats.max };
    const by = (how: Order, runs = ["a", "a", "a"]) => orderOf(how, rows, ["x10", "x9", "x1"], runs);
    expect([by(""), by("last"), by("max"), by("label")]).toEqual([
      [1, 2, 0],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ]);
    expect(by("", ["b", "a", "b"])).toEqual([2, 0, 1]);
  });
});

describe("more rows than one answer has", () => {
  /** A server that refuses more rows than its most, and knows the rows by their label. */
  function serve(curves: Curve[]): number[] {
    const asked: number[] = [];
    vi.stubGlobal("document", { hidden: false });
    vi.stubGlobal("sessionStorage", { getItem: () => null });
    vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
      const q = JSON.parse(init.body as string);
      asked.push(q.rows.length);
      if (q.rows.length > mostRows) return new Response("{}", { status: 400 });
      return new Response(
        new Uint8Array(
          picture(
            q.rows.map((r: Row) => curves[Number(r.labels.i)]),
            q,
          ),
        ),
      );
    });
    return asked;
  }
  interface Row {
    labels: { i: string };
  }

  test.each([
    ["of the same steps", 0],
    ["that end at different steps, and one that begins before all others", 1],
  ])("rows %s are those of one answer", async (_, uneven) => {
    const n = 2 * mostRows + 100;
    const r = random(3);
    const curves = Array.from({ length: n }, (_, i): Curve => {
      const points = uneven ? Math.floor(r() * 9) : 5;
      const first = uneven && i === 4321 ? 2 : 10;
      const odd = [Number.NaN, Infinity, -Infinity];
      return {
        ...{ metric: "m", scale: "s", labels: {}, axes: ["step"], attempt: 1 },
        columns: { step: Float64Array.from({ length: points }, (_, k) => first + 2 * k) },
        value: Float64Array.from({ length: points }, () =>
          r() < 0.1 ? odd[Math.floor(r() * 3)]! : r() * 10 - 5,
        ),
      };
    });
    const asked = serve(curves);
    const row = (i: number) => ({ run: "r", metric: "m", scale: "s", labels: { i: String(i) } });
    const query = { rows: curves.map((_, i) => row(i)), x: "step", columns: 7, reduce: "mean" as const };
    const read: number[] = [];
    const got = await kymographHead(query, undefined, (rows) => read.push(rows));
    const want = decode(picture(curves, { ...query, cells: false }));
    expect(read.at(-1)).toBe(n);
    expect(Math.max(...asked)).toBeLessThanOrEqual(mostRows);
    expect([got.from, got.to, got.columns]).toEqual([want.from, want.to, want.columns]);
    expect(got.rows).toEqual({ ...want.rows, number: expect.anything() });
    const { mean, ...profile } = want.profile;
    expect(got.profile).toMatchObject(profile);
    mean.forEach((v, i) => {
      expect(Number(got.profile.mean[i])).toBeCloseTo(Number(v), 9);
    });
    want.limits!.forEach((v, i) => {
      expect(got.limits![i]).toBeCloseTo(v, 1);
    });
    vi.unstubAllGlobals();
  });
});

describe("a brush", () => {
  test("goes along x, along the rows, or both", () => {
    const box = { ratio: 2, rowHeight: 12 };
    const brush = (dx: number, rows: number) =>
      sidesOf({ from: { px: 100, row: 5 }, to: { px: 100 + dx * 2, row: 5 + rows } }, box);
    expect(brush(80, 0)).toEqual({ x: true, rows: false });
    expect(brush(1, 4)).toEqual({ x: false, rows: true });
    expect(brush(80, -4)).toEqual({ x: true, rows: true });
    expect(brush(0, 0)).toEqual({ x: true, rows: false });
  });
});

describe("videos", () => {
  test("the nearest episode plays, from where the update is", () => {
    const of = (episode: number) => ({ episode, first_rl_step: 10, last_rl_step: 19 }) as Rendering;
    const list = [of(2), of(6), of(9)];
    expect([0, 2, 4, 5, 100].map((e) => nearest(list, e)?.episode)).toEqual([2, 2, 2, 6, 9]);
    expect(nearest([], 1)).toBeUndefined();
    const share = (rlStep?: number, episode = 6) =>
      shareOf(of(6), { episode, ...(rlStep !== undefined && { rlStep }) });
    expect([share(10), share(15), share(19), share(5), share(99), share()]).toEqual([0, 0.5, 0.9, 0, 1, 0]);
    expect(share(15, 7)).toBe(0); // of another episode
  });
});
