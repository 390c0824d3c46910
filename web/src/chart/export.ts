import { type XAxis, xLabels, xTicks } from "./axis.ts";
import type { Palette } from "./color.ts";
import { tickLabels } from "./number.ts";
import { dimmed, type Frame, type Line, stretches, toX, toY } from "./paint.ts";
import { linearTicks, logTicks } from "./tick.ts";

/** What an exported picture or table is made of. */
export interface Picture {
  title: string;
  axis: XAxis;
  lines: { line: Line; name: string }[];
  frame: Frame;
  palette: Palette;
}

/** Every bucket of every line as CSV (RFC 4180). */
export function csv(picture: Picture): string {
  const head = [
    "line",
    picture.axis.key === "wall" || picture.axis.key === "relative"
      ? `${picture.axis.key}_s`
      : picture.axis.name,
  ];
  const forks = picture.lines.some(({ line }) => line.curve.inherited);
  const rows = [
    [...head, "last_x", "min", "max", "mean", "count", ...(forks ? ["inherited"] : [])].join(","),
  ];
  for (const { line, name } of picture.lines) {
    const c = line.curve;
    for (let i = 0; i < c.lo.length; i++)
      rows.push(
        [
          ...[quote(name), c.lo[i], c.hi[i], cell(c.min[i]!), cell(c.max[i]!), cell(c.mean[i]!), c.count[i]],
          ...(forks ? [c.inherited?.[i] ?? 0] : []),
        ].join(","),
      );
  }
  return `${rows.join("\r\n")}\r\n`;
}

const cell = (v: number): string => (Number.isNaN(v) ? "" : String(v));
const quote = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const escapeXml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** The chart as it is drawn, with its title and a legend, as vectors. */
export function svg(picture: Picture): string {
  const { palette, title, lines } = picture;
  const r = picture.frame.ratio;
  const scaled = {
    left: picture.frame.left / r,
    top: picture.frame.top / r + 28,
    width: picture.frame.width / r,
    height: picture.frame.height / r,
  };
  const f: Frame = { ...picture.frame, ...scaled, ratio: 1 };
  const [width, height] = [f.left + f.width + 12, f.top + f.height + 30 + 16 * lines.length];
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="11" fill="${palette.muted}">`,
    `<rect width="100%" height="100%" fill="${palette.card}"/>`,
    `<text x="10" y="18" font-size="13" font-weight="600" fill="${palette.text}">${escapeXml(title)}</text>`,
    `<clipPath id="c"><rect x="${f.left}" y="${f.top}" width="${f.width}" height="${f.height}"/></clipPath>`,
    ...axes(picture, f),
    `<g clip-path="url(#c)" fill="none" stroke-width="1.25" stroke-linejoin="round">`,
    ...lines.flatMap(({ line }) => shapes(line, f)),
    "</g>",
    ...lines.map(({ line, name }, i) => legend(line, name, 14, f.top + f.height + 36 + 16 * i, palette)),
    "</svg>",
  ];
  return parts.join("\n");
}

function axes(picture: Picture, f: Frame): string[] {
  const ys = f.log ? logTicks(f.y0, f.y1, 6) : linearTicks(f.y0, f.y1, 6);
  const yNames = tickLabels(f.log ? ys.map((y) => Number((10 ** y).toPrecision(3))) : ys);
  const xs = xTicks(picture.axis, f.x0, f.x1, 6);
  const xNames = xLabels(picture.axis, xs);
  const y = (v: number) => toY({ ...f, log: false }, v);
  return [
    ...ys.map(
      (v) =>
        `<line x1="${f.left}" x2="${f.left + f.width}" y1="${y(v).toFixed(1)}" y2="${y(v).toFixed(1)}" stroke="${picture.palette.grid}"/>`,
    ),
    ...ys.map(
      (v, i) => `<text x="${f.left - 5}" y="${(y(v) + 4).toFixed(1)}" text-anchor="end">${yNames[i]}</text>`,
    ),
    ...xs.map(
      (v, i) =>
        `<text x="${toX(f, v).toFixed(1)}" y="${f.top + f.height + 16}" text-anchor="middle">${xNames[i]}</text>`,
    ),
  ];
}

function shapes(line: Line, f: Frame): string[] {
  const c = line.curve;
  const at = (i: number, v: number) => `${toX(f, c.x[i]!).toFixed(2)} ${toY(f, v).toFixed(2)}`;
  const path = (values: Float64Array, from: number, to: number): string => {
    let d = "";
    for (let i = from; i < to; i++) {
      const v = values[i]!;
      const ok = Number.isFinite(v) && (!f.log || v > 0);
      if (ok) d += `${d && Number.isFinite(values[i - 1]) ? "L" : "M"}${at(i, v)}`;
    }
    return d;
  };
  const dashes = line.dash.length ? ` stroke-dasharray="${line.dash.join(" ")}"` : "";
  const stroke = (d: string, opacity: number) =>
    `<path d="${d}" stroke="${line.color}" opacity="${opacity}"${dashes}/>`;
  const out: string[] = [];
  if (line.band && c.banded) out.push(band(line, at, f));
  for (const p of stretches(c)) {
    const from = Math.max(0, p.from - 1);
    const alpha = dimmed(line.alpha, p);
    out.push(stroke(path(c.mean, from, p.to), line.smooth ? 0.3 * alpha : alpha));
    if (line.smooth) out.push(stroke(path(line.smooth, from, p.to), alpha));
  }
  if (line.fork !== undefined) {
    const x = toX(f, line.fork).toFixed(1);
    out.push(
      `<line x1="${x}" x2="${x}" y1="${f.top}" y2="${f.top + f.height}" stroke="${line.color}" stroke-dasharray="3 3" opacity="0.8"/>`,
    );
  }
  return out;
}

function band(line: Line, at: (i: number, v: number) => string, f: Frame): string {
  const c = line.curve;
  const places = [...c.x.keys()].filter((i) => Number.isFinite(c.max[i]) && (!f.log || c.min[i]! > 0));
  const points = [...places.map((i) => at(i, c.max[i]!)), ...places.reverse().map((i) => at(i, c.min[i]!))];
  return `<path d="M${points.join("L")}Z" fill="${line.color}" opacity="0.18" stroke="none"/>`;
}

function legend(line: Line, name: string, x: number, y: number, palette: Palette): string {
  return `<line x1="${x}" x2="${x + 16}" y1="${y - 4}" y2="${y - 4}" stroke="${line.color}" stroke-width="2"/><text x="${x + 22}" y="${y}" fill="${palette.text}">${escapeXml(name)}</text>`;
}

/** The drawn canvas with the title above it, as PNG. */
export function png(picture: Picture, canvas: HTMLCanvasElement): Promise<Blob | null> {
  const head = 28 * picture.frame.ratio;
  const out = document.createElement("canvas");
  out.width = canvas.width;
  out.height = canvas.height + head;
  const ctx = out.getContext("2d")!;
  ctx.fillStyle = picture.palette.card;
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.fillStyle = picture.palette.text;
  ctx.font = `600 ${13 * picture.frame.ratio}px system-ui, sans-serif`;
  ctx.fillText(picture.title, 10 * picture.frame.ratio, 18 * picture.frame.ratio);
  ctx.drawImage(canvas, 0, head);
  return new Promise((done) => out.toBlob(done, "image/png"));
}

/** Hands a file to the reader. */
export function save(name: string, data: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name.replaceAll(/[^A-Za-z0-9._-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
