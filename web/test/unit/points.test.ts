import { expect, test } from "vitest";
import { Points } from "../../src/chart/points.ts";
import { random } from "../standin/data.ts";

test("quantiles are those of all points, one by one", () => {
  const points = new Points();
  for (let seed = 1; seed <= 300; seed++) {
    const r = random(seed);
    const n = Math.floor(r() * 200);
    const most = seed % 3 === 0 ? 1 : Math.ceil(r() * 40);
    const all: number[] = [];
    points.clear();
    for (let i = 0; i < n; i++) {
      const value = Math.round((r() - 0.5) * 50) / (seed % 2 ? 1 : 7);
      const count = Math.ceil(r() * most);
      points.add(value, count);
      for (let k = 0; k < count; k++) all.push(value);
    }
    points.sort();
    all.sort((a, b) => a - b);
    for (const q of [0, 0.1, 0.25, 0.5, 0.75, 0.9])
      expect(points.quantile(q), `seed ${seed}, q ${q}`).toBe(all[Math.floor(q * (all.length - 1))] ?? 0);
  }
});
