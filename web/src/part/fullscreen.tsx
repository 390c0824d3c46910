import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { natural } from "../chart/title.ts";
import * as groups from "../state/groups.ts";
import { bind } from "../state/keys.ts";
import { setParams } from "../state/route.ts";
import type { Card, Session } from "../state/session.ts";
import * as view from "../state/view.ts";
import { Awaited } from "./awaited.tsx";
import { ChartCard } from "./chartcard.tsx";
import { GroupLegend } from "./grouplegend.tsx";
import { Icon } from "./icon.tsx";
import { Swatch } from "./runpanel.tsx";

/** FullScreen is one chart over the whole window, with the keys to go through all of them. */
export function FullScreen({
  session,
  cards,
  runs,
}: {
  session: Session;
  cards: Card[];
  runs: Map<string, number>;
}) {
  const host = useRef<HTMLDivElement>(null);
  const box = useSignal({ width: 0, height: 0 });
  const at = cards.findIndex((c) => c.metric === view.fullScreen.value);
  const card = cards[at];
  const go = (by: number) => {
    const next = cards[(at + by + cards.length) % cards.length];
    if (next) setParams({ chart: next.metric });
    if (next) view.activeCard.value = next.key;
  };
  const now = useRef(go);
  now.current = go;
  const close = () => setParams({ chart: "" });

  useLayoutEffect(() => {
    const el = host.current;
    if (!el) return;
    const measure = () => {
      box.value = { width: el.clientWidth, height: el.clientHeight };
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    return () => observer.disconnect();
  }, [card === undefined]);

  useEffect(
    () =>
      bind({
        Escape: close,
        ArrowLeft: () => now.current(-1),
        ArrowRight: () => now.current(1),
        "[": () => now.current(-1),
        "]": () => now.current(1),
      }),
    [],
  );
  if (!card) return null;
  return (
    <div class="full" role="dialog" aria-label={card.metric}>
      <div class="full-bar">
        <button
          type="button"
          class="ghost"
          onClick={() => go(-1)}
          aria-label="Previous chart"
          title="Previous ([)"
        >
          <Icon name="prev" />
        </button>
        <button type="button" class="ghost" onClick={() => go(1)} aria-label="Next chart" title="Next (])">
          <Icon name="next" />
        </button>
        <span class="muted">
          {at + 1} of {cards.length}
        </span>
        <ScaleNote card={card} />
        <button type="button" class="ghost right" onClick={close} aria-label="Close" title="Close (Esc)">
          <Icon name="close" />
        </button>
      </div>
      <Legend session={session} card={card} runs={runs} />
      <div class="full-host" ref={host}>
        {box.value.width > 0 && !card.members.length && <Awaited {...{ session, card }} {...box.value} />}
        {box.value.width > 0 && card.members.length > 0 && (
          <ChartCard
            key={card.key}
            session={session}
            card={card}
            width={box.value.width}
            height={box.value.height}
            runs={runs}
            big
          />
        )}
      </div>
    </div>
  );
}

const mostNamed = 24;
const mostInGroups = 8; // runs that are named where groups have the colours

/** The runs of the chart with their lines, or the groups of many; pointing at one brings it forward. */
function Legend({ session, card, runs }: { session: Session; card: Card; runs: Map<string, number> }) {
  const drawn = [...new Set(card.members.map((m) => m.run))].filter((run) => runs.has(run));
  if (groups.grouping.value && drawn.length > mostInGroups)
    return (
      <div class="full-groups">
        <GroupLegend />
      </div>
    );
  return (
    <ul
      class="full-legend"
      aria-label="Runs of this chart"
      onMouseLeave={() => {
        view.hoveredRun.value = null;
      }}
    >
      {drawn.slice(0, mostNamed).map((run) => {
        const detail = session.detail(run);
        const group = groups.grouping.value?.of.get(run);
        const pinned = view.pinned.value.has(run);
        return (
          <li
            key={run}
            onMouseEnter={() => {
              view.hoveredRun.value = run;
            }}
          >
            <Swatch
              slot={group ? group.slot : runs.get(run)!}
              color={group?.color}
              grey={drawn.length > mostNamed && !group && !pinned}
              wide={pinned}
            />
            <span class="cut">{detail?.display_name || detail?.name || run}</span>
          </li>
        );
      })}
      {drawn.length > mostNamed && <li class="muted">+{drawn.length - mostNamed} more</li>}
    </ul>
  );
}

function ScaleNote({ card }: { card: Card }) {
  const axes = [...new Set(card.members.flatMap((m) => m.series.axes))].sort(natural);
  return (
    <span class="muted">
      {card.scale} · axes {axes.join(", ") || "time"}
    </span>
  );
}
