import uPlot from "uplot";
import { xLabels, xTicks } from "./axis.ts";
import { tickLabels } from "./number.ts";
import { type Frame, laneHeight, type Needle, specials } from "./paint.ts";
import { withLane } from "./range.ts";
import { paintScene, type Scene } from "./scene.ts";
import { linearTicks, logTicks } from "./tick.ts";

/** What a reader does to a plot. */
export interface Gestures {
  zoom(from: number, to: number): void;
  reset(): void;
  needle(needle: Needle): void;
  /** The pointer is at x, y (canvas pixels); null when it left. */
  hover(at: { x: number; py: number; left: number; top: number } | null): void;
}

/** What the browser is given of a drawn canvas: one for all plots, as it gives its pixels away. */
let sheet: OffscreenCanvas | undefined;

const font = '11px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const yAxisSize = 36; // grows with its labels
const xAxisSize = 20;

/** Plot draws a scene: uPlot gives the frame, scales, grid, cursor and selection; the curves are painted by paint.ts. */
export class Plot {
  readonly #u: uPlot;
  readonly #gestures: Gestures;
  #scene: Scene;
  #needles: Needle[] = [];
  /** What is seen: pixels that no script draws into cost nothing in the frames in which they stay. */
  readonly #view = document.createElement("canvas");

