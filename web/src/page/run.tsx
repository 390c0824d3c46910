import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { RunDetail } from "../api/types.ts";
import { relative, wall } from "../chart/axis.ts";
import { count } from "../chart/number.ts";
import { patternOf, searchOf } from "../chart/pattern.ts";
import { natural } from "../chart/title.ts";
import { useArranged, useSpace } from "../part/arranging.ts";
import { AttributesView } from "../part/attributes.tsx";
import { ChartGrid } from "../part/chartgrid.tsx";
import { FullScreen } from "../part/fullscreen.tsx";
import { GroupStrip } from "../part/grouplegend.tsx";
import { Lazy } from "../part/lazy.tsx";
import { MediaView } from "../part/media.tsx";
import { Command, Failure, Message } from "../part/message.tsx";
import { RunHead } from "../part/runhead.tsx";
import { RunPanel } from "../part/runpanel.tsx";
import { ShareButton } from "../part/sharebutton.tsx";
import { Shell } from "../part/shell.tsx";
import { WritersView } from "../part/writers.tsx";
import { openProject } from "../state/directionchoice.ts";
import * as groups from "../state/groups.ts";
import { bind } from "../state/keys.ts";
import { comparePath, go, runsPath, setParams } from "../state/route.ts";
import { type Card, type Part, Session } from "../state/session.ts";
import * as view from "../state/view.ts";

const consoleView = () => import("../part/console.tsx").then((m) => m.ConsoleView);

/** RunPage shows one run, alone or with others over it. */
export function RunPage({ id }: { id: string }) {
  const session = useMemo(() => new Session({ search: () => searchOf(view.search.value) }), [id]);
  const slots = useComputed(
    () =>
      new Map([[id, 0], ...view.chosen.value.filter((c) => c.id !== id).map((c) => [c.id, c.slot] as const)]),
  );
  const ids = [...slots.value.keys()];
  useEffect(() => () => session.close(), [session]);
  useMemo(() => session.show(ids), [session, ids.join()]);
  const detail = session.detail(id);
  useSubjects(session, ids, detail);
  const error = session.error(id);
  const cards = useArranged(session);
  useSpace(detail?.workspace, detail?.project);

  useEffect(
    () =>
      bind({
        "g r": () => detail && go(runsPath(detail.workspace, detail.project)),
        "g c": () => detail && go(comparePath(detail.workspace, detail.project, ids.length > 1 ? ids : [])),
        "\\": view.togglePanel,
      }),
    [detail?.workspace, detail?.project, ids.join()],
  );
  useEffect(() => {
    if (detail) document.title = `${detail.display_name || detail.name} · Kymogram`;
  }, [detail?.name, detail?.display_name]);

  const crumbs = (
    <>
      {detail && (
        <a href={runsPath(detail.workspace, detail.project)}>{`${detail.workspace} / ${detail.project}`}</a>
      )}
      <span class="sep">/</span>
      <span class="here">{detail ? detail.display_name || detail.name : id}</span>
    </>
  );
  const tools = (
    <>
      <button
        type="button"
        class="button panel-toggle"
        aria-pressed={view.panel.value}
        onClick={view.togglePanel}
      >
        runs
      </button>
      {view.tab.value === "charts" && (
        <ChartTools
          cards={cards}
          hasAttempts={ids.some((x) => (session.detail(x)?.attempts.length ?? 0) > 1)}
          hasParent={ids.some((x) => (session.detail(x)?.lineage.ancestors.length ?? 0) > 0)}
        />
      )}
    </>
  );
  return (
    <Shell crumbs={crumbs} tools={tools} project={detail ?? undefined}>
      {error && !detail ? (
        <Failure error={error} retry={() => location.reload()} />
      ) : (
        <div class={`run-page${view.panel.value ? "" : " no-panel"}`}>
          {view.panel.value && <RunPanel session={session} main={id} detail={detail} slots={slots.value} />}
          <div class="run-body">
            <RunHead detail={detail} session={session} />
            <Tabs detail={detail} cards={cards.length} part={session.part()} />
            <Body id={id} session={session} detail={detail} cards={cards} slots={slots.value} />
          </div>
        </div>
      )}
    </Shell>
  );
}

/** What the charts' runs are grouped by, as far as it is known. */
function useSubjects(session: Session, ids: string[], detail: RunDetail | null): void {
  const known = ids.map((id) => session.detail(id)).filter((d) => d !== null);
  const key = known.map((d) => d.id).join();
  useEffect(() => {
    groups.subjects.value = new Map(known.map((d) => [d.id, d]));
  }, [key, session]);
  const project = detail ? `${detail.workspace}/${detail.project}` : "";
  useEffect(() => openProject(project), [project]);
  useEffect(
    () => () => {
      groups.subjects.value = new Map();
    },
    [session],
  );
}

interface BodyProps {
  id: string;
  session: Session;
  detail: RunDetail | null;
  cards: Card[];
  slots: Map<string, number>;
}

function Body({ id, session, detail, cards, slots }: BodyProps) {
  if (view.tab.value === "attributes")
    return <AttributesView session={session} ids={[...slots.keys()]} slots={slots} />;
  if (view.tab.value === "media") return <MediaView session={session} id={id} />;
  if (view.tab.value === "console")
    return <Lazy load={consoleView} props={{ run: id, tick: session.tick(id) }} key={id} />;
  if (view.tab.value === "writers") return <WritersView detail={detail} />;
  if (cards.length === 0 && !session.finds() && session.complete() && !session.error(id))
    return (
      <Message>
        No point has arrived in this run yet. In the training loop:{" "}
        <Command text='run.log("train/loss", loss)' />
      </Message>
    );
  return (
    <>
      <GroupStrip />
      <ChartGrid session={session} cards={cards} runs={slots} key={id} />
      {view.fullScreen.value && <FullScreen session={session} cards={matching(cards)} runs={slots} />}
    </>
  );
}

