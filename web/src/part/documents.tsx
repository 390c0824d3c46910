import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { type DocumentPoint, documents } from "../api/media.ts";
import type { Series } from "../api/types.ts";
import { darkPalette, lightPalette, type Palette, rgbOf } from "../chart/color.ts";
import {
  dots,
  type Histogram,
  rangeOf,
  rebin,
  type Scatter,
  shade,
  shown,
  span,
  windowStart,
} from "../chart/document.ts";
import { count, short } from "../chart/number.ts";
import { labelText } from "../chart/title.ts";
import { isDark } from "../state/theme.ts";
import { showInherited } from "../state/view.ts";

const [width, height, left, bottom] = [520, 220, 52, 18];
const rows = 64;

/** DocumentCard shows a series of histograms or scatters: all its points, and the one that the slider is at. */
export function DocumentCard({ run, series, tick }: { run: string; series: Series; tick: number }) {
  const points = useSignal<DocumentPoint<unknown>[]>([]);
  const failure = useSignal("");
  const inherited = showInherited.value && (series.inherited ?? 0) > 0;
  const at = useSignal<number | null>(null); // null: the newest
  useEffect(() => {
    const abort = new AbortController();
    documents<unknown>(run, series, windowStart(series), shown, inherited, abort.signal).then(
      (got) => {
        points.value = got;
        failure.value = "";
      },
      (error) => {
        if (!abort.signal.aborted) failure.value = (error as Error).message;
      },
    );
    return () => abort.abort();
  }, [run, series, tick, inherited]);
  const n = points.value.length;
  const place = Math.min(at.value ?? n - 1, n - 1);
  const point = points.value[place];
  return (
    <section class="document" data-metric={series.metric} aria-label={series.metric}>
      <h3>
        {series.metric} <span class="muted">{labelText(series.labels)}</span>
      </h3>
      {failure.value && <p role="alert">{failure.value}</p>}
      {point && (
        <>
          {series.kind === "histogram" ? (
            <>
              <HeatMap points={points.value as DocumentPoint<Histogram>[]} place={place} />
              <Bars histogram={point.value as Histogram} all={points.value as DocumentPoint<Histogram>[]} />
            </>
          ) : (
            <Dots scatter={point.value as Scatter} all={points.value as DocumentPoint<Scatter>[]} />
          )}
          <label class="slider">
            <span class="muted">{point.step === null ? "point" : "step"}</span> {short(point.step ?? place)}
            <input
              type="range"
              min={0}
              max={n - 1}
              value={place}
              aria-label={`Step of ${series.metric}`}
              onInput={(e) => {
                const to = Number(e.currentTarget.value);
                at.value = to === n - 1 ? null : to;
              }}
            />
            <span class="muted">
              {n < series.count ? `the last ${count(n)} of ${count(series.count)}` : count(n)}
            </span>
          </label>
        </>
      )}
    </section>
  );
}

type Draw = (pen: CanvasRenderingContext2D, palette: Palette) => void;

/** Canvas draws in CSS pixels, sharp on any screen, again when the theme changes. */
function Canvas({ draw, label }: { draw: Draw; label: string }) {
  const host = useRef<HTMLCanvasElement>(null);
  const palette = isDark.value ? darkPalette : lightPalette;
  useLayoutEffect(() => {
    const el = host.current!;
    const ratio = devicePixelRatio || 1;
    [el.width, el.height] = [width * ratio, height * ratio];
    const pen = el.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.fillStyle = palette.card;
    pen.fillRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    draw(pen, palette);
  });
  return <canvas ref={host} class="document-canvas" role="img" aria-label={label} />;
}

/** Ends of an axis in words. */
function ends(
  pen: CanvasRenderingContext2D,
  palette: Palette,
  x: [string, string],
  y: [number, number],
): void {
  pen.fillStyle = palette.muted;
  pen.textAlign = "right";
  pen.textBaseline = "top";
  pen.fillText(short(y[1]), left - 6, 2);
  pen.textBaseline = "bottom";
  pen.fillText(short(y[0]), left - 6, height - bottom);
  pen.textBaseline = "top";
  pen.fillText(x[1], width - 2, height - bottom + 4);
  pen.textAlign = "left";
  pen.fillText(x[0], left, height - bottom + 4);
}