  constructor(host: HTMLElement, width: number, height: number, scene: Scene, gestures: Gestures) {
    this.#scene = scene;
    this.#gestures = gestures;
    this.#u = new uPlot(this.#options(width, height), this.#data(), host);
    this.canvas.replaceWith(this.#view);
  }

  show(scene: Scene): void {
    this.#scene = scene;
    this.#u.setData(this.#data());
  }

  resize(width: number, height: number): void {
    if (width !== this.#u.width || height !== this.#u.height) this.#u.setSize({ width, height });
  }

  destroy(): void {
    this.#u.destroy();
  }

  get canvas(): HTMLCanvasElement {
    return this.#u.ctx.canvas;
  }

  frame(): Frame {
    const { bbox, scales } = this.#u;
    return {
      ...{ left: bbox.left, top: bbox.top, width: bbox.width, height: bbox.height },
      ...{ x0: scales.x!.min ?? 0, x1: scales.x!.max ?? 1, y0: scales.y!.min ?? 0, y1: scales.y!.max ?? 1 },
      log: this.#scene.log,
      ratio: uPlot.pxRatio,
    };
  }

  /** uPlot only has to know the ends of x; its own series draws nothing. */
  #data(): uPlot.AlignedData {
    return [this.#scene.x, [0, 0]];
  }

  #yRange(u: uPlot): [number, number] {
    const { y, log, lines } = this.#scene;
    const [min, max] = log ? [Math.log10(y.min), Math.log10(y.max)] : [y.min, y.max];
    const { nan, posInf, negInf, low } = specials(lines);
    const height = Math.max(20, u.height - xAxisSize - 8);
    return withLane(min, max, nan + posInf + negInf + low > 0 ? laneHeight : 0, height);
  }

  #options(width: number, height: number): uPlot.Options {
    return {
      width,
      height,
      padding: [6, 14, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => this.#scene.x },
        y: { range: (u) => this.#yRange(u) },
      },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [this.#xAxis(), this.#yAxis()],
      cursor: this.#cursor(),
      hooks: {
        ready: [(u) => this.#listenToClicks(u)],
        draw: [(u) => this.#paint(u)],
        setSelect: [(u) => this.#selected(u)],
        setCursor: [(u) => this.#moved(u)],
      },
    };
  }

  #xAxis(): uPlot.Axis {
    return {
      size: xAxisSize,
      gap: 4,
      font,
      stroke: () => this.#scene.palette.muted,
      grid: { show: false },
      ticks: { show: false },
      splits: (u, _i, min, max) =>
        xTicks(
          this.#scene.axis,
          min,
          max,
          Math.max(3, Math.min(8, Math.floor(u.width / (this.#scene.axis.kind === "number" ? 52 : 64)))),
        ),
      values: (_u, splits) => xLabels(this.#scene.axis, splits),
    };
  }

  #yAxis(): uPlot.Axis {
    return {
      size: (_u, values) => Math.max(yAxisSize, ...(values ?? []).map((v) => String(v).length * 6.4 + 12)),
      gap: 4,
      font,
      stroke: () => this.#scene.palette.muted,
      grid: { stroke: () => this.#scene.palette.grid, width: 1 },
      ticks: { show: false },
      splits: (u, _i, min, max) => {
        const most = Math.max(5, Math.min(8, Math.floor(u.height / 32)));
        const low = this.#scene.log ? min : Math.max(min, this.#scene.y.min);
        return this.#scene.log ? logTicks(min, max, most) : linearTicks(low, max, most);
      },
      values: (_u, splits) =>
        this.#scene.log
          ? splits.flatMap((s) => tickLabels([Number((10 ** s).toPrecision(3))]))
          : tickLabels(splits),
    };
  }

  #cursor(): uPlot.Cursor {
    return {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      sync: { key: `kymogram-${this.#scene.axis.key}`, scales: ["x", null], setSeries: false },
      bind: {
        mousedown: (u, _target, handle) => (e: MouseEvent) => {
          if (e.shiftKey) this.#pan(u, e);
          else handle(e);
          return null;
        },
        dblclick: () => () => {
          this.#gestures.reset();
          return null;
        },
        mouseleave: (_u, _target, handle) => (e: MouseEvent) => {
          this.#gestures.hover(null);
          handle(e);
          return null;
        },
      },
    };
  }

  #paint(u: uPlot): void {
    this.#needles = paintScene(u.ctx, this.frame(), this.#scene);
    this.#present(u.ctx.canvas);
  }

  #present(canvas: HTMLCanvasElement): void {
    const { width, height } = canvas;
    sheet ??= new OffscreenCanvas(width, height);
    for (const c of [sheet, this.#view])
      if (c.width !== width || c.height !== height) Object.assign(c, { width, height });
    sheet.getContext("2d")!.drawImage(canvas, 0, 0);
    this.#view.getContext("bitmaprenderer")!.transferFromImageBitmap(sheet.transferToImageBitmap());
  }

  #selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const [from, to] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#gestures.zoom(from, to);
  }

  /** Only the plot under the pointer has an event; the others follow its cursor without a tooltip. */
  #moved(u: uPlot): void {
    const { left, top, event } = u.cursor;
    if (!event || left === undefined || top === undefined || left < 0) return;
    if (!u.over.matches(":hover")) return;
    const ratio = uPlot.pxRatio;
    const box = u.over.getBoundingClientRect();
    this.#gestures.hover({
      x: u.posToVal(left, "x"),
      py: top * ratio + u.bbox.top,
      left: box.left + left,
      top: box.top + top,
    });
  }

  /** A click is a press and a release at one place; what moved between was a brush. */
  #listenToClicks(u: uPlot): void {
    let from = [0, 0];
    u.over.addEventListener("pointerdown", (e) => {
      from = [e.clientX, e.clientY];
    });
    u.over.addEventListener("click", (e) => {
      if (Math.hypot(e.clientX - from[0]!, e.clientY - from[1]!) < 4) this.#clicked(u, e);
    });
  }

  #clicked(u: uPlot, e: MouseEvent): void {
    const ratio = uPlot.pxRatio;
    const box = u.over.getBoundingClientRect();
    const [px, y] = [(e.clientX - box.left) * ratio + u.bbox.left, e.clientY - box.top];
    const near = (up: boolean) => (up ? y < 16 : y > box.height - 16);
    const hit = this.#needles.find(
      (n) => near(n.up) && px >= (n.box?.left ?? n.px - 8) && px <= (n.box?.right ?? n.px + 8),
    );
    if (hit) this.#gestures.needle(hit);
  }

  #pan(u: uPlot, start: MouseEvent): void {
    const [x0, x1] = this.#scene.x;
    const scale = (x1 - x0) / u.over.clientWidth;
    const move = (e: MouseEvent) => {
      const shift = (start.clientX - e.clientX) * scale;
      this.#gestures.zoom(x0 + shift, x1 + shift);
    };
    const stop = () => {
      removeEventListener("mousemove", move);
      removeEventListener("mouseup", stop);
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", stop);
    start.preventDefault();
  }
}