function matching(cards: Card[]): Card[] {
  const pattern = patternOf(view.search.value);
  const found = pattern.ok ? cards.filter((c) => pattern.test(c.metric)) : cards;
  return found.some((c) => c.metric === view.fullScreen.value) ? found : cards;
}

function Tabs({ detail, cards, part }: { detail: RunDetail | null; cards: number; part: Part | null }) {
  const tabs: [string, string, number | undefined][] = [
    ["charts", "Charts", part ? part.of : cards],
    ["attributes", "Attributes", detail ? Object.keys(detail.attributes).length : undefined],
    ["media", "Media", undefined],
    ["console", "Console", undefined],
    ["writers", "Writers", detail?.writers.length],
  ];
  return (
    <div class="tabs" role="tablist">
      {tabs.map(([name, title, n]) => (
        <button
          type="button"
          role="tab"
          key={name}
          aria-selected={view.tab.value === name}
          onClick={() => setParams({ tab: name === "charts" ? "" : name })}
        >
          {title} {n !== undefined && <span class="muted">{count(n)}</span>}
        </button>
      ))}
    </div>
  );
}

const smoothings: [string, string][] = [
  ["", "no smoothing"],
  ["ema:0.6", "EMA 0.6"],
  ["ema:0.9", "EMA 0.9"],
  ["ema:0.97", "EMA 0.97"],
  ["gauss:0.01", "Gauss 1 %"],
  ["gauss:0.03", "Gauss 3 %"],
];

interface ToolsProps {
  cards: Card[];
  hasAttempts: boolean;
  hasParent: boolean;
}

export function ChartTools({ cards, hasAttempts, hasParent }: ToolsProps) {
  const input = useRef<HTMLInputElement>(null);
  const draft = useSignal(view.search.value);
  if (document.activeElement !== input.current) draft.value = view.search.value;
  useEffect(() => bind({ "/": () => input.current?.select() }), []);
  const axes = useMemo(() => axesOf(cards), [cards]);
  const smooth = smoothings.some(([v]) => v === smoothValue())
    ? smoothings
    : [...smoothings, [smoothValue(), smoothValue()] as [string, string]];
  return (
    <>
      <input
        ref={input}
        class="search"
        type="search"
        placeholder="Search metrics: loss !eval, layers/*/grad"
        title="Words that must all be found; ! in front: must not. A word is a regular expression, or a path with *"
        aria-label="Search metrics"
        value={draft.value}
        onInput={(e) => {
          draft.value = e.currentTarget.value;
          setParams({ q: e.currentTarget.value });
        }}
        onKeyDown={(e) => {
          if (e.key === "Escape" || e.key === "Enter") e.currentTarget.blur();
        }}
      />
      {view.zoom.value && (
        <button type="button" class="button" onClick={() => view.setZoom(null)} title="Reset the zoom (z)">
          reset zoom
        </button>
      )}
      <label class="pick">
        <span class="muted">x</span>
        <select
          value={view.axisChoice.value}
          onChange={(e) => setParams({ x: e.currentTarget.value, zoom: "" })}
          aria-label="X axis"
        >
          {axes.map(([value, title]) => (
            <option value={value} key={value}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <select
        class="pick"
        value={smoothValue()}
        onChange={(e) => setParams({ smooth: e.currentTarget.value })}
        aria-label="Smoothing"
      >
        {smooth.map(([value, title]) => (
          <option value={value} key={value}>
            {title}
          </option>
        ))}
      </select>
      {hasAttempts && (
        <label class="check pick">
          <input
            type="checkbox"
            checked={view.showAttempts.value}
            onChange={(e) => setParams({ attempts: e.currentTarget.checked ? "" : "0" })}
          />
          earlier attempts
        </label>
      )}
      {hasParent && (
        <label class="check pick" title="What a fork inherits is drawn dimmed, up to the dashed line">
          <input
            type="checkbox"
            checked={view.showInherited.value}
            onChange={(e) => setParams({ inherited: e.currentTarget.checked ? "" : "0" })}
          />
          inherited
        </label>
      )}
      <select
        class="pick"
        value={view.size.value}
        onChange={(e) => setParams({ size: e.currentTarget.value })}
        aria-label="Size of charts"
      >
        <option>S</option>
        <option>M</option>
        <option>L</option>
      </select>
      <ShareButton />
    </>
  );
}

function smoothValue(): string {
  const s = view.smoothing.value;
  if (s.kind === "ema") return `ema:${s.weight}`;
  return s.kind === "gauss" ? `gauss:${s.width}` : "";
}

/** Every stored axis that some series has, then the two of time. */
function axesOf(cards: Card[]): [string, string][] {
  const stored = new Set<string>();
  for (const card of cards)
    for (const m of card.members) for (const a of m.series.axes) if (a !== "time_ns") stored.add(a);
  stored.delete("step");
  return [
    ["", "step"],
    ...[...stored].sort(natural).map((a) => [a, a] as [string, string]),
    [wall, "wall time"],
    [relative, "relative time"],
  ];
}
