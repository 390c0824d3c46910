import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { count } from "../chart/number.ts";
import { patternOf } from "../chart/pattern.ts";
import { bind } from "../state/keys.ts";
import { setParams } from "../state/route.ts";
import type { Card, Session } from "../state/session.ts";
import * as view from "../state/view.ts";
import { ChartCard } from "./chartcard.tsx";
import { Icon } from "./icon.tsx";
import { type Block, cardsBetween, gap, groupHead, layout } from "./layout.ts";
import { Message } from "./message.tsx";

const overscan = 200; // pixels above and below what is seen

/** ChartGrid lays out every card and draws those in view. */
export function ChartGrid({
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
  const top = useSignal(0);

  useLayoutEffect(() => {
    const el = host.current!;
    const measure = () => {
      box.value = { width: el.clientWidth - 16, height: el.clientHeight };
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    return () => observer.disconnect();
  }, []);

  const pattern = useComputed(() => patternOf(view.search.value)).value;
  const found = useMemo(
    () => (pattern.ok ? cards.filter((c) => pattern.test(c.metric)) : []),
    [cards, pattern],
  );
  // One or two charts have the room to be large; a reader's choice of size stands.
  const height = view.heights[found.length <= 2 && !view.sized.value ? "L" : view.size.value];
  const closed = view.collapsed.value;
  const plan = useMemo(
    () => layout(found, box.value.width, height, closed),
    [found, box.value.width, height, closed],
  );
  useGridKeys(found, plan.blocks, host);

  return (
    <div
      class="grid-scroll"
      ref={host}
      tabIndex={-1}
      onScroll={(e) => {
        top.value = (e.currentTarget as HTMLElement).scrollTop;
      }}
    >
      {!pattern.ok && <Message>The search is no regular expression: {pattern.error}.</Message>}
      {pattern.ok && cards.length > 0 && found.length === 0 && (
        <Message>
          No metric matches <code>{view.search.value}</code>.{" "}
          <button type="button" class="link" onClick={() => setParams({ q: "" })}>
            clear
          </button>
        </Message>
      )}
      <div class="grid" style={{ height: `${plan.height}px` }}>
        {box.value.width > 0 &&
          plan.blocks
            .filter(
              (b) =>
                b.top < top.value + box.value.height + overscan && b.top + b.height > top.value - overscan,
            )
            .map((b) => (
              <Group
                key={b.group}
                block={b}
                from={top.value - overscan}
                to={top.value + box.value.height + overscan}
              >
                {(card, left, y) => (
                  <div class="place" key={card.key} style={{ transform: `translate(${left}px, ${y}px)` }}>
                    <ChartCard
                      session={session}
                      card={card}
                      width={plan.cardWidth}
                      height={height}
                      runs={runs}
                    />
                  </div>
                )}
              </Group>
            ))}
      </div>
    </div>
  );
}

interface GroupProps {
  block: Block;
  from: number;
  to: number;
  children: (card: Card, left: number, top: number) => preact.JSX.Element;
}

function Group({ block, from, to, children }: GroupProps) {
  const closed = view.collapsed.value.has(block.group);
  const toggle = () => {
    const next = new Set(view.collapsed.value);
    if (!next.delete(block.group)) next.add(block.group);
    view.collapsed.value = next;
  };
  return (
    <section class="group" style={{ top: `${block.top}px`, height: `${block.height}px` }}>
      <h2 class="group-title">
        <button
          type="button"
          class="group-head"
          style={{ height: `${groupHead}px` }}
          onClick={toggle}
          aria-expanded={!closed}
        >
          <Icon name={closed ? "chevron" : "down"} size={12} />
          <span>{block.group || "other"}</span>
          <span class="muted">{count(block.cards.length)}</span>
        </button>
      </h2>
      {!closed &&
        cardsBetween(block, from, to).map((place) =>
          children(place.card, place.left, place.top + groupHead + gap / 2),
        )}
    </section>
  );
}

/** Keys that act on the card under the pointer or move to the next one. */
function useGridKeys(cards: Card[], blocks: Block[], host: { current: HTMLDivElement | null }): void {
  const now = useRef({ cards, blocks });
  now.current = { cards, blocks };
  useEffect(() => {
    const active = () => now.current.cards.find((c) => c.key === view.activeCard.value);
    const move = (by: number) => {
      const list = now.current.blocks.flatMap((b) => (view.collapsed.value.has(b.group) ? [] : b.cards));
      const at = list.findIndex((c) => c.key === view.activeCard.value);
      const next = list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))];
      if (!next) return;
      view.activeCard.value = next.key;
      if (view.fullScreen.value) setParams({ chart: next.metric });
      scrollTo(host.current, now.current.blocks, next);
    };
    return bind({
      j: () => move(1),
      k: () => move(-1),
      "]": () => move(1),
      "[": () => move(-1),
      l: () => view.toggleLog(active()?.metric ?? "*"),
      f: () => {
        const card = active() ?? now.current.cards[0];
        if (card) setParams({ chart: view.fullScreen.value ? "" : card.metric });
      },
      z: () => view.setZoom(null),
    });
  }, []);
}

function scrollTo(host: HTMLDivElement | null, blocks: Block[], card: Card): void {
  const block = blocks.find((b) => b.group === card.group);
  if (!host || !block) return;
  const row = Math.floor(block.cards.indexOf(card) / block.columns);
  const top = block.top + groupHead + row * block.rowHeight;
  if (top < host.scrollTop + groupHead) host.scrollTop = top - groupHead - gap;
  const bottom = top + block.rowHeight + gap;
  if (bottom > host.scrollTop + host.clientHeight) host.scrollTop = bottom - host.clientHeight;
}