/** A column a point, darkest where the most of its mass lies. */
function HeatMap({ points, place }: { points: DocumentPoint<Histogram>[]; place: number }) {
  const draw: Draw = (pen, palette) => {
    const range = rangeOf(points.map((p) => p.value));
    const columns = points.map((p) => rebin(p.value, range, rows));
    const most = Math.max(...columns.map((c) => Math.max(...c)), 1e-300);
    const [from, to] = [rgbOf(palette.card), rgbOf(palette.accent)];
    const [w, h] = [(width - left) / columns.length, (height - bottom) / rows];
    columns.forEach((column, i) => {
      column.forEach((share, row) => {
        if (share === 0) return;
        pen.fillStyle = shade(share / most, from, to);
        pen.fillRect(left + i * w, height - bottom - (row + 1) * h, Math.max(w, 1), Math.ceil(h));
      });
    });
    pen.strokeStyle = palette.text;
    pen.strokeRect(left + place * w + 0.5, 0.5, Math.max(w - 1, 1), height - bottom - 1);
    const name = (p: DocumentPoint<Histogram>, i: number) => short(p.step ?? i);
    ends(pen, palette, [name(points[0]!, 0), name(points.at(-1)!, points.length - 1)], range);
  };
  return <Canvas draw={draw} label={`heat map of ${points.length} histograms`} />;
}

function Bars({ histogram, all }: { histogram: Histogram; all: DocumentPoint<Histogram>[] }) {
  const draw: Draw = (pen, palette) => {
    const range = rangeOf(all.map((p) => p.value));
    const heights = histogram.densities ?? histogram.counts ?? [];
    const most = Math.max(...heights, 1e-300);
    const x = (v: number) => left + ((v - range[0]) / (range[1] - range[0])) * (width - left - 2);
    pen.fillStyle = palette.accent;
    heights.forEach((v, i) => {
      const [a, b] = [x(histogram.bin_edges[i]!), x(histogram.bin_edges[i + 1]!)];
      const h = (v / most) * (height - bottom - 4);
      pen.fillRect(a, height - bottom - h, Math.max(b - a - 0.5, 0.5), h);
    });
    pen.fillStyle = palette.line;
    pen.fillRect(left, height - bottom, width - left, 1);
    ends(pen, palette, [short(range[0]), short(range[1])], [0, most]);
  };
  return <Canvas draw={draw} label={`histogram of ${histogram.bin_edges.length - 1} bins`} />;
}

function Dots({ scatter, all }: { scatter: Scatter; all: DocumentPoint<Scatter>[] }) {
  const draw: Draw = (pen, palette) => {
    const every = all.flatMap((p) => dots(p.value));
    const [xs, ys] = [span(every.map((d) => d.x)), span(every.map((d) => d.y))];
    const depth = every.filter((d) => d.z !== null).map((d) => d.z!);
    const zs = span(depth);
    const here = dots(scatter);
    const [from, to] = [rgbOf(palette.line), rgbOf(palette.accent)];
    pen.globalAlpha = here.length > 2000 ? 0.4 : 0.8;
    for (const d of here) {
      const t = d.z === null ? 1 : (d.z - zs[0]) / (zs[1] - zs[0]);
      pen.fillStyle = shade(d.z === null ? 1 : 0.15 + 0.85 * t, from, to);
      const px = left + ((d.x - xs[0]) / (xs[1] - xs[0])) * (width - left - 4);
      const py = (height - bottom - 4) * (1 - (d.y - ys[0]) / (ys[1] - ys[0])) + 2;
      pen.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
    pen.globalAlpha = 1;
    ends(pen, palette, [short(xs[0]), short(xs[1])], ys);
    pen.textAlign = "center";
    const titles = [scatter.x_title, scatter.y_title, depth.length ? scatter.z_title : ""];
    pen.fillText(titles.filter(Boolean).join(" · "), (width + left) / 2, height - bottom + 4);
  };
  return <Canvas draw={draw} label={`scatter of ${scatter.x.length} dots`} />;
}
