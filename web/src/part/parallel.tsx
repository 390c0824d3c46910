import { useMemo, useRef } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { nameOf, readKey } from "../chart/grouping.ts";
import { short } from "../chart/number.ts";
import { type Scale, scaleOf } from "../chart/scale.ts";
import { cutMiddle } from "../chart/title.ts";
import { escapeName, unescapeName } from "../state/escape.ts";
import { param, setParams } from "../state/route.ts";
import * as view from "../state/view.ts";
import type { Look } from "./scatter.tsx";
import { useWidth } from "./usesize.ts";

const margin = { left: 70, right: 70, top: 30, bottom: 14 };
const height = 320;
const grip = 12; // pixels of a handle

/** Window is the part of an axis that is kept, from 0 to 1. */
type Window = [number, number];

/** Reads brush=KEY~0.1~0.5,KEY~…; keys are escaped. */
export function parseBrush(text: string): Map<string, Window> {
  const out = new Map<string, Window>();
  for (const part of text.split(",").filter(Boolean)) {
    const [key, from, to] = part.split("~");
    const [a, b] = [Number(from), Number(to)];
    if (key && a >= 0 && b <= 1 && a <= b) out.set(unescapeName(key), [a, b]);
  }
  return out;
}

export function formatBrush(brush: ReadonlyMap<string, Window>): string {
  return [...brush]
    .filter(([, [a, b]]) => a > 0 || b < 1)
    .map(([key, [a, b]]) => `${escapeName(key)}~${Number(a.toFixed(3))}~${Number(b.toFixed(3))}`)
    .join(",");
}

/** The runs within every window; one without a value on a brushed axis is not. */
export function kept(runs: readonly Run[], brush: ReadonlyMap<string, Window>): Set<string> {
  const scales = [...brush].map(([key, window]) => ({
    ...{ key, window, scale: scaleOf(runs.map((r) => readKey(r, key))) },
  }));
  const within = (run: Run) =>
    scales.every(({ key, window, scale }) => {
      const at = scale.at(readKey(run, key));
      return at !== undefined && at >= window[0] && at <= window[1];
    });
  return new Set(runs.filter(within).map((r) => r.id));
}

interface Props {
  runs: readonly Run[];
  /** Axes from left to right, the metric last. */
  keys: readonly string[];
  look: Look;
}

interface Axis {
  key: string;
  scale: Scale;
  x: number;
}

/** Parallel draws a line for each run over an axis for each parameter; windows on axes keep some of them. */
export function Parallel({ runs, keys, look }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const w = Math.max(1, width - margin.left - margin.right);
  const axes = useMemo(
    () =>
      keys.map((key, i): Axis => {
        const x = margin.left + (keys.length > 1 ? (i * w) / (keys.length - 1) : w / 2);
        return { key, scale: scaleOf(runs.map((r) => readKey(r, key))), x };
      }),
    [runs, keys.join(), w],
  );
  const paths = useMemo(() => new Map(runs.map((r) => [r.id, pathOf(r, axes)])), [runs, axes]);
  const brush = parseBrush(param("brush"));
  return (
    <div class="parallel" ref={host}>
      {width > 0 && (
        <svg
          width={width}
          height={height}
          role="group"
          aria-label={`${runs.length} runs over ${keys.map(nameOf).join(", ")}`}
          onMouseLeave={() => {
            view.hoveredRun.value = null;
          }}
          onMouseMove={(e) => {
            const id = (e.target as Element).getAttribute("data-run");
            view.hoveredRun.value = id;
          }}
        >
          <Lines runs={runs} paths={paths} look={look} />
          <FrontLines runs={runs} paths={paths} look={look} />
          {axes.map((axis) => (
            <AxisView key={axis.key} axis={axis} window={brush.get(axis.key) ?? [0, 1]} />
          ))}
        </svg>
      )}
    </div>
  );
}

const yOf = (at: number): number => margin.top + (1 - at) * (height - margin.top - margin.bottom);

function pathOf(run: Run, axes: readonly Axis[]): string {
  let [path, open] = ["", false];
  for (const { key, scale, x } of axes) {
    const at = scale.at(readKey(run, key));
    if (at !== undefined) path += `${open ? "L" : "M"}${x.toFixed(1)} ${yOf(at).toFixed(1)}`;
    open = at !== undefined;
  }
  return path;
}

