import { type Signal, useComputed, useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { nameOf } from "../chart/grouping.ts";
import { count } from "../chart/number.ts";
import { patternOf } from "../chart/pattern.ts";
import { templates } from "../chart/rows.ts";
import { titleOf } from "../state/arrangement.ts";
import * as groups from "../state/groups.ts";
import { bind } from "../state/keys.ts";
import * as kymo from "../state/kymograph.ts";
import { param, setParams } from "../state/route.ts";
import type { Card, Part, Session } from "../state/session.ts";
import { folded } from "../state/space.ts";
import { later, scrolled as slowDown } from "../state/turn.ts";
import * as view from "../state/view.ts";
import { place, step, toggleFold, togglePin } from "./arranging.ts";
import { Awaited } from "./awaited.tsx";
import { draggedCard } from "./cardmenu.tsx";
import { ChartCard } from "./chartcard.tsx";
import { drops } from "./dragging.ts";
import { Icon } from "./icon.tsx";
import { type Block, cardsBetween, gap, groupHead, layout, placeOf } from "./layout.ts";
import { Message } from "./message.tsx";
import { dropsSection, OwnNote, SectionTools } from "./sectionhead.tsx";
import { mostParts, splitCards } from "./split.ts";

const overscan = 160; // pixels above and below what is seen
const scrollStep = 40;

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
  const at = useSignal(0);
  const scrolled = useSignal(false);
  // The grid is laid out again in steps, not for every pixel.
  const top = useComputed(() => Math.floor(at.value / scrollStep) * scrollStep).value;

  useLayoutEffect(() => {
    const el = host.current!;
    const measure = () => {
      if (matchMedia("print").matches) return; // the cards that are drawn flow over the paper
      box.value = { width: el.clientWidth - 16, height: el.clientHeight };
    };
    // The observer measures first after the browser's own layout: asking here would
    // force a second one into the task that draws the page.
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    return () => observer.disconnect();
  }, []);

  const pattern = useComputed(() => patternOf(view.search.value)).value;
  const matching = useMemo(
    () => (pattern.ok ? cards.filter((c) => pattern.test(c.metric)) : []),
    [cards, pattern],
  );
  const { found, values } = useSplit(matching);
  // One or two charts have the room to be large; a reader's choice of size stands.
  const height = view.heights[found.length <= 2 && !view.sized.value ? "L" : view.size.value];
  const closed = folded.value;
  const plan = useMemo(
    () => layout(found, box.value.width, height, closed),
    [found, box.value.width, height, closed],
  );
  useGridKeys(cards, found, plan.blocks, host);
  const drop = useDrop(cards);
  const part = session.part();
  // Before the first scroll only what is seen is asked for.
  const from = top - overscan;
  const to = top + box.value.height + (scrolled.value ? scrollStep + overscan : 0);

  return (
    <div
      class="grid-scroll"
      ref={host}
      tabIndex={-1}
      onScroll={(e) => {
        at.value = (e.currentTarget as HTMLElement).scrollTop;
        scrolled.value = true;
        slowDown();
        if (part && at.value + 3 * box.value.height > plan.height) session.more();
      }}
    >
      <OwnNote />
      {!pattern.ok && <Message>The search is no regular expression: {pattern.error}.</Message>}
      {session.searchError.value && (
        <Message>The server cannot search for this: {session.searchError.value.message}.</Message>
      )}
      {pattern.ok &&
        (cards.length > 0 || session.finds()) &&
        found.length === 0 &&
        session.searching.value && <Message>searching …</Message>}
      {pattern.ok &&
        (cards.length > 0 || session.finds()) &&
        found.length === 0 &&
        !session.searching.value && (
          <Message>
            No metric matches <code>{view.search.value}</code>.{" "}
            <button type="button" class="link" onClick={() => setParams({ q: "" })}>
              clear
            </button>
          </Message>
        )}
      {values > mostParts && (
        <Message>
          {mostParts} of {count(values)} values of {nameOf(groups.split.value)} have a chart.{" "}
          <button type="button" class="link" onClick={() => setParams({ splitall: "1" })}>
            show all
          </button>
        </Message>
      )}
      <StickyHead at={at} blocks={plan.blocks} part={part} />
      <div class="grid" style={{ height: `${plan.height}px` }}>
        {box.value.width > 0 &&
          plan.blocks
            .filter((b) => b.top < to && b.top + b.height > from)
            .map((b) => (
              <section class="group" key={b.group}>
                <GroupHead block={b} all={cards} part={part} />
                {!closed.has(b.group) &&
                  cardsBetween(b, from, to).map((place) => (
                    <Cell
                      key={place.card.key}
                      left={place.left}
                      top={place.top}
                      width={plan.cardWidth}
                      {...{ session, height, runs, drop, card: place.card }}
                    />
                  ))}
              </section>
            ))}
      </div>
      {part && (
        <Message>
          The charts of {count(part.listed)}{" "}
          {part.found ? "series that match" : `of ${count(part.of)} series`}: scroll on or search for others.{" "}
          <button type="button" class="link" onClick={() => session.more()}>
            list more
          </button>
        </Message>
      )}
    </div>
  );
}

