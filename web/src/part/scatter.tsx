import { useMemo, useRef } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { nameOf, readKey } from "../chart/grouping.ts";
import { short } from "../chart/number.ts";
import { type Scale, scaleOf } from "../chart/scale.ts";
import { ascending, median } from "../chart/stat.ts";
import { go, runPath } from "../state/route.ts";
import * as view from "../state/view.ts";
import { useWidth } from "./usesize.ts";

/** Mark is a run's colour on the compare page, and how it stands out. */
export interface Look {
  color: (run: Run) => string;
  /** A run that is brushed away, or whose group is hidden. */
  faint: (run: Run) => boolean;
  best: string | undefined;
}

interface Props {
  runs: readonly Run[];
  x: string;
  metric: string;
  look: Look;
}

const margin = { left: 52, right: 14, top: 12, bottom: 40 };
const height = 300;
const mostSteps = 8; // values that each get a median

interface Dot {
  run: Run;
  cx: number;
  cy: number;
}

/** Scatter draws a run for each dot: a parameter, or a metric, against the metric. */
export function Scatter({ runs, x, metric, look }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const key = `summary/${metric}`;
  const sx = useMemo(() => scaleOf(runs.map((r) => readKey(r, x))), [runs, x]);
  const sy = useMemo(() => scaleOf(runs.map((r) => readKey(r, key))), [runs, key]);
  const [w, h] = [Math.max(1, width - margin.left - margin.right), height - margin.top - margin.bottom];
  const dots = useMemo(
    () =>
      runs.flatMap((run): Dot[] => {
        const [px, py] = [sx.at(readKey(run, x)), sy.at(readKey(run, key))];
        if (px === undefined || py === undefined) return [];
        return [{ run, cx: margin.left + px * w, cy: margin.top + (1 - py) * h }];
      }),
    [runs, sx, sy, w, h],
  );
  const left = runs.length - dots.length;
  return (
    <div class="scatter" ref={host}>
      {width > 0 && (
        <svg
          width={width}
          height={height}
          role="application"
          tabindex={0}
          aria-label={`${nameOf(x)} against ${metric}, ${dots.length} runs: arrow keys go from run to run, Enter opens, p pins`}
          onKeyDown={(e) => keys(e, dots)}
          onMouseLeave={() => {
            view.hoveredRun.value = null;
          }}
          onMouseMove={(e) => {
            const box = e.currentTarget.getBoundingClientRect();
            view.hoveredRun.value = nearest(dots, e.clientX - box.left, e.clientY - box.top)?.run.id ?? null;
          }}
          onClick={() => {
            if (view.hoveredRun.value) view.togglePin(view.hoveredRun.value);
          }}
        >
          <Axes sx={sx} sy={sy} w={w} h={h} x={nameOf(x)} />
          <Dots dots={dots} look={look} />
          <Medians runs={runs} sx={sx} sy={sy} w={w} h={h} x={x} metric={key} />
          <Front dots={dots} look={look} />
        </svg>
      )}
      <p class="note muted" aria-live="polite">
        <Caption runs={runs} x={x} metric={metric} />
        {left > 0 && ` ${left} of ${runs.length} runs have no value of both.`}
      </p>
    </div>
  );
}

function Axes({ sx, sy, w, h, x }: { sx: Scale; sy: Scale; w: number; h: number; x: string }) {
  const bottom = margin.top + h;
  return (
    <g class="axes">
      {sy.ticks.map((t) => {
        const y = margin.top + (1 - t.at) * h;
        return (
          <g key={t.at}>
            <line x1={margin.left} x2={margin.left + w} y1={y} y2={y} />
            <text x={margin.left - 6} y={y + 4} text-anchor="end">
              {t.label}
            </text>
          </g>
        );
      })}
      {sx.ticks.map((t) => (
        <text key={t.at} x={margin.left + t.at * w} y={bottom + 16} text-anchor="middle">
          {t.label.length > 12 ? `${t.label.slice(0, 11)}…` : t.label}
        </text>
      ))}
      <text x={margin.left + w / 2} y={bottom + 33} text-anchor="middle" class="axis-name">
        {x}
        {sx.kind === "log" ? " (log)" : ""}
      </text>
    </g>
  );
}

