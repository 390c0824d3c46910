import { describe, expect, test } from "vitest";
import { dots, masses, rangeOf, rebin, shade, span, windowStart } from "../../src/chart/document.ts";
import { random } from "../standin/data.ts";

describe("histograms", () => {
  test("rows hold the mass that many small grains of each bin would put there", () => {
    const r = random(11);
    for (let round = 0; round < 50; round++) {
      const n = 1 + Math.floor(r() * 12);
      const bin_edges = [r() * 4 - 2];
      for (let i = 0; i < n; i++) bin_edges.push(bin_edges[i]! + 0.05 + r());
      const counts = Array.from({ length: n }, () => Math.floor(r() * 9));
      const total = counts.reduce((a, b) => a + b, 0);
      const range: [number, number] = [bin_edges[0]! - r(), bin_edges.at(-1)! + r()];
      const rows = 1 + Math.floor(r() * 20);
      const want = new Float64Array(rows);
      const grains = 4000;
      counts.forEach((c, i) => {
        for (let g = 0; g < grains && total > 0; g++) {
          const at = bin_edges[i]! + ((g + 0.5) / grains) * (bin_edges[i + 1]! - bin_edges[i]!);
          want[Math.min(rows - 1, Math.floor(((at - range[0]) / (range[1] - range[0])) * rows))]! +=
            c / total / grains;
        }
      });
      const got = rebin({ bin_edges, counts }, range, rows);
      got.forEach((v, i) => {
        expect(Math.abs(v - want[i]!)).toBeLessThan(0.002);
      });
    }
  });

  test("densities weigh by the width of their bins; an empty one has no mass", () => {
    expect(masses({ bin_edges: [0, 1, 3], densities: [0.5, 0.25] })).toEqual([0.5, 0.5]);
    expect([...rebin({ bin_edges: [0, 1], counts: [0] }, [0, 1], 2)]).toEqual([0, 0]);
    expect(rangeOf([{ bin_edges: [0, 1] }, { bin_edges: [-2, 0.5] }])).toEqual([-2, 1]);
  });
});

test("dots leave out what has no place", () => {
  expect(dots({ x: [1, "NaN", 3], y: [2, 2, "Infinity"], z: [9, 9, 9] })).toEqual([{ x: 1, y: 2, z: 9 }]);
  expect(span([])).toEqual([0, 1]);
  expect(span([4, 4])).toEqual([2, 6]);
  expect(shade(0, [0, 0, 0], [255, 255, 255])).toBe("rgb(0 0 0)");
  expect(shade(1, [0, 0, 0], [255, 255, 255])).toBe("rgb(255 255 255)");
});

test("of a long series the newest points are asked for", () => {
  const series = {
    metric: "m",
    scale: "s",
    labels: {},
    kind: "histogram" as const,
    axes: ["step"],
    count: 100,
  };
  expect(windowStart({ ...series, last: { step: 990 } })).toBe(null);
  const start = windowStart({ ...series, count: 10_000, last: { step: 99_990 } })!;
  expect(start).toBeGreaterThan(95_900);
  expect(start).toBeLessThan(96_100);
});
