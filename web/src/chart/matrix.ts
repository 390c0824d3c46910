import { allocated, differs, type Network, otherHotkey, own, type Verdict } from "../api/network.ts";
import { short } from "./number.ts";

/** The shape of each verdict in a box of 12 units, for canvas and SVG: verdicts are never told apart by colour alone. */
export const shapes: Record<Verdict, { path: string; fill: boolean }> = {
  verified: { path: "M2 2h8v8h-8z", fill: true },
  legacy: { path: "M2.5 2.5h7v7h-7z", fill: false },
  broken: { path: "M2.5 2.5l7 7M9.5 2.5l-7 7", fill: false },
  stale: { path: "M6 1.8a4.2 4.2 0 1 0 .01 0zM6 3.6V6.2l1.8 1.1", fill: false },
  shared_key: { path: "M2 4.2h8M2 7.8h8", fill: false },
  equivocated: { path: "M1.5 1.5H9L1.5 9zM10.5 10.5H3L10.5 3z", fill: true },
  unregistered: { path: "M6 1.8L10.4 9.8H1.6z", fill: false },
};

export const words: Record<Verdict | "", string> = {
  "": "no record",
  verified: "verified",
  legacy: "legacy",
  broken: "broken",
  stale: "stale",
  shared_key: "shared key",
  equivocated: "equivocated",
  unregistered: "unregistered",
};

type Rgb = [number, number, number];

interface Inks {
  /** From the lowest score to the highest. */
  ramp: [Rgb, Rgb];
  hues: Record<Exclude<Verdict, "verified">, string>;
  text: string;
  onDark: string;
  onLight: string;
  bad: string;
  empty: string;
  mark: string;
}

const lightInks: Inks = {
  ramp: [
    [222, 232, 250],
    [29, 78, 168],
  ],
  hues: {
    legacy: "#5b6470",
    broken: "#b3261e",
    stale: "#8a5a00",
    shared_key: "#0a7078",
    equivocated: "#8b2fc9",
    unregistered: "#5b6470",
  },
  text: "#1b1f24",
  onDark: "#ffffff",
  onLight: "#1b1f24",
  bad: "#e66700",
  empty: "#eef0f3",
  mark: "#2459c9",
};

const darkInks: Inks = {
  ramp: [
    [20, 38, 63],
    [125, 176, 255],
  ],
  hues: {
    legacy: "#98a2ad",
    broken: "#ff8a80",
    stale: "#e3b341",
    shared_key: "#39c5cf",
    equivocated: "#d2a8ff",
    unregistered: "#98a2ad",
  },
  text: "#e6e9ed",
  onDark: "#e6e9ed",
  onLight: "#0b0e11",
  bad: "#ffa657",
  empty: "#161b21",
  mark: "#7db0ff",
};

/** The ink of a verdict's mark. */
export function ink(verdict: Verdict, dark: boolean): string {
  const inks = dark ? darkInks : lightInks;
  return verdict === "verified" ? mix(inks.ramp, dark ? 0.85 : 0.8) : inks.hues[verdict];
}

/** Sheet is what is drawn: places in the document, and the size of a cell. */
export interface Sheet {
  doc: Network;
  rows: number[];
  columns: number[];
  cell: { width: number; height: number };
  dark: boolean;
}

