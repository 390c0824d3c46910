import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Miner, Network, Validator } from "../api/network.ts";
import { paintMatrix, paintOverview, range, type Sheet, type View, words } from "../chart/matrix.ts";
import { short } from "../chart/number.ts";
import { age, cutKey, gpuText } from "../state/network.ts";
import { isDark } from "../state/theme.ts";
import { Mark } from "./verdict.tsx";

export interface Place {
  row: number;
  column: number;
}

interface Props {
  doc: Network;
  rows: number[];
  columns: number[];
  cell: Sheet["cell"];
  /** The cell under the pointer or the keys, in places of rows and columns. */
  at: Signal<Place | null>;
  opened: string;
  openMiner: (m: Miner) => void;
  openValidator: (v: Validator) => void;
}

const headHeight = 112;
const overviewCell = 3;

/** Matrix is miners × validators: heads that stay, one canvas of what is in view, and the whole beside it. */
export function Matrix(props: Props) {
  const { doc, rows, columns, cell, at } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const view = useSignal<View>({ x: 0, y: 0, width: 0, height: 0 });
  const left = innerWidth <= 640 ? 132 : 322;
  const sheet: Sheet = { doc, rows, columns, cell, dark: isDark.value };

  const look = () => {
    const el = scroller.current;
    if (!el || matchMedia("print").matches) return; // paper gets the cells of the screen
    const next = {
      ...{ x: el.scrollLeft, y: el.scrollTop },
      width: Math.min(el.clientWidth - left, columns.length * cell.width),
      height: Math.min(el.clientHeight - headHeight, rows.length * cell.height),
    };
    const now = view.value;
    if (next.x !== now.x || next.y !== now.y || next.width !== now.width || next.height !== now.height)
      view.value = next;
  };
  useLayoutEffect(look);
  useEffect(() => {
    const watch = new ResizeObserver(look);
    watch.observe(scroller.current!);
    return () => watch.disconnect();
  }, [left, rows.length, columns.length, cell.width, cell.height]);
  useReveal(at, scroller, cell, left);

  const plane = {
    width: `${left + columns.length * cell.width}px`,
    height: `${headHeight + rows.length * cell.height}px`,
  };
  return (
    <div class="net-body">
      <div class="net-scroll" ref={scroller} onScroll={look}>
        <div class="net-plane" style={plane}>
          <div class="net-top" style={{ height: `${headHeight}px` }}>
            <Corner width={left} doc={doc} />
            <Heads {...props} />
          </div>
          <div class="net-stick" style={{ top: `${headHeight}px`, left: `${left}px` }}>
            <Cells
              sheet={sheet}
              view={view}
              at={at}
              open={(row) => props.openMiner(doc.miners[rows[row]!]!)}
            />
          </div>
          <Labels {...props} view={view} width={left} />
        </div>
      </div>
      {innerWidth > 640 && rows.length * columns.length > 64 && (
        <Overview sheet={sheet} view={view} scroller={scroller} />
      )}
    </div>
  );
}

/** Scrolls so that the cell of the keys is in sight. */
function useReveal(
  at: Signal<Place | null>,
  scroller: { current: HTMLDivElement | null },
  cell: Sheet["cell"],
  left: number,
): void {
  useEffect(
    () =>
      at.subscribe((place) => {
        const el = scroller.current;
        if (!el || !place) return;
        const [x, y] = [place.column * cell.width, place.row * cell.height];
        const [w, h] = [el.clientWidth - left, el.clientHeight - headHeight];
        if (y < el.scrollTop) el.scrollTop = y;
        else if (y + cell.height > el.scrollTop + h) el.scrollTop = y + cell.height - h;
        if (x < el.scrollLeft) el.scrollLeft = x;
        else if (x + cell.width > el.scrollLeft + w) el.scrollLeft = x + cell.width - w;
      }),
    [at, cell.width, cell.height, left],
  );
}

interface CellsProps {
  sheet: Sheet;
  view: Signal<View>;
  at: Signal<Place | null>;
  open: (row: number) => void;
}

