import { xLabels, xTicks } from "./axis.ts";
import type { Palette } from "./color.ts";
import { tickLabels } from "./number.ts";
import { type Frame, toX, toY } from "./paint.ts";
import { paintScene, type Scene } from "./scene.ts";
import { linearTicks, logTicks } from "./tick.ts";
import { escapeXml, Vector } from "./vector.ts";

/** What an exported picture or table is made of. */
export interface Picture {
  title: string;
  scene: Scene;
  /** The name of a line, by its id. */
  name: (id: string) => string;
  frame: Frame;
}

/** Every bucket of every line as CSV (RFC 4180). */
export function csv(picture: Picture): string {
  const { axis, lines } = picture.scene;
  const head = ["line", axis.kind === "number" ? axis.name : `${axis.key}_s`];
  const forks = lines.some((line) => line.curve.inherited);
  const rows = [
    [...head, "last_x", "min", "max", "mean", "count", ...(forks ? ["inherited"] : [])].join(","),
  ];
  for (const line of lines) {
    const [c, name] = [line.curve, picture.name(line.id)];
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
/** The chart as it is drawn, with its title and a legend, as vectors. */
export function svg(picture: Picture): string {
  const { title, scene } = picture;
  const { palette, lines } = scene;
  const r = picture.frame.ratio;
  const scaled = {
    left: picture.frame.left / r,
    top: picture.frame.top / r + 28,
    width: picture.frame.width / r,
    height: picture.frame.height / r,
  };
  const f: Frame = { ...picture.frame, ...scaled, ratio: 1 };
  const named = scene.layers?.length
    ? scene.layers.map(({ color, label }) => ({ color, name: label }))
    : lines.map(({ color, id }) => ({ color, name: picture.name(id) }));
  const [width, height] = [f.left + f.width + 12, f.top + f.height + 30 + 16 * named.length];
  const drawn = new Vector();
  paintScene(drawn, f, scene);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="11" fill="${palette.muted}">`,
    `<rect width="100%" height="100%" fill="${palette.card}"/>`,
    `<text x="10" y="18" font-size="13" font-weight="600" fill="${palette.text}">${escapeXml(title)}</text>`,
    ...axes(scene, f),
    ...drawn.parts,
    ...named.map(({ color, name }, i) => legend(color, name, 14, f.top + f.height + 36 + 16 * i, palette)),
    "</svg>",
  ];
  return parts.join("\n");
}

function axes(scene: Scene, f: Frame): string[] {
  const ys = f.log ? logTicks(f.y0, f.y1, 6) : linearTicks(f.y0, f.y1, 6);
  const yNames = tickLabels(f.log ? ys.map((y) => Number((10 ** y).toPrecision(3))) : ys);
  const xs = xTicks(scene.axis, f.x0, f.x1, 6);
  const xNames = xLabels(scene.axis, xs);
  const y = (v: number) => toY({ ...f, log: false }, v);
  return [
    ...ys.map(
      (v) =>
        `<line x1="${f.left}" x2="${f.left + f.width}" y1="${y(v).toFixed(1)}" y2="${y(v).toFixed(1)}" stroke="${scene.palette.grid}"/>`,
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

function legend(color: string, name: string, x: number, y: number, palette: Palette): string {
  return `<line x1="${x}" x2="${x + 16}" y1="${y - 4}" y2="${y - 4}" stroke="${color}" stroke-width="2"/><text x="${x + 22}" y="${y}" fill="${palette.text}">${escapeXml(name)}</text>`;
}

/** The drawn canvas with the title above it, as PNG. */
export function png(picture: Picture, canvas: HTMLCanvasElement): Promise<Blob | null> {
  const head = 28 * picture.frame.ratio;
  const out = document.createElement("canvas");
  out.width = canvas.width;
  out.height = canvas.height + head;
  const ctx = out.getContext("2d")!;
  ctx.fillStyle = picture.scene.palette.card;
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.fillStyle = picture.scene.palette.text;
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