interface LinesProps {
  runs: readonly Run[];
  paths: ReadonlyMap<string, string>;
  look: Look;
}

function Lines({ runs, paths, look }: LinesProps) {
  const alpha = Math.max(0.15, Math.min(0.7, 30 / runs.length));
  // The faint ones lie behind.
  const order = [...runs].sort((a, b) => Number(look.faint(b)) - Number(look.faint(a)));
  return (
    <g fill="none">
      {order.map((run) => (
        <path
          key={run.id}
          d={paths.get(run.id)}
          data-run={look.faint(run) ? undefined : run.id}
          stroke={look.color(run)}
          stroke-width={1.5}
          opacity={look.faint(run) ? 0.06 : alpha}
          onClick={() => view.togglePin(run.id)}
        />
      ))}
    </g>
  );
}

function FrontLines({ runs, paths, look }: LinesProps) {
  const ahead = runs.filter(
    (r) => r.id === view.hoveredRun.value || r.id === look.best || view.pinned.value.has(r.id),
  );
  return (
    <g fill="none" pointer-events="none">
      {ahead.map((run) => (
        <path key={run.id} d={paths.get(run.id)} stroke={look.color(run)} stroke-width={3} />
      ))}
    </g>
  );
}

function setWindow(key: string, window: Window): void {
  const brush = parseBrush(param("brush"));
  brush.set(key, window);
  setParams({ brush: formatBrush(brush) });
}

function AxisView({ axis, window }: { axis: Axis; window: Window }) {
  const { key, scale, x } = axis;
  const name = nameOf(key);
  return (
    <g class="parallel-axis">
      <line x1={x} x2={x} y1={yOf(1)} y2={yOf(0)} />
      <line class="window" x1={x} x2={x} y1={yOf(window[1])} y2={yOf(window[0])} />
      <text x={x} y={12} text-anchor="middle" class="axis-name">
        <title>{name}</title>
        {cutMiddle(name, 18)}
      </text>
      {scale.ticks.map((t) => (
        <text key={t.at} x={x + 7} y={yOf(t.at) + 4}>
          {cutMiddle(t.label, 12)}
        </text>
      ))}
      <Handle axis={axis} window={window} end={1} />
      <Handle axis={axis} window={window} end={0} />
    </g>
  );
}

const step = 0.05;

/** One end of a window: dragged, or moved with the arrow keys; a double click takes the window away. */
function Handle({ axis, window, end }: { axis: Axis; window: Window; end: 0 | 1 }) {
  const { key, scale, x } = axis;
  const at = window[end];
  const move = (to: number) => {
    const v = Math.max(0, Math.min(1, to));
    setWindow(key, end === 0 ? [Math.min(v, window[1]), window[1]] : [window[0], Math.max(v, window[0])]);
  };
  const value = scale.value(at);
  return (
    <g
      class="handle"
      role="slider"
      tabindex={0}
      aria-label={`${end ? "Highest" : "Lowest"} ${nameOf(key)} that is kept`}
      aria-orientation="vertical"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(at * 100)}
      aria-valuetext={at === end ? "all" : Number.isNaN(value) ? `${Math.round(at * 100)} %` : short(value)}
      onKeyDown={(e) => {
        const by = { ArrowUp: step, ArrowDown: -step, Home: -1, End: 1 }[e.key];
        if (by === undefined) return;
        e.preventDefault();
        move(at + by);
      }}
      onPointerDown={(e) => e.currentTarget.setPointerCapture(e.pointerId)}
      onPointerMove={(e) => {
        if (!e.currentTarget.hasPointerCapture(e.pointerId)) return;
        const box = e.currentTarget.ownerSVGElement!.getBoundingClientRect();
        move((yOf(0) - (e.clientY - box.top)) / (yOf(0) - yOf(1)));
      }}
      onDblClick={() => setWindow(key, [0, 1])}
    >
      <rect x={x - grip} y={yOf(at) - grip} width={2 * grip} height={2 * grip} opacity="0" />
      <path d={`M${x - 6} ${yOf(at)}h12l-6 ${end ? -7 : 7}z`} />
    </g>
  );
}