function Cells({ sheet, view, at, open }: CellsProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height } = view.value;
  const place = at.value;
  useLayoutEffect(() => {
    const el = canvas.current;
    if (!el || width <= 0 || height <= 0) return;
    const ratio = devicePixelRatio;
    el.width = Math.round(width * ratio);
    el.height = Math.round(height * ratio);
    const ctx = el.getContext("2d")!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const start = performance.now();
    paintMatrix(ctx, sheet, view.value, place);
    el.dataset.painted = String(Number(el.dataset.painted ?? 0) + 1);
    el.dataset.ms = (performance.now() - start).toFixed(1);
  });
  const hit = (e: MouseEvent): Place | null => {
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.floor((e.clientX - box.left + view.value.x) / sheet.cell.width);
    const row = Math.floor((e.clientY - box.top + view.value.y) / sheet.cell.height);
    return row < sheet.rows.length && column < sheet.columns.length ? { row, column } : null;
  };
  return (
    <canvas
      ref={canvas}
      class="net-cells"
      style={{ width: `${Math.max(0, width)}px`, height: `${Math.max(0, height)}px` }}
      onPointerMove={(e) => {
        const next = hit(e);
        const now = at.value;
        if (next?.row !== now?.row || next?.column !== now?.column) at.value = next;
      }}
      onClick={(e) => {
        const place = hit(e);
        if (place) open(place.row);
      }}
    />
  );
}

const headLines = ["uid", "verdict", "stake", "last block", "version", "endpoint"] as const;

function Corner({ width, doc }: { width: number; doc: Network }) {
  return (
    <div class="net-corner" style={{ width: `${width}px` }}>
      <div class="net-lines">
        {headLines.map((line) => (
          <span key={line}>
            {line === "last block" && !doc.validators.some((v) => v.block) ? "age" : line}
          </span>
        ))}
      </div>
      <div class="net-labels-head">
        <span>miner</span>
        <span class="net-result">merged result</span>
        <span class="net-carried">carried by</span>
      </div>
    </div>
  );
}

/** The validators' own state, a column each. */
function Heads({ doc, columns, cell, opened, openValidator }: Props) {
  return (
    <div class="net-heads">
      {columns.map((i, place) => {
        const v = doc.validators[i]!;
        const style = { left: `${place * cell.width}px`, width: `${cell.width}px` };
        return (
          <button
            type="button"
            key={`${v.hotkey}/${v.run_id}`}
            class={`net-head${cell.width < 30 ? " narrow" : ""}${opened === v.run_id ? " open" : ""}${v.counted ? "" : " idle"}`}
            style={style}
            title={headText(doc, v)}
            onClick={() => openValidator(v)}
          >
            <span class="unseen">{headText(doc, v)}</span>
            <span class="uid" aria-hidden="true">
              {v.uid ?? (cell.width < 30 ? "–" : v.hotkey.slice(0, cell.width < 52 ? 4 : 6))}
            </span>
            <span>
              <Mark verdict={v.verdict} size={11} />
            </span>
            <span aria-hidden="true">
              {cell.width < 30 ? <Stake doc={doc} v={v} /> : v.stake === null ? "–" : compact(v.stake)}
            </span>
            <Freshness doc={doc} v={v} narrow={cell.width < 30} />
            <Version doc={doc} v={v} narrow={cell.width < 30} />
            <Answers v={v} />
          </button>
        );
      })}
    </div>
  );
}

function headText(doc: Network, v: Validator): string {
  const { blocks, ms } = age(doc, v);
  const parts = [
    `validator ${v.uid ?? ""} ${v.hotkey}`.replace("  ", " "),
    `${words[v.verdict]}: ${v.reason}`,
    v.stake === null ? "stake unknown" : `stake ${short(v.stake)}`,
    blocks === null ? `record of ${Math.round(ms / 1000)} s ago` : `record of ${blocks} blocks ago`,
    v.version === null ? "" : `version ${v.version}`,
    endpointText(v),
    `agrees with ${v.agrees} results, differs from ${v.differs}`,
    ...v.notes,
  ];
  return parts.filter(Boolean).join("\n");
}

