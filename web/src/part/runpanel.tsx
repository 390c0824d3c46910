import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import * as api from "../api/client.ts";
import type { Run, RunDetail } from "../api/types.ts";
import { dash, hue, slots as mostSlots } from "../chart/color.ts";
import { count } from "../chart/number.ts";
import * as groups from "../state/groups.ts";
import { formatChosen, overlaidFrom, toggleChosen } from "../state/overlay.ts";
import { address, route, setParams } from "../state/route.ts";
import type { Session } from "../state/session.ts";
import { isDark, palette } from "../state/theme.ts";
import * as view from "../state/view.ts";
import { Icon } from "./icon.tsx";

const pageSize = 100;
const fits = 40; // drawn runs that fill the panel: what else there is is asked for when somebody wants it
const widthName = "kymogram.panel.width";

interface Props {
  session: Session;
  main: string;
  detail: RunDetail | null;
  slots: Map<string, number>;
}

/** RunPanel is the legend of all charts and the list of runs that can be drawn over this one. */
export function RunPanel({ session, main, detail, slots }: Props) {
  const list = useSignal<Run[]>([]);
  const next = useSignal("");
  const filter = useSignal("");
  const error = useSignal("");
  const width = useSignal(Number(localStorage.getItem(widthName)) || 240);
  const load = async (cursor: string, abort?: AbortSignal) => {
    if (!detail) return;
    try {
      const page = await api.runs(
        detail.workspace,
        detail.project,
        { q: filter.value, limit: pageSize, cursor },
        abort,
      );
      list.value = cursor ? [...list.value, ...page.items] : page.items;
      next.value = page.next;
      error.value = "";
    } catch (cause) {
      if (!abort?.aborted) error.value = (cause as Error).message;
    }
  };
  const more = useSignal(false);
  const waits = slots.size >= fits && !filter.value && !more.value;
  useEffect(() => {
    if (waits) return;
    const abort = new AbortController();
    const timer = setTimeout(() => load("", abort.signal), filter.value ? 150 : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [detail?.workspace, detail?.project, filter.value, waits]);

  const drawn = [...slots.keys()];
  const others = list.value.filter((r) => !slots.has(r.id));
  const crowd = drawn.length > mostSlots;
  return (
    <aside class="panel" style={{ width: `${width.value}px` }} aria-label="Runs">
      <input
        class="search"
        type="search"
        placeholder="Filter runs: lr<0.1 baseline"
        aria-label="Filter runs"
        value={filter.value}
        onInput={(e) => {
          filter.value = e.currentTarget.value;
        }}
      />
      <div
        class="panel-list"
        onMouseLeave={() => {
          view.hoveredRun.value = null;
        }}
      >
        {drawn.map((id) => {
          const run = session.detail(id);
          return (
            <Item
              key={id}
              id={id}
              run={run}
              slot={slots.get(id)!}
              main={id === main}
              crowd={crowd}
              failure={session.error(id)?.message}
            />
          );
        })}
        {others.length > 0 && (
          <div class="panel-title">{drawn.length > 1 ? "More runs" : "Draw over it"}</div>
        )}
        {others.map((run) => (
          <Item key={run.id} id={run.id} run={run} main={false} crowd={crowd} />
        ))}
        {error.value && <div class="panel-title">{error.value}</div>}
        {waits && list.value.length === 0 && (
          <button
            type="button"
            class="link more"
            onClick={() => {
              more.value = true;
            }}
          >
            show more runs
          </button>
        )}
        {next.value && (
          <button type="button" class="link more" onClick={() => load(next.value)}>
            show {pageSize} more
          </button>
        )}
      </div>
      <div class="panel-foot muted">
        {crowd
          ? `${drawn.length} runs drawn together: point at one to see it`
          : `${count(drawn.length)} drawn`}
      </div>
      <Grip width={width} />
    </aside>
  );
}

interface ItemProps {
  id: string;
  run: Run | null;
  slot?: number;
  main: boolean;
  crowd: boolean;
  /** Why the run cannot be read. */
  failure?: string;
}

function Item({ id, run, slot, main, crowd, failure }: ItemProps) {
  const shown = slot !== undefined;
  const name = run?.display_name || run?.name || id;
  const toggle = () => setParams({ with: formatChosen(toggleChosen(view.chosen.value, id)) });
  return (
    <div
      class={`panel-item${shown ? " shown" : ""}`}
      onMouseEnter={() => {
        if (shown) view.hoveredRun.value = id;
      }}
    >
      <button
        type="button"
        class="ghost"
        onClick={toggle}
        disabled={main}
        aria-pressed={shown}
        aria-label={`${shown ? "Hide" : "Draw"} ${name}`}
        title={main ? "This page's run" : shown ? "Hide" : "Draw"}
      >
        <Icon name={shown ? "eye" : "eyeOff"} size={14} />
      </button>
      {shown && <Pin {...{ id, name, slot, crowd }} />}
      {main ? (
        <span class="name here" title={name}>
          {name}
        </span>
      ) : (
        <a class="name" href={pathOver(id)} title={failure ?? name}>
          {name}
        </a>
      )}
      {failure && <span class="muted">unreadable</span>}
    </div>
  );
}

/** Another run's page with all that is drawn here, as it is shown here. */
function pathOver(id: string): string {
  const at = route.value;
  if (at.page !== "run" || !view.chosen.value.some((c) => c.id === id)) return `/runs/${id}`;
  const params = new URLSearchParams(address.value.params);
  params.set("with", formatChosen(overlaidFrom(at.id, id, view.chosen.value)));
  return `/runs/${id}?${params.toString().replaceAll("%2C", ",")}`;
}

/** A line as it is drawn; a click keeps the run in front. */
function Pin({ id, name, slot, crowd }: { id: string; name: string; slot: number; crowd: boolean }) {
  const pinned = view.pinned.value.has(id);
  const group = groups.grouping.value?.of.get(id);
  const grey = crowd && !group && !pinned && view.hoveredRun.value !== id;
  return (
    <button
      type="button"
      class="pin"
      onClick={() => view.togglePin(id)}
      aria-pressed={pinned}
      aria-label={`Keep ${name} in front`}
      title={pinned ? "In front: click to let it go back" : "Keep in front"}
    >
      <Swatch slot={group ? group.slot : slot} color={group?.color} grey={grey} wide={pinned} />
    </button>
  );
}

interface SwatchProps {
  slot: number;
  /** Of its group. */
  color: string | undefined;
  grey: boolean;
  wide: boolean;
}

export function Swatch({ slot, color, grey, wide }: SwatchProps) {
  const drawn = color ?? (grey ? palette.value.crowd : hue(slot, isDark.value));
  return (
    <svg class="line-swatch" width="18" height="8" aria-hidden="true">
      <line
        x1="0"
        x2="18"
        y1="4"
        y2="4"
        stroke={drawn}
        stroke-width={wide ? 4.5 : 2.5}
        stroke-dasharray={dash(slot).join(" ")}
      />
    </svg>
  );
}

/** The panel's edge: drag to resize. */
function Grip({ width }: { width: { value: number } }) {
  const start = useRef({ x: 0, width: 0 });
  return (
    <div
      class="grip"
      aria-hidden="true"
      onPointerDown={(e) => {
        start.current = { x: e.clientX, width: width.value };
        e.currentTarget.setPointerCapture(e.pointerId);
      }}
      onPointerMove={(e) => {
        if (!e.currentTarget.hasPointerCapture(e.pointerId)) return;
        width.value = Math.max(160, Math.min(480, start.current.width + e.clientX - start.current.x));
      }}
      onPointerUp={() => localStorage.setItem(widthName, String(width.value))}
    />
  );
}