export interface View {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The places first and last (not included) of an axis that a view shows. */
export function range(at: number, length: number, size: number, n: number): [number, number] {
  const first = Math.max(0, Math.floor(at / size));
  return [Math.min(first, n), Math.min(n, Math.max(0, Math.ceil((at + length) / size)))];
}

/** A score's place between none and the best. */
export function level(score: number, best: number): number {
  return best > 0 ? Math.min(1, Math.max(0, score / best)) : 0;
}

export function bestScore(doc: Network): number {
  let best = 0;
  for (const v of doc.validators) for (const s of v.scores) if (s !== null && s > best) best = s;
  return best;
}

function mix([from, to]: [Rgb, Rgb], t: number): string {
  const at = (i: 0 | 1 | 2) => Math.round(from[i] + (to[i] - from[i]) * t);
  return `rgb(${at(0)} ${at(1)} ${at(2)})`;
}

/** Draws the cells that the view shows; what there is beyond costs nothing. */
export function paintMatrix(
  ctx: CanvasRenderingContext2D,
  sheet: Sheet,
  view: View,
  at: { row: number; column: number } | null,
): void {
  const { cell, rows, columns, doc } = sheet;
  const inks = sheet.dark ? darkInks : lightInks;
  const paths = pathsOf();
  const best = bestScore(doc);
  ctx.clearRect(0, 0, view.width, view.height);
  const [r0, r1] = range(view.y, view.height, cell.height, rows.length);
  const [c0, c1] = range(view.x, view.width, cell.width, columns.length);
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  for (let c = c0; c < c1; c++) {
    const v = doc.validators[columns[c]!]!;
    const x = c * cell.width - view.x;
    for (let r = r0; r < r1; r++) {
      const row = rows[r]!;
      const y = r * cell.height - view.y;
      const score = v.scores[row] ?? null;
      const flags = v.flags[row] ?? 0;
      const box = { x, y, width: cell.width - 1, height: cell.height - 1 };
      if (score === null) paintEmpty(ctx, box, inks);
      else paintCell(ctx, box, { score, flags, best, verdict: v.verdict, counted: v.counted }, inks, paths);
    }
  }
  if (at) {
    ctx.strokeStyle = inks.mark;
    ctx.lineWidth = 2;
    ctx.strokeRect(
      at.column * cell.width - view.x,
      at.row * cell.height - view.y,
      cell.width - 1,
      cell.height - 1,
    );
  }
}

function paintEmpty(ctx: CanvasRenderingContext2D, box: View, inks: Inks): void {
  ctx.fillStyle = inks.empty;
  ctx.fillRect(box.x + box.width / 2 - 1, box.y + box.height / 2 - 1, 2, 2);
}

interface Said {
  score: number;
  flags: number;
  best: number;
  verdict: Verdict;
  counted: boolean;
}

function paintCell(ctx: CanvasRenderingContext2D, box: View, said: Said, inks: Inks, paths: Paths): void {
  const t = level(said.score, said.best);
  ctx.globalAlpha = said.flags & own && (said.counted || said.verdict !== "verified") ? 1 : 0.4;
  if (said.verdict === "verified") {
    // A report that allocates fills its cell, any other one its foot, so that a number stays readable.
    const height = said.flags & allocated ? box.height : Math.min(5, Math.round(box.height / 2));
    ctx.fillStyle = mix(inks.ramp, 0.08 + 0.92 * t);
    ctx.fillRect(box.x, box.y + box.height - height, box.width, height);
  } else {
    ctx.fillStyle = inks.hues[said.verdict];
    ctx.globalAlpha = 0.06 + 0.26 * t;
    ctx.fillRect(box.x, box.y, box.width, box.height);
    ctx.globalAlpha = 1;
    paintShape(ctx, said.verdict, box, inks.hues[said.verdict], paths);
  }
  ctx.globalAlpha = 1;
  if (box.width >= 30) paintText(ctx, box, said, t, inks);
  if (said.flags & differs) corner(ctx, box, inks.bad, box.width);
  if (said.flags & otherHotkey) corner(ctx, box, inks.text, 0);
}

type Paths = Record<Verdict, Path2D>;

/** Made for each painting: seven paths cost less than keeping them. */
function pathsOf(): Paths {
  const made = Object.entries(shapes).map(([verdict, s]) => [verdict, new Path2D(s.path)]);
  return Object.fromEntries(made) as Paths;
}

function paintShape(
  ctx: CanvasRenderingContext2D,
  verdict: Verdict,
  box: View,
  color: string,
  paths: Paths,
): void {
  const size = Math.min(12, box.height, box.width);
  ctx.save();
  const left = box.width >= 30 ? 2 : (box.width - size) / 2;
  ctx.translate(box.x + left, box.y + (box.height - size) / 2);
  ctx.scale(size / 12, size / 12);
  ctx.lineWidth = 1.6;
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  if (shapes[verdict].fill) ctx.fill(paths[verdict]);
  else ctx.stroke(paths[verdict]);
  ctx.restore();
}

function paintText(ctx: CanvasRenderingContext2D, box: View, said: Said, t: number, inks: Inks): void {
  ctx.textAlign = "right";
  const solid = said.verdict === "verified" && said.counted && said.flags & allocated && said.flags & own;
  const onFill = solid && t > 0.5;
  ctx.fillStyle = onFill ? (inks === darkInks ? inks.onLight : inks.onDark) : inks.text;
  const lift = said.verdict === "verified" && !(said.flags & allocated) ? 2 : 0; // clear of the bar at its foot
  const text = short(Number(said.score.toPrecision(3)));
  ctx.fillText(text, box.x + box.width - 3, box.y + box.height / 2 + 0.5 - lift);
}

/** A mark in the upper corner, at the left for 0 and at the right for the width. */
function corner(ctx: CanvasRenderingContext2D, box: View, color: string, at: number): void {
  const size = Math.max(4, Math.min(6, box.height / 2));
  const inward = at ? -size : size;
  ctx.fillStyle = color;
  ctx.beginPath();
  ctx.moveTo(box.x + at, box.y);
  ctx.lineTo(box.x + at + inward, box.y);
  ctx.lineTo(box.x + at, box.y + size);
  ctx.fill();
}

/** Draws every cell of the sheet in cells of a few pixels, with the frame of what the matrix shows. */
export function paintOverview(ctx: CanvasRenderingContext2D, sheet: Sheet, size: number, view: View): void {
  const { doc, rows, columns, cell } = sheet;
  const inks = sheet.dark ? darkInks : lightInks;
  const best = bestScore(doc);
  ctx.clearRect(0, 0, columns.length * size, rows.length * size);
  const gap = size >= 3 ? 0.5 : 0;
  columns.forEach((place, c) => {
    const v = doc.validators[place]!;
    rows.forEach((row, r) => {
      const score = v.scores[row] ?? null;
      if (score === null) return;
      const disputed = v.flags[row]! & differs;
      ctx.fillStyle = disputed ? inks.bad : colourOf(v.verdict, level(score, best), inks);
      ctx.fillRect(c * size, r * size, size - gap, size - gap);
    });
  });
  ctx.strokeStyle = inks.mark;
  ctx.lineWidth = 1.5;
  const [sx, sy] = [size / cell.width, size / cell.height];
  ctx.strokeRect(view.x * sx + 0.5, view.y * sy + 0.5, view.width * sx - 1, view.height * sy - 1);
}

const colourOf = (verdict: Verdict, t: number, inks: Inks): string =>
  verdict === "verified" ? mix(inks.ramp, 0.08 + 0.92 * t) : inks.hues[verdict];