export function endpointText(node: { endpoint: Validator["endpoint"] }): string {
  const e = node.endpoint;
  if (!e) return "no endpoint on chain";
  const answer =
    e.answers === null
      ? "not tried"
      : e.answers
        ? "answers"
        : `does not answer${e.error ? `: ${e.error}` : ""}`;
  return `endpoint ${e.address} ${answer}`;
}

const compact = (n: number): string =>
  new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(n);

/** In a narrow column the stake is a bar; its length is the root of the share of the largest. */
function Stake({ doc, v }: { doc: Network; v: Validator }) {
  const most = Math.max(...doc.validators.map((o) => o.stake ?? 0), 1);
  const height = v.stake === null ? 0 : Math.max(1, Math.round(12 * Math.sqrt(v.stake / most)));
  return <i class="bar-up" style={{ height: `${height}px` }} />;
}

const freshBlocks = 100; // the validators' scores are set about this often
const freshMs = 20 * 60_000;

function Freshness({ doc, v, narrow }: { doc: Network; v: Validator; narrow: boolean }) {
  const { blocks, ms } = age(doc, v);
  const fresh = blocks === null ? ms < freshMs : blocks <= freshBlocks;
  if (narrow)
    return (
      <span aria-hidden="true" class={fresh ? "" : "late"}>
        {fresh ? "●" : "○"}
      </span>
    );
  return (
    <span aria-hidden="true" class={fresh ? "" : "late"}>
      {blocks === null ? shortAge(ms) : blocks === 0 ? "0" : `−${compact(blocks)}`}
    </span>
  );
}

