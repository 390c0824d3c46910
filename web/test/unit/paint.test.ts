/** How much of a card lines, bands and notes cover, by what a canvas was asked to draw. */
import { expect, test } from "vitest";
import { unitOf } from "../../src/chart/axis.ts";
import { lightPalette } from "../../src/chart/color.ts";
import { curveOf } from "../../src/chart/curve.ts";
import { paintEnds } from "../../src/chart/end.ts";
import { type Context, type Frame, type Line, noFront, paintBehind } from "../../src/chart/paint.ts";
import type { Scene } from "../../src/chart/scene.ts";
import { lineOf, styleOf } from "../../src/chart/style.ts";
import { buckets } from "../standin/bucket.ts";

const frame: Frame = {
  ...{ left: 40, top: 6, width: 200, height: 120, x0: 0, x1: 999, y0: 0, y1: 1, log: false, ratio: 1 },
};

const axis = { key: "step", kind: "number", name: "step" } as const;

/** A line of 1,000 points between 0.1 and 0.9, whose mean is 0.5. */
function noisy(slot: number, lines: number): Line {
  const step = Float64Array.from({ length: 1000 }, (_, i) => i);
  const value = step.map((i) => (i % 2 ? 0.1 : 0.9));
  const spec = { metric: "m", scale: "ML_STEP", labels: {}, axes: ["step"], attempt: 1 };
  const asked = buckets({ ...spec, columns: { step, time_ns: step }, value }, "step", 50);
  const place = { lines, runs: lines, slot, set: 0, sets: 1 };
  const style = styleOf(place, lightPalette, false);
  const how = { id: String(slot), faded: false, lines, smoothing: { kind: "none" } as const, log: false };
  return lineOf(curveOf(asked as never, unitOf(axis, 0)), style, how);
}

interface Drawn {
  kind: "stroke" | "fill" | "text";
  alpha: number;
  top?: number;
  text?: string;
}

function recorder(): { canvas: Context; drawn: Drawn[] } {
  const drawn: Drawn[] = [];
  const state: Record<string, unknown> = { globalAlpha: 1 };
  const alpha = () => state.globalAlpha as number;
  const calls: Record<string, (...args: never[]) => unknown> = {
    stroke: () => drawn.push({ kind: "stroke", alpha: alpha() }),
    fill: () => drawn.push({ kind: "fill", alpha: alpha() }),
    fillText: (text: string, _: number, top: number) =>
      drawn.push({ kind: "text", alpha: alpha(), text, top }),
    measureText: (text: string) => ({ width: 6 * text.length }),
  };
  const canvas = new Proxy(state, { get: (s, name) => s[String(name)] ?? calls[String(name)] ?? (() => {}) });
  return { canvas: canvas as unknown as Context, drawn };
}

test("many bands stay a haze under all lines, few keep their strength", () => {
  for (const [lines, most] of [
    [1, 0.19],
    [2, 0.34],
    [8, 0.34],
  ] as const) {
    const { canvas, drawn } = recorder();
    paintBehind(
      canvas,
      frame,
      Array.from({ length: lines }, (_, i) => noisy(i, lines)),
      noFront,
    );
    const bands = drawn.filter((d) => d.kind === "fill" && d.alpha < 0.2);
    expect(bands).toHaveLength(lines);
    const covered = 1 - bands.reduce((clear, b) => clear * (1 - b.alpha), 1);
    expect(covered).toBeGreaterThan(0.15);
    expect(covered).toBeLessThan(most);
    expect(drawn.findIndex((d) => d.kind === "stroke")).toBeGreaterThan(drawn.indexOf(bands.at(-1)!));
  }
});

test("the star of the best run does not cover the name of the run in front", () => {
  const lines = [noisy(0, 2), noisy(1, 2)];
  const scene = { lines, palette: lightPalette, star: "1", endLabel: () => "swift-fox 0.5" };
  for (const front of [noFront, { lines: new Set(["0"]), dim: false }]) {
    const { canvas, drawn } = recorder();
    paintEnds(canvas, frame, { ...scene, front } as unknown as Scene);
    const notes = drawn.filter((d) => d.kind === "text");
    expect(notes.map((n) => n.text)).toEqual(front === noFront ? ["★"] : ["swift-fox 0.5", "★"]);
    for (const n of notes) expect(notes.every((m) => m === n || Math.abs(m.top! - n.top!) >= 13)).toBe(true);
  }
});