/** The cards as they are, or one for each value of the key that they are split by. */
function useSplit(matching: Card[]): { found: Card[]; values: number } {
  const by = groups.split.value;
  const runs = groups.subjects.value;
  const all = useComputed(() => param("splitall") !== "").value;
  return useMemo(() => {
    if (!by || runs.size < 2) return { found: matching, values: 0 };
    const { cards, values } = splitCards(matching, runs, by, all);
    return { found: cards, values: all ? 0 : values };
  }, [matching, by, runs, all]);
}

function GroupName({ group, cards, part }: Pick<Block, "group" | "cards"> & { part: Part | null }) {
  const closed = folded.value.has(group);
  return (
    <button
      type="button"
      class="group-head"
      style={{ height: `${groupHead}px` }}
      onClick={() => toggleFold(group)}
      aria-expanded={!closed}
    >
      <Icon name={closed ? "chevron" : "down"} size={12} />
      <span class="cut">{titleOf(group)}</span>
      <span class="muted">
        {count(cards.length)}
        {part?.sections.has(group) && "+"}
      </span>
    </button>
  );
}

/** A group's name above its first card, as wide as its cards. */
function GroupHead({ block, all, part }: { block: Block; all: Card[]; part: Part | null }) {
  const wide = Math.min(block.columns - block.column, block.cards.length);
  const left = block.column * (block.cardWidth + gap);
  return (
    <div
      class="group-title"
      data-section={block.group}
      style={{
        transform: `translate(${left}px, ${block.top}px)`,
        width: `${wide * (block.cardWidth + gap) - gap}px`,
      }}
      {...dropsSection(all, block.group)}
    >
      <h2>
        <GroupName group={block.group} cards={block.cards} part={part} />
      </h2>
      <GroupKymograph cards={block.cards} />
      <SectionTools cards={all} id={block.group} />
    </div>
  );
}

const manyRows = 8;

/** Leads to the kymograph of metrics of a group that differ in a number, where they are many. */
function GroupKymograph({ cards }: { cards: Card[] }) {
  const [selector, rows] = [...templates(cards)].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
  const run = cards[0]?.members[0]?.run;
  if (rows <= manyRows || !run) return null;
  return (
    <a
      class="ghost"
      href={kymo.kymographPath(run, selector, kymo.shared())}
      title={`Kymograph of ${selector}: ${count(rows)} rows`}
      aria-label={`Kymograph of ${selector}`}
    >
      <Icon name="kymograph" size={14} />
    </a>
  );
}

/** The name of the group whose cards are at the top, once its own has scrolled away. */
function StickyHead({ at, blocks, part }: { at: Signal<number>; blocks: Block[]; part: Part | null }) {
  const here = useComputed(() =>
    blocks.find((b) => b.top < at.value && b.top + b.height > at.value + groupHead),
  ).value;
  return (
    <div class="sticky-head">{here && <GroupName group={here.group} cards={here.cards} part={part} />}</div>
  );
}