function shortAge(ms: number): string {
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s}s`;
  return s < 5400
    ? `${Math.round(s / 60)}m`
    : s < 129_600
      ? `${Math.round(s / 3600)}h`
      : `${Math.round(s / 86_400)}d`;
}

function Version({ doc, v, narrow }: { doc: Network; v: Validator; narrow: boolean }) {
  const newest = Math.max(...doc.validators.map((o) => o.version ?? 0));
  const old = v.version !== null && v.version < newest;
  if (!narrow)
    return (
      <span aria-hidden="true" class={old ? "late" : ""}>
        {v.version ?? "–"}
      </span>
    );
  return (
    <span aria-hidden="true" class={old ? "late" : ""}>
      {v.version === null ? "–" : old ? "▾" : "="}
    </span>
  );
}

function Answers({ v }: { v: Validator }) {
  const e = v.endpoint;
  const text = !e || e.answers === null ? "–" : e.answers ? "✓" : "✕";
  return (
    <span aria-hidden="true" class={e?.answers === false ? "late" : ""}>
      {text}
    </span>
  );
}

/** The miners in view: who, the verdict on their own record, and the merged result. */
function Labels({
  doc,
  rows,
  cell,
  at,
  opened,
  openMiner,
  view,
  width,
}: Props & { view: Signal<View>; width: number }) {
  const { y, height } = view.value;
  const [first, last] = range(y, height, cell.height, rows.length);
  const here = useComputed(() => at.value?.row ?? -1).value;
  const style = {
    width: `${width}px`,
    height: `${rows.length * cell.height}px`,
    fontSize: cell.height < 16 ? "10px" : "12px",
  };
  return (
    <div class="net-labels" style={style}>
      {rows.slice(first, last).map((i, n) => {
        const m = doc.miners[i]!;
        const row = first + n;
        const name = `${m.uid ?? "–"}/${m.hotkey}`;
        return (
          <button
            type="button"
            key={name}
            class={`net-label${row === here ? " at" : ""}${opened === name ? " open" : ""}`}
            style={{
              top: `${row * cell.height}px`,
              height: `${cell.height}px`,
              lineHeight: `${cell.height}px`,
            }}
            title={`${m.hotkey}\n${words[m.verdict]}: ${m.reason}`}
            onClick={() => openMiner(m)}
          >
            <Mark verdict={m.verdict} size={Math.min(12, cell.height - 1)} />
            <span class="unseen">{`miner ${m.uid ?? ""} ${m.hotkey}, ${words[m.verdict]}, ${resultText(doc, m)}`}</span>
            <span class="uid" aria-hidden="true">
              {m.uid ?? "–"}
            </span>
            <span class="key" aria-hidden="true">
              {cutKey(m.hotkey)}
            </span>
            <span class="net-result" aria-hidden="true">
              {m.result ? `${short(m.result.score)}  ${shortGpu(doc, m.result.gpu)}` : "–"}
            </span>
            <span class="net-carried" aria-hidden="true">
              <Carried m={m} />
            </span>
          </button>
        );
      })}
    </div>
  );
}

export function resultText(doc: Network, m: Miner): string {
  if (!m.result) return "no report counts";
  const { carried, against, hotkey } = m.result;
  const other = hotkey && hotkey !== m.hotkey ? ` of ${cutKey(hotkey)}` : "";
  const voters = carried.map((i) => doc.validators[i]!.uid ?? cutKey(doc.validators[i]!.hotkey)).join(", ");
  return `${short(m.result.score)}${other}, ${gpuText(doc, m.result.gpu)}, carried by ${carried.length} of ${carried.length + against} (${voters})`;
}

/** "8 × NVIDIA H100 80GB HBM3" is "8×H100" beside a row. */
function shortGpu(doc: Network, gpu: number): string {
  const of = doc.gpus[gpu];
  if (!of) return "";
  const words = of[0].replace(/^NVIDIA |GeForce /g, "").split(/[ -]/);
  return `${of[1]}×${words.find((w) => /\d/.test(w)) ?? words[0]}`;
}

function Carried({ m }: { m: Miner }) {
  if (!m.result) return null;
  const votes = m.result.carried.length;
  const all = votes + m.result.against;
  return (
    <>
      <i class="share" style={{ width: `${Math.round((22 * votes) / all)}px` }} />
      <i class="share against" style={{ width: `${Math.round((22 * m.result.against) / all)}px` }} /> {votes}/
      {all}
    </>
  );
}

/** The whole network in cells of 3 px; the frame is what the matrix shows, and can be dragged. */
function Overview({
  sheet,
  view,
  scroller,
}: {
  sheet: Sheet;
  view: Signal<View>;
  scroller: { current: HTMLDivElement | null };
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const room = useSignal(0);
  const [nr, nc] = [sheet.rows.length, sheet.columns.length];
  const size = Math.min(overviewCell, (room.value || 1) / Math.max(1, nr));
  useEffect(() => {
    const el = host.current!; // the observer may speak after the element is gone
    const watch = new ResizeObserver(() => {
      room.value = el.clientHeight - 8;
    });
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  const shown = view.value;
  useLayoutEffect(() => {
    const el = canvas.current;
    if (!el || !room.value) return;
    el.width = Math.ceil(nc * size * devicePixelRatio);
    el.height = Math.ceil(nr * size * devicePixelRatio);
    const ctx = el.getContext("2d")!;
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    paintOverview(ctx, sheet, size, shown);
  });
  const drag = (e: PointerEvent) => {
    if (e.buttons !== 1) return;
    const box = canvas.current!.getBoundingClientRect();
    const el = scroller.current!;
    el.scrollLeft = ((e.clientX - box.left) / size) * sheet.cell.width - shown.width / 2;
    el.scrollTop = ((e.clientY - box.top) / size) * sheet.cell.height - shown.height / 2;
  };
  return (
    <div class="net-overview" ref={host} aria-hidden="true">
      <canvas
        ref={canvas}
        style={{ width: `${nc * size}px`, height: `${nr * size}px` }}
        onPointerDown={(e) => {
          canvas.current!.setPointerCapture(e.pointerId);
          drag(e);
        }}
        onPointerMove={drag}
      />
    </div>
  );
}
