import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { batch } from "../state/app.ts";
import { paths } from "./spark.tsx";

const width = 80;
const height = 20;
const bucketPx = 2;
const digits = 3;
const settleMs = 120; // rows that only pass by while scrolling ask for nothing
const liveMs = 2000;

/** SparkCell draws a run's curve of a metric. The cells of one moment ask with one request. */
export function SparkCell({ run, metric }: { run: Run; metric: string }) {
  const drawn = useSignal<ReturnType<typeof paths>>(null);
  const asked = useRef(0);
  useEffect(() => {
    const abort = new AbortController();
    const ask = () => {
      asked.current = Date.now();
      const query = { run: run.id, metric, scale: "", labels: {}, x: "", n: width / bucketPx };
      batch.fetch({ ...query, include_inherited: true }, run.last_ns, abort.signal, digits).then(
        (result) => {
          if (abort.signal.aborted || "error" in result) return; // a run without the metric has an empty cell
          const { lo, min, max, mean } = result.columns;
          drawn.value = paths(lo, min, max, mean, width, height);
        },
        () => {}, // asked again with the next news of the run
      );
    };
    const timer = setTimeout(ask, Math.max(settleMs, asked.current + liveMs - Date.now()));
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [run.id, run.last_ns, metric]);
  return (
    <span role="cell" class="spark-cell">
      {drawn.value && (
        <svg
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={`Curve of ${metric}`}
        >
          <path d={drawn.value.band} class="spark-band" />
          <path d={drawn.value.line} class="spark-line" />
        </svg>
      )}
    </span>
  );
}
