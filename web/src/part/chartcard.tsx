import { computed, useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { MarkKind } from "../chart/curve.ts";
import { csv, png, save, svg } from "../chart/export.ts";
import { count, full, short, tickLabels } from "../chart/number.ts";
import { type Front, type Line, noFront, specials } from "../chart/paint.ts";
import type { Gestures, Plot } from "../chart/plot.ts";
import { selectorOf } from "../chart/rows.ts";
import type { Scene } from "../chart/scene.ts";
import { cutMiddle, fitTitle, labelText } from "../chart/title.ts";
import { rowsAt } from "../chart/tooltip.ts";
import { say } from "../state/app.ts";
import * as groups from "../state/groups.ts";
import * as kymo from "../state/kymograph.ts";
import { setParams } from "../state/route.ts";
import type { Card, Session } from "../state/session.ts";
import { palette } from "../state/theme.ts";
import * as view from "../state/view.ts";
import { draggedCard, MoveItems, PinButton } from "./cardmenu.tsx";
import { drags } from "./dragging.ts";
import { Icon } from "./icon.tsx";
import { PlotHost } from "./plothost.tsx";
import { tip } from "./tip.tsx";
import { type Chart, useChart } from "./usechart.ts";

const headHeight = 24;
const footHeight = 15;
const nearestRows = 3; // lines in a tooltip that has groups

interface Props {
  session: Session;
  card: Card;
  width: number;
  height: number;
  /** The runs that are drawn and their colour slots. */
  runs: Map<string, number>;
  /** In full screen the card has more room for its lines' names. */
  big?: boolean;
}

/** ChartCard is one chart with its head and foot. */
export function ChartCard({ session, card, width, height, runs, big }: Props) {
  const chart = useChart(session, card, Math.max(60, width - 58), runs);
  const hovered = useSignal<string | null>(null);
  const plot = useRef<Plot | null>(null);
  const late = useLate(chart.loading);

  useEffect(() => session.watch(card.metric), [session, card.metric]);

  const front = useFront(chart, runs.size > 1, hovered.value);
  const nameOf = useNames(session, chart, runs.size > 1);
  const endLabel = (line: Line) => {
    const last = line.curve.mean.findLast((v) => Number.isFinite(v));
    return chart.crowd ? `${cutMiddle(nameOf(line.id), 32)} ${short(last)}` : "";
  };
  const scene: Scene = {
    ...{ lines: chart.lines, layers: chart.layers, density: chart.density, log: chart.log },
    ...{ axis: chart.axis, x: chart.x, y: chart.y, palette: palette.value, front },
    ...{ needleLabel: chart.needleLabel, endLabel, version: chart.version },
    ...(chart.star !== undefined && { star: chart.star }),
  };
  /** Pointing at one of a crowd brings its run forward in every card. */
  const point = (line: string | null) => {
    hovered.value = line;
    if (chart.crowd && runs.size > 1) view.hoveredRun.value = (line && chart.names.get(line)?.run) || null;
  };
  const gestures: Gestures = {
    zoom: (from, to) => view.setZoom({ key: chart.axis.key, from, to }),
    reset: () => view.setZoom(null),
    needle: (n) => view.setZoom({ key: chart.axis.key, ...around(n.lo, n.hi, chart.x) }),
    hover: (at) => {
      const frame = plot.current?.frame();
      if (!at || !frame) {
        tip.value = null;
        point(null);
        return;
      }
      const rows = rowsAt(chart.lines, frame, at.x, at.py);
      point(rows[0] && rows[0].distance < 40 * frame.ratio ? rows[0].line.id : null);
      const rest = chart.lines.filter((l) => !l.faded).length - rows.length;
      tip.value = {
        left: at.left,
        top: at.top,
        axis: chart.axis,
        rows: rows
          .slice(0, chart.layers.length ? nearestRows : undefined)
          .map((row) => ({ row, name: `${row.line.id === chart.star ? "★ " : ""}${nameOf(row.line.id)}` })),
        layers: chart.layers,
        statistic: groups.statistic.value,
        rest: chart.layers.length ? 0 : rest,
      };
    },
  };
  const kymograph = useMemo(
    () => computed(() => kymographOf(session, card, runs)), // of all cards, which change while their runs come
    [session, card, runs],
  ).value;
  const waiting = chart.loading && chart.lines.length === 0; // axes of nothing would be drawn for nothing
  const active = useComputed(() => view.activeCard.value === card.key).value;
  return (
    <article
      class={`card${active ? " active" : ""}`}
      style={{ width: `${width}px`, height: `${height}px` }}
      aria-label={card.metric}
      data-metric={card.metric}
      data-layers={chart.layers.length || undefined}
      data-drawn={chart.lines.length > 0 ? "1" : undefined}
      data-points={chart.lines.reduce((n, l) => n + (l.faded ? 0 : l.curve.points), 0)}
      onMouseEnter={() => {
        view.activeCard.value = card.key;
      }}
    >
      {late && <div class="progress" />}
      <Head {...{ card, chart, scene, width, plot, nameOf, big, kymograph }} />
      {chart.error && chart.lines.length === 0 ? (
        <div class="card-note" role="alert">
          {chart.error}
        </div>
      ) : (
        !waiting && (
          <PlotHost
            width={width - 2}
            height={height - headHeight - footHeight - 2}
            scene={scene}
            gestures={gestures}
            onPlot={(p) => {
              plot.current = p;
            }}
          />
        )
      )}
      <Foot card={card} chart={chart} kymograph={kymograph} />
    </article>
  );
}

/** The kymograph of a card's series, or of it with the metrics that differ from it in a number. */
function kymographOf(session: Session, card: Card, runs: Map<string, number>): string {
  const [main] = runs.keys();
  const selector = selectorOf(session.cards.value, card);
  return selector && main ? kymo.kymographPath(main, selector, { scale: card.scale, ...kymo.shared() }) : "";
}

/** The lines to bring forward: under the pointer, of the run that is pointed at elsewhere, and of those that are pinned. */
function useFront(chart: Chart, many: boolean, hovered: string | null): Front {
  const run = many ? view.hoveredRun.value : null;
  const group = chart.grouped ? groups.hoveredGroup.value : null;
  const pins = view.pinned.value;
  const { names, crowd } = chart;
  return useMemo(() => {
    const lines = new Set<string>();
    for (const [id, member] of names)
      if (id === hovered || member.run === run || (many && pins.has(member.run))) lines.add(id);
    if (group !== null) return { lines, dim: true, group };
    return lines.size ? { lines, dim: crowd || run !== null } : noFront;
  }, [names, crowd, many, hovered, run, pins, group]);
}

/** A window around a needle wide enough to see what is beside it. */
function around(lo: number, hi: number, x: [number, number]): { from: number; to: number } {
  const half = Math.max((x[1] - x[0]) / 200, hi - lo, 5e-7 * (x[1] - x[0]));
  const middle = lo + (hi - lo) / 2;
  return { from: middle - half, to: middle + half };
}

/** A count in at most four characters. */
function tally(n: number): string {
  return n < 1000 ? String(n) : tickLabels([Number(n.toPrecision(2))])[0]!;
}

/** True once something has been going on for 400 ms: shorter waits show nothing. */
export function useLate(busy: boolean): boolean {
  const late = useSignal(false);
  useEffect(() => {
    if (!busy) {
      late.value = false;
      return;
    }
    const timer = setTimeout(() => {
      late.value = true;
    }, 400);
    return () => clearTimeout(timer);
  }, [busy]);
  return late.value;
}

function useNames(session: Session, chart: Chart, many: boolean): (id: string) => string {
  return useMemo(
    () => (id: string) => {
      const member = chart.names.get(id);
      if (!member) return id;
      const detail = session.detail(member.run);
      const labels = chart.pooled ? `mean of ${count(chart.pooled)} series` : labelText(member.series.labels);
      const run = detail?.display_name || detail?.name || member.run;
      if (!many) return labels || member.series.metric.slice(member.series.metric.lastIndexOf("/") + 1);
      return labels ? `${run} · ${labels}` : run;
    },
    [chart.names, chart.pooled, many],
  );
}

interface HeadProps {
  card: Card;
  chart: Chart;
  scene: Scene;
  width: number;
  plot: { current: Plot | null };
  nameOf: (id: string) => string;
  big?: boolean;
  /** Where the kymograph of the card is; "" where it would have one row. */
  kymograph: string;
}

function Head({ card, chart, scene, width, plot, nameOf, big, kymograph }: HeadProps) {
  const counts = specials(chart.lines);
  const special = (
    [
      [counts.nan, "NaN", "▽", "nan"],
      [counts.posInf, "+Inf", "△", "posInf"],
      [counts.negInf, "−Inf", "▼", "negInf"],
      [counts.low, counts.more ? "or more ≤ 0" : "≤ 0", "◇", "low"],
    ] as const
  ).filter(([n]) => n);
  const zoomTo = (kind: MarkKind) => {
    const first = chart.firstMark(kind);
    if (first) view.setZoom({ key: chart.axis.key, ...around(first.lo, first.hi, chart.x) });
  };
  const part = card.part ? ` · ${card.part.label}` : "";
  const text = card.metric + part + (card.scale === "ML_STEP" ? "" : ` ${card.scale.toLowerCase()}`);
  // The chips give way before the title: first the place, then the words for the glyphs of the lane.
  const title = card.metric.length * 6.9 + 76;
  const worded = big || width - title >= special.length * 52;
  const placed = big || (special.length === 1 && width - title >= 100);
  const room = (width - 76 - special.length * (worded ? 52 : 32) - (placed && !big ? 48 : 0)) / 6.9;
  const left = room - (card.part ? Math.min(14, part.length) : 0);
  const [prefix, name] = fitTitle(card.metric, big ? 200 : Math.max(10, Math.floor(left)));
  return (
    <header class="card-head">
      <h3 title={text} {...(!big && drags(draggedCard, card.metric))}>
        <span class="prefix">{prefix}</span>
        {name}
        {card.part && <span class="part"> {card.part.label}</span>}
      </h3>
      {special.map(([n, what, glyph, kind]) => {
        const at = chart.firstMark(kind)?.text;
        return (
          <button
            type="button"
            class="special"
            key={what}
            onClick={() => zoomTo(kind)}
            title={`${count(n)} ${what}${at ? `, the first at ${at}` : ""}: zoom there`}
            aria-label={`${count(n)} ${what}`}
          >
            {worded ? `${count(n)} ${what}` : `${glyph} ${tally(n)}`}
            {placed && at ? ` @ ${at}` : ""}
          </button>
        );
      })}
      <span class="last" title={full(chart.last)}>
        {chart.last === undefined ? "" : short(chart.last)}
      </span>
      <span class="tools">
        <PinButton metric={card.metric} />
        <button
          type="button"
          class={`ghost${chart.log ? " on" : ""}`}
          onClick={() => view.toggleLog(card.metric)}
          title="Log scale (l)"
          aria-label={`Log scale of ${card.metric}`}
          aria-pressed={chart.log}
        >
          <Icon name="log" size={14} />
        </button>
        {kymograph && (
          <a
            class="ghost"
            href={kymograph}
            title="Kymograph: a row for each series"
            aria-label={`Kymograph of ${card.metric}`}
          >
            <Icon name="kymograph" size={14} />
          </a>
        )}
        <More {...{ card, chart, scene, plot, nameOf }} />
        {!big && (
          <button
            type="button"
            class="ghost"
            onClick={() => setParams({ chart: card.metric })}
            title="Full screen (f)"
            aria-label={`Full screen of ${card.metric}`}
          >
            <Icon name="expand" size={14} />
          </button>
        )}
      </span>
    </header>
  );
}

function More({ card, chart, scene, plot, nameOf }: Omit<HeadProps, "width" | "big" | "kymograph">) {
  const open = useSignal(false);
  const naming = useSignal<string | null>(null);
  const close = () => {
    open.value = false;
    naming.value = null;
  };
  const write = async (kind: "png" | "svg" | "csv") => {
    open.value = false;
    const frame = plot.current?.frame();
    if (!plot.current || !frame) return;
    const lines = kind === "csv" ? await chart.exactLines() : scene.lines;
    const picture = { title: card.metric, scene: { ...scene, lines }, name: nameOf, frame };
    const data =
      kind === "png"
        ? await png(picture, plot.current.canvas)
        : new Blob([kind === "svg" ? svg(picture) : csv(picture)], {
            type: kind === "svg" ? "image/svg+xml" : "text/csv",
          });
    if (data) save(`${card.metric}.${kind}`, data);
    else say("the browser could not make the picture", true);
  };
  return (
    <span
      class="menu-host"
      onMouseLeave={() => {
        if (naming.value === null) close();
      }}
      onKeyDown={(e) => {
        if (e.key === "Escape") close();
      }}
    >
      <button
        type="button"
        class="ghost"
        aria-haspopup="menu"
        aria-expanded={open.value}
        onClick={() => {
          open.value = !open.value;
        }}
        title="Save as, move"
        aria-label={`Save ${card.metric}`}
      >
        <Icon name="more" size={14} />
      </button>
      {open.value && (
        <div class="menu" role={naming.value === null ? "menu" : "group"}>
          {naming.value === null &&
            (["png", "svg", "csv"] as const).map((kind) => (
              <button type="button" role="menuitem" key={kind} onClick={() => write(kind)}>
                Save as {kind.toUpperCase()}
              </button>
            ))}
          <MoveItems card={card} close={close} title={naming} />
        </div>
      )}
    </span>
  );
}

function Foot({ card, chart, kymograph }: { card: Card; chart: Chart; kymograph: string }) {
  const isFull = view.isFull(card.metric);
  return (
    <footer class="card-foot">
      {chart.pooled > 0 && (
        <span
          class="cut"
          title={`The line is the mean of ${count(chart.pooled)} series, each with the same weight; the band goes from the smallest to the largest of their points`}
        >
          mean, min–max of {chart.pooled < card.members.length && `the first ${count(chart.pooled)} of `}
          {count(card.members.length)} series
        </span>
      )}
      {chart.poolable && (
        <>
          <button type="button" class="link" onClick={() => setParams({ draw: chart.pooled ? "lines" : "" })}>
            {chart.pooled ? "lines" : "mean"}
          </button>
          {kymograph && (
            <a class="link" href={kymograph}>
              kymograph
            </a>
          )}
        </>
      )}
      {chart.bucketed > 1 && (
        <span
          title={`Each drawn bucket holds up to ${chart.bucketed} points: their mean as a line, ${
            chart.crowd
              ? "and min to max where these leave what is usual for the line"
              : "their min and max as a band"
          }`}
        >
          bucketed 1:{chart.bucketed} {chart.crowd ? "mean + outliers" : "min/max"}
        </span>
      )}
      {chart.coarser && (
        <span title="Buckets are too wide for this smoothing: the line may be more than 1 % of the shown range away from one over every point. A zoom or a larger chart makes it exact.">
          smoothing is coarser
        </span>
      )}
      {!chart.pooled && chart.drawn < chart.total && (
        <button type="button" class="link" onClick={chart.drawAll}>
          {chart.drawn} of {chart.total} lines drawn · draw all
        </button>
      )}
      {(chart.y.clipped || isFull) && (
        <button type="button" class="link right" onClick={() => view.toggleFull(card.metric)}>
          {isFull ? "robust range" : "full range"}
        </button>
      )}
    </footer>
  );
}
