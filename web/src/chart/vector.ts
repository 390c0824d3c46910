import type { Context } from "./paint.ts";

const full = 2 * Math.PI;

/** Vector writes what is painted on it as elements of an SVG picture, so that a file holds what the canvas shows. */
export class Vector implements Context {
  readonly parts: string[] = [];
  fillStyle: unknown = "none";
  strokeStyle: unknown = "none";
  font = "";
  globalAlpha = 1;
  lineJoin = "";
  lineWidth = 1;
  textAlign = "";
  textBaseline = "";
  #dash: number[] = [];
  #path = "";
  #rect = "";
  #clips = 0;
  readonly #open: number[] = [];

  beginPath(): void {
    this.#path = "";
    this.#rect = "";
  }
  moveTo(x: number, y: number): void {
    this.#path += `M${at(x, y)}`;
  }
  lineTo(x: number, y: number): void {
    this.#path += `L${at(x, y)}`;
  }
  closePath(): void {
    this.#path += "Z";
  }
  /** Whole circles are all that a chart draws. */
  arc(x: number, y: number, r: number, from: number, to: number): void {
    if (to - from < full) throw new Error("an arc of a chart is a whole circle");
    const turn = (x1: number) => `A${r} ${r} 0 1 1 ${at(x1, y)}`;
    this.#path += `M${at(x + r, y)}${turn(x - r)}${turn(x + r)}`;
  }
  rect(x: number, y: number, width: number, height: number): void {
    this.#rect = `<rect ${box(x, y, width, height)}/>`;
  }
  clip(): void {
    const id = `clip${++this.#clips}`;
    this.parts.push(`<clipPath id="${id}">${this.#rect}</clipPath><g clip-path="url(#${id})">`);
    this.#open.push((this.#open.pop() ?? 0) + 1);
  }
  save(): void {
    this.#open.push(0);
  }
  restore(): void {
    this.parts.push("</g>".repeat(this.#open.pop() ?? 0));
  }
  setLineDash(dash: Iterable<number>): void {
    this.#dash = [...dash];
  }
  stroke(): void {
    if (!this.#path) return;
    const dash = this.#dash.length ? ` stroke-dasharray="${this.#dash.join(" ")}"` : "";
    this.parts.push(
      `<path d="${this.#path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" opacity="${this.#alpha()}"${dash}/>`,
    );
  }
  fill(): void {
    if (this.#path)
      this.parts.push(`<path d="${this.#path}" fill="${this.fillStyle}" opacity="${this.#alpha()}"/>`);
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(
      `<rect ${box(x, y, width, height)} fill="${this.fillStyle}" opacity="${this.#alpha()}"/>`,
    );
  }
  fillText(text: string, x: number, y: number): void {
    const place = `x="${round(x)}" y="${round(y)}" dominant-baseline="central"`;
    this.parts.push(`<text ${place} fill="${this.fillStyle}">${escapeXml(text)}</text>`);
  }
  /** No font is at hand; digits of most are this wide. */
  measureText(text: string): TextMetrics {
    return { width: text.length * 6.2 } as TextMetrics;
  }
  #alpha(): string {
    return String(Number(this.globalAlpha.toFixed(3)));
  }
}

const round = (v: number): number => Number(v.toFixed(2));
const at = (x: number, y: number): string => `${round(x)} ${round(y)}`;
const box = (x: number, y: number, width: number, height: number): string =>
  `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;

export const escapeXml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
