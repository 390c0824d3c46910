import type { Series } from "../api/types.ts";
import { short } from "../chart/number.ts";

const wide = 220;
const high = 44;

/** Spark is a small curve of a series' preview: the band of min and max, and the mean. */
export function Spark({ series }: { series: Series }) {
  const columns = series.preview?.columns;
  const drawn = columns ? paths(columns.lo, columns.min, columns.max, columns.mean) : null;
  return (
    <figure class="spark">
      <figcaption>
        <span class="cut" title={series.metric}>
          {series.metric}
        </span>
        <span class="number">{short(series.last?.value)}</span>
      </figcaption>
      <svg width={wide} height={high} viewBox={`0 0 ${wide} ${high}`} aria-hidden="true">
        {drawn && (
          <>
            <path d={drawn.band} class="spark-band" />
            <path d={drawn.line} class="spark-line" />
          </>
        )}
      </svg>
    </figure>
  );
}

type Column = (number | string | null)[];

/** The band and the line in the box of the picture; what is no number leaves a gap. */
export function paths(
  lo: Column,
  min: Column,
  max: Column,
  mean: Column,
  width = wide,
  height = high,
): { band: string; line: string } | null {
  const good = lo
    .map((_, i) => i)
    .filter((i) => [min[i], max[i], mean[i]].every((v) => Number.isFinite(Number(v ?? Number.NaN))));
  if (good.length === 0) return null;
  const low = Math.min(...good.map((i) => Number(min[i])));
  const top = Math.max(...good.map((i) => Number(max[i])));
  const [first, last] = [Number(lo[good[0]!]), Number(lo[good.at(-1)!])];
  const x = (i: number) =>
    last > first ? ((Number(lo[i]) - first) / (last - first)) * (width - 4) + 2 : width / 2;
  const y = (v: unknown) =>
    top > low ? height - 4 - ((Number(v) - low) / (top - low)) * (height - 8) : height / 2;
  const point = (i: number, v: unknown) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
  const upper = good.map((i) => point(i, max[i]));
  const bottom = [...good].reverse().map((i) => point(i, min[i]));
  const line = good.map((i) => point(i, mean[i]));
  if (line.length === 1) line.push(`${width - 2} ${y(mean[good[0]!]).toFixed(1)}`);
  return { band: `M${[...upper, ...bottom].join("L")}z`, line: `M${line.join("L")}` };
}