function Dots({ dots, look }: { dots: readonly Dot[]; look: Look }) {
  const small = dots.length > 500;
  return (
    <g>
      {dots.map(({ run, cx, cy }) => (
        <circle
          key={run.id}
          cx={cx}
          cy={cy}
          r={small ? 2.5 : 4}
          fill={look.color(run)}
          opacity={look.faint(run) ? 0.08 : 0.75}
        />
      ))}
    </g>
  );
}

/** The dots in front: of the best run, of the one that is pointed at, and of those that are pinned. */
function Front({ dots, look }: { dots: readonly Dot[]; look: Look }) {
  const hovered = view.hoveredRun.value;
  const pins = view.pinned.value;
  return (
    <g class="front">
      {dots
        .filter(({ run }) => run.id === hovered || pins.has(run.id))
        .map(({ run, cx, cy }) => (
          <circle key={run.id} cx={cx} cy={cy} r={6} fill={look.color(run)} />
        ))}
      {dots
        .filter(({ run }) => run.id === look.best)
        .map(({ run, cx, cy }) => (
          <text key={run.id} x={cx} y={cy + 5} text-anchor="middle" class="star">
            ★
          </text>
        ))}
    </g>
  );
}

/** A short bar at the median of every value, where there are few. */
function Medians(props: {
  runs: readonly Run[];
  sx: Scale;
  sy: Scale;
  w: number;
  h: number;
  x: string;
  metric: string;
}) {
  const { runs, sx, sy, w, h, x, metric } = props;
  const bars = useMemo(() => {
    const by = new Map<number, number[]>();
    for (const run of runs) {
      const [at, v] = [sx.at(readKey(run, x)), readKey(run, metric)];
      if (at !== undefined && typeof v === "number") by.set(at, [...(by.get(at) ?? []), v]);
    }
    if (by.size > mostSteps || by.size * 2 > runs.length) return [];
    return [...by].map(([at, values]) => ({ at, y: sy.at(median(ascending(values))) }));
  }, [runs, sx, sy, x, metric]);
  const half = Math.min(18, w / (2 * mostSteps));
  return (
    <g class="medians">
      {bars.map(({ at, y }) =>
        y === undefined ? null : (
          <line
            key={at}
            x1={margin.left + at * w - half}
            x2={margin.left + at * w + half}
            y1={margin.top + (1 - y) * h}
            y2={margin.top + (1 - y) * h}
          />
        ),
      )}
    </g>
  );
}

/** What is pointed at, in words; else what the picture shows. */
function Caption({ runs, x, metric }: { runs: readonly Run[]; x: string; metric: string }) {
  const run = runs.find((r) => r.id === view.hoveredRun.value);
  if (!run) return <>A dot is a run, a bar the median of a value, ★ the best run.</>;
  const value = readKey(run, x);
  return (
    <>
      <strong>{run.display_name || run.name}</strong> · {nameOf(x)}{" "}
      {typeof value === "number" ? short(value) : String(value ?? "–")} · {metric}{" "}
      {short(run.summary[metric]?.value)}
    </>
  );
}

function nearest(dots: readonly Dot[], x: number, y: number): Dot | undefined {
  let [best, distance]: [Dot | undefined, number] = [undefined, 20];
  for (const dot of dots) {
    const d = Math.hypot(dot.cx - x, dot.cy - y);
    if (d < distance) [best, distance] = [dot, d];
  }
  return best;
}

/** Left and right go through the runs by x, up and down by y. */
function keys(e: KeyboardEvent, dots: readonly Dot[]): void {
  const run = view.hoveredRun.value;
  if (e.key === "Enter" && run) go(runPath(run));
  const move = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (move === undefined || dots.length === 0) return;
  e.preventDefault();
  const across = e.key === "ArrowLeft" || e.key === "ArrowRight";
  const order = [...dots].sort((a, b) => (across ? a.cx - b.cx || a.cy - b.cy : a.cy - b.cy || a.cx - b.cx));
  const at = order.findIndex((d) => d.run.id === run);
  const next = order[at < 0 ? 0 : Math.max(0, Math.min(order.length - 1, at + move))];
  view.hoveredRun.value = next?.run.id ?? null;
}
