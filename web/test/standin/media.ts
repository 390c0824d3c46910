import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { random } from "./data.ts";

/** What the standin's RL run has beside its curves: videos, histograms and a scatter. */

// Made by PyAV as log_rendering() makes them: 40 frames, 10 a second, a bar that grows by 4 of 160 pixels a frame.
export const video = readFileSync(join(import.meta.dirname, "episode.mp4"));

export const renderings = [0, 1, 2, 3].map((i) => ({
  id: `w-${i}`,
  env_id: `env-${i % 2}`,
  episode: i,
  sha256: i === 3 ? undefined : "00".repeat(32),
  size_bytes: video.length,
  frames: i === 3 ? 0 : 40,
  fps: 10,
  width: 160,
  height: 120,
  first_rl_step: i,
  last_rl_step: i + 1,
  complete: i !== 3,
  tags: i === 1 ? ["crash"] : [],
  marks: i === 0 ? [{ name: "half", from_frame: 20, to_frame: 20 }] : [],
  time_ns: 1e18 + i,
  stored: i !== 3,
  url: i === 3 ? undefined : `/api/v1/runs/RUN/renderings/w-${i}/video`,
}));

const points = 50;

export const documents = [
  { metric: "weights/w", kind: "histogram" },
  { metric: "embedding", kind: "scatter" },
].map((d) => ({
  ...d,
  scale: "ML_STEP",
  labels: {},
  axes: ["step"],
  count: points,
  superseded: 0,
  last: { step: (points - 1) * 10, time_ns: 1e18, value: null },
}));

export function documentPoints(metric: string, from: number) {
  const r = random(5);
  const steps = Array.from({ length: points }, (_, i) => i * 10).filter((s) => s >= from);
  const value = steps.map((s) =>
    metric === "embedding"
      ? { x: [0, 1, r()], y: [r(), s / 100, "NaN"], x_title: "first", y_title: "second" }
      : { bin_edges: [0, 1, 2, 4], counts: [1 + s / 100, 3, r()] },
  );
  return {
    series: { metric, scale: "ML_STEP", labels: {} },
    columns: { step: steps, time_ns: steps.map((s) => 1e18 + s), value, attempt: [], writer: [] },
    next: null,
  };
}

/** Answers as http.ServeContent does. */
export function sendVideo(req: IncomingMessage, res: ServerResponse): void {
  res.setHeader("Content-Type", "video/mp4");
  res.setHeader("Accept-Ranges", "bytes");
  const range = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? "");
  if (!range) return void res.end(video);
  const first = Number(range[1]);
  const last = range[2] ? Math.min(Number(range[2]), video.length - 1) : video.length - 1;
  res.statusCode = 206;
  res.setHeader("Content-Range", `bytes ${first}-${last}/${video.length}`);
  res.end(video.subarray(first, last + 1));
}