interface CellProps {
  session: Session;
  card: Card;
  left: number;
  top: number;
  width: number;
  height: number;
  runs: Map<string, number>;
  drop: Drop;
}

type Drop = (metric: string, target: Card, after: boolean) => void;

/** What a dropped card does, one function as long as the grid is there. */
function useDrop(cards: Card[]): Drop {
  const now = useRef(cards);
  now.current = cards;
  return useMemo(() => (metric, target, after) => place(now.current, metric, target, after), []);
}

/** The half of a card that something is dragged over: before it, or after it. */
function isAfter(e: DragEvent): boolean {
  const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
  return e.clientX > box.left + box.width / 2;
}

/** Cell is a card at its place; while the grid scrolls, the cards that stay are not rendered again. */
class Cell extends Component<CellProps, { ready: boolean; over: "" | " before" | " after" }> {
  #cancel = () => {};
  override state = { ready: false, over: "" as const };

  /** A screen of cards comes into being one card a task. */
  override componentDidMount(): void {
    this.#cancel = later(() => this.setState({ ready: true }));
  }

  override componentWillUnmount(): void {
    this.#cancel();
  }

  override shouldComponentUpdate(next: CellProps, state: Cell["state"]): boolean {
    const names = Object.keys(next) as (keyof CellProps)[];
    const { ready, over } = this.state;
    return state.ready !== ready || state.over !== over || names.some((k) => next[k] !== this.props[k]);
  }

  override render({ left, top, drop, ...card }: CellProps, { ready, over }: Cell["state"]) {
    return (
      <div
        class={`place${over}`}
        style={{ transform: `translate(${left}px, ${top}px)` }}
        {...drops(
          draggedCard,
          (metric, e) => drop(metric, card.card, isAfter(e)),
          (e) => this.setState({ over: e === null ? "" : isAfter(e) ? " after" : " before" }),
        )}
      >
        {ready && card.card.members.length > 0 ? <ChartCard {...card} /> : <Awaited {...card} />}
      </div>
    );
  }
}

/** Keys that act on the card under the pointer or move to the next one. */
function useGridKeys(
  all: Card[],
  cards: Card[],
  blocks: Block[],
  host: { current: HTMLDivElement | null },
): void {
  const now = useRef({ all, cards, blocks });
  now.current = { all, cards, blocks };
  useEffect(() => {
    const active = () => now.current.cards.find((c) => c.key === view.activeCard.value);
    const move = (by: number) => {
      const list = now.current.blocks.flatMap((b) => (folded.value.has(b.group) ? [] : b.cards));
      const at = list.findIndex((c) => c.key === view.activeCard.value);
      const next = list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))];
      if (!next) return;
      view.activeCard.value = next.key;
      if (view.fullScreen.value) setParams({ chart: next.metric });
      scrollTo(host.current, now.current.blocks, next);
    };
    const shift = (by: number) => {
      const card = active();
      if (card) step(now.current.all, now.current.cards, card, by);
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
      // A line under the pointer is a run; else the card is meant.
      p: () => {
        const card = active();
        if (view.hoveredRun.value) view.togglePin(view.hoveredRun.value);
        else if (card) togglePin(card.metric);
      },
      P: () => {
        const card = active();
        if (card) togglePin(card.metric);
      },
      "<": () => shift(-1),
      ">": () => shift(1),
    });
  }, []);
}

function scrollTo(host: HTMLDivElement | null, blocks: Block[], card: Card): void {
  const block = blocks.find((b) => b.group === card.group);
  if (!host || !block) return;
  const { top } = placeOf(block, block.cards.indexOf(card));
  if (top < host.scrollTop + groupHead) host.scrollTop = top - groupHead - gap;
  const bottom = top + block.rowHeight + gap;
  if (bottom > host.scrollTop + host.clientHeight) host.scrollTop = bottom - host.clientHeight;
}
