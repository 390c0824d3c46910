import { useComputed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { hue, slots as mostHues } from "../chart/color.ts";
import type { Direction } from "../chart/direction.ts";
import { count, full, short } from "../chart/number.ts";
import { param, runPath, setParams } from "../state/route.ts";
import { sortBySummary } from "../state/runlist.ts";
import { isDark } from "../state/theme.ts";
import { done } from "../state/undo.ts";
import * as view from "../state/view.ts";
import { Icon } from "./icon.tsx";
import { Swatch } from "./runpanel.tsx";
import type { Look } from "./scatter.tsx";

const atOnce = 200; // rows

/** Runs that the reader has hidden on the compare page. */
export function hiddenRuns(): Set<string> {
  return new Set(param("hide").split(",").filter(Boolean));
}

/** Runs in the order of the panel. */
export const bestFirst = (runs: readonly Run[], metric: string, direction: Direction | undefined): Run[] =>
  sortBySummary([...runs], `${direction === "up" ? "-" : ""}summary/${metric}`);

function toggle(id: string, name: string): void {
  const next = hiddenRuns();
  if (!next.delete(id)) {
    next.add(id);
    done(`${name} hidden`, () => show(id));
  }
  setParams({ hide: [...next].join(",") });
}

function show(id: string): void {
  const next = hiddenRuns();
  next.delete(id);
  setParams({ hide: [...next].join(",") });
}

interface Props {
  runs: readonly Run[];
  metric: string;
  direction: Direction | undefined;
  look: Look;
  /** The places of runs whose lines have hues of their own. */
  slots: ReadonlyMap<string, number> | undefined;
}

/** RunPicker lists the compared runs, the best first; an eye draws a run or not. */
export function RunPicker({ runs, metric, direction, look, slots }: Props) {
  const most = useSignal(atOnce);
  const sorted = useMemo(() => bestFirst(runs, metric, direction), [runs, metric, direction]);
  const hidden = hiddenRuns();
  return (
    <aside class="panel compare-runs" aria-label="Runs">
      <div class="panel-title">
        {direction ? `best ${metric} first ${direction === "up" ? "↑" : "↓"}` : metric}
      </div>
      <div
        class="panel-list"
        onMouseLeave={() => {
          view.hoveredRun.value = null;
        }}
      >
        {sorted.slice(0, most.value).map((run) => (
          <Item
            key={run.id}
            {...{ run, metric, look }}
            off={hidden.has(run.id)}
            slot={slots && (slots.get(run.id) ?? -1)}
            crowd={(slots?.size ?? 0) > mostHues}
          />
        ))}
        {sorted.length > most.value && (
          <button type="button" class="link more" onClick={() => (most.value += atOnce)}>
            show {count(Math.min(atOnce, sorted.length - most.value))} more
          </button>
        )}
      </div>
      {hidden.size > 0 && (
        <div class="panel-foot">
          <span class="muted">{count(hidden.size)} hidden</span>{" "}
          <button type="button" class="link" onClick={() => setParams({ hide: "" })}>
            show all
          </button>
        </div>
      )}
    </aside>
  );
}

interface ItemProps {
  run: Run;
  metric: string;
  look: Look;
  off: boolean;
  /** Of its line, −1 where none is drawn; undefined where the colour is not that of a line. */
  slot: number | undefined;
  /** Lines are grey until they are brought forward. */
  crowd: boolean;
}

function Item({ run, metric, look, off, slot, crowd }: ItemProps) {
  const name = run.display_name || run.name;
  const value = run.summary[metric]?.value;
  // Of 200 rows only those that change are drawn again.
  const pointed = useComputed(() => view.hoveredRun.value === run.id).value;
  const pinned = useComputed(() => view.pinned.value.has(run.id)).value;
  const front = pointed || pinned ? hue(Math.max(0, slot ?? 0), isDark.value) : "var(--control)";
  const dot = slot === undefined ? look.color(run) : front;
  return (
    <div
      class={`panel-item${off ? "" : " shown"}${pointed ? " pointed" : ""}`}
      onMouseEnter={() => {
        view.hoveredRun.value = off ? null : run.id;
      }}
    >
      <button
        type="button"
        class="ghost"
        onClick={() => toggle(run.id, name)}
        aria-pressed={!off}
        aria-label={`${off ? "Draw" : "Hide"} ${name}`}
        title={off ? "Draw" : "Hide"}
      >
        <Icon name={off ? "eyeOff" : "eye"} size={14} />
      </button>
      <button
        type="button"
        class="pin"
        onClick={() => view.togglePin(run.id)}
        aria-pressed={pinned}
        aria-label={`Keep ${name} in front`}
        title={pinned ? "In front: click to let it go back" : "Keep in front"}
      >
        {slot === undefined || crowd ? (
          <span class="swatch" style={{ background: dot }} />
        ) : (
          <Swatch slot={Math.max(0, slot)} color={undefined} grey={slot < 0} wide={pinned} />
        )}
      </button>
      <a class="name" href={runPath(run.id)} title={name}>
        {run.id === look.best ? "★ " : ""}
        {name}
      </a>
      <span class="number muted" title={full(value)}>
        {value === undefined ? "" : short(value)}
      </span>
    </div>
  );
}
