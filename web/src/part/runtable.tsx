import { type Signal, useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { dateTime, duration, full, short } from "../chart/number.ts";
import { bind } from "../state/keys.ts";
import { runPath, setParams } from "../state/route.ts";
import { cellOf } from "../state/runlist.ts";
import { select, selected, toggleRows } from "../state/selection.ts";
import { Status, Tags } from "./status.tsx";

export const rowHeight = 28;
const headHeight = 44;
const overscan = 12;

interface Props {
  runs: Run[];
  /** Rows there are, known or not: the scroll bar's length. */
  total: number;
  columns: string[];
  sort: string;
  reach: (row: number) => void;
  open: (ids: string[]) => void;
  /** Selects every run that matches, read or not. */
  selectAll: () => void;
}

interface Column {
  name: string;
  title: string;
  /** The first level of the head. */
  group: string;
  /** What the server sorts by; "" when it cannot. */
  sort: string;
  width: number;
  right: boolean;
}

const fixed: Column[] = [
  { name: "name", title: "name", group: "run", sort: "name", width: 190, right: false },
  { name: "status", title: "status", group: "run", sort: "status", width: 92, right: false },
  { name: "tags", title: "tags", group: "run", sort: "", width: 112, right: false },
  { name: "created", title: "created", group: "run", sort: "created", width: 144, right: true },
  { name: "duration", title: "duration", group: "run", sort: "", width: 92, right: true },
  { name: "attempts", title: "attempt", group: "run", sort: "", width: 66, right: true },
];

function columnOf(name: string): Column {
  const at = name.startsWith("config/") || name.startsWith("summary/") ? name.indexOf("/") : -1;
  const title = name.slice(at + 1);
  return {
    name,
    title,
    group: at < 0 ? "summary" : name.slice(0, at),
    sort: name,
    width: Math.max(76, Math.min(180, title.length * 7 + 24)),
    right: true,
  };
}

/** RunTable draws the rows in view of a list that may be a hundred thousand long. */
export function RunTable({ runs, total, columns, sort, reach, open, selectAll }: Props) {
  const last = useRef<number | null>(null); // row that a range begins at
  const host = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const at = useSignal(-1);
  const all = useMemo(() => [...fixed, ...columns.map(columnOf)], [columns]);
  const first = Math.max(0, Math.floor(top.value / rowHeight) - overscan);
  const end = Math.min(total, Math.ceil((top.value + height.value) / rowHeight) + overscan);
  const template = `28px ${all.map((c) => (c.name === "name" ? `minmax(${c.width}px, 1.6fr)` : `minmax(${c.width}px, ${c.right ? "1fr" : `${c.width}px`})`)).join(" ")}`;
  const width = 28 + all.reduce((n, c) => n + c.width, 0);

  useLayoutEffect(() => {
    const el = host.current!;
    const observer = new ResizeObserver(() => {
      height.value = el.clientHeight;
    });
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  useEffect(() => reach(end), [end, runs.length]);
  const ids = useRef<Run[]>(runs);
  ids.current = runs;
  const flip = useMemo(
    () => (row: number, range: boolean) => {
      toggleRows(
        ids.current.map((r) => r.id),
        row,
        range ? last.current : null,
      );
      last.current = row;
    },
    [],
  );
  useTableKeys({ runs, at, flip, open, host });

  const rows = [];
  for (let i = first; i < end; i++) {
    const run = runs[i];
    rows.push(
      <Row
        key={i}
        run={run}
        index={i}
        columns={all}
        template={template}
        selected={!!run && selected.value.has(run.id)}
        active={at.value === i}
        toggle={flip}
      />,
    );
  }
  return (
    <div
      class="table-scroll"
      ref={host}
      onScroll={(e) =>
        (top.value = Math.floor((e.currentTarget as HTMLElement).scrollTop / rowHeight) * rowHeight)
      }
      tabIndex={-1}
      role="table"
      aria-rowcount={total}
    >
      <Head
        columns={all}
        template={template}
        width={width}
        sort={sort}
        whole={runs.length > 0 && selected.value.size >= runs.length}
        selectAll={selectAll}
      />
      <div class="rows" style={{ height: `${total * rowHeight}px`, minWidth: `${width}px` }} role="rowgroup">
        {rows}
      </div>
    </div>
  );
}

interface HeadProps {
  columns: Column[];
  template: string;
  width: number;
  sort: string;
  whole: boolean;
  selectAll: () => void;
}

function Head({ columns, template, width, sort, whole, selectAll }: HeadProps) {
  const groups: { name: string; span: number }[] = [];
  for (const c of columns) {
    const last = groups.at(-1);
    if (last?.name === c.group) last.span++;
    else groups.push({ name: c.group, span: 1 });
  }
  return (
    <div class="table-head" style={{ height: `${headHeight}px`, minWidth: `${width}px` }} role="rowgroup">
      <div class="head-groups" style={{ gridTemplateColumns: template }} role="row">
        <span role="columnheader">
          <span class="unseen">selection</span>
        </span>
        {groups.map((g) => (
          <span key={g.name} style={{ gridColumn: `span ${g.span}` }} role="columnheader">
            {g.name === "run" ? <span class="unseen">run</span> : g.name}
          </span>
        ))}
      </div>
      <div class="head-names" style={{ gridTemplateColumns: template }} role="row">
        <span role="columnheader">
          <input
            type="checkbox"
            checked={whole}
            onChange={() => (whole ? select([]) : selectAll())}
            aria-label={whole ? "Select no run" : "Select all runs that match"}
            title={whole ? "Select no run" : "Select all runs that match"}
          />
        </span>
        {columns.map((c) => (
          <HeadCell key={c.name} column={c} sort={sort} />
        ))}
      </div>
    </div>
  );
}

function HeadCell({ column: c, sort }: { column: Column; sort: string }) {
  const by = sort.replace(/^-/, "");
  const on = by === c.sort && c.sort !== "";
  const down = sort.startsWith("-");
  // The first click shows the largest first where that is what one looks for.
  const next = !on
    ? c.right
      ? `-${c.sort}`
      : c.sort
    : down === c.right
      ? down
        ? c.sort
        : `-${c.sort}`
      : "";
  const side = c.right ? "right" : "";
  if (!c.sort)
    return (
      <span class={side} role="columnheader">
        {c.title}
      </span>
    );
  return (
    <span class={side} role="columnheader" aria-sort={on ? (down ? "descending" : "ascending") : "none"}>
      <button type="button" onClick={() => setParams({ sort: next })} title={c.name}>
        <span class="cut">{c.title}</span>
        {on && <span class="arrow">{down ? "↓" : "↑"}</span>}
      </button>
    </span>
  );
}

interface RowProps {
  run: Run | undefined;
  index: number;
  columns: Column[];
  template: string;
  selected: boolean;
  active: boolean;
  toggle: (row: number, range: boolean) => void;
}

/** A row is drawn again only when something of it changed: while scrolling that is none of those that stay. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return (Object.keys(next) as (keyof RowProps)[]).some((k) => next[k] !== this.props[k]);
  }

  override render({ run, index, columns, template, selected, active, toggle }: RowProps) {
    const style = {
      transform: `translateY(${index * rowHeight}px)`,
      gridTemplateColumns: template,
      height: `${rowHeight}px`,
    };
    if (!run) return <div class="row waiting" style={style} role="row" />;
    return (
      <div
        class={`row${selected ? " selected" : ""}${active ? " active" : ""}`}
        style={style}
        role="row"
        aria-rowindex={index + 1}
      >
        <span role="cell">
          <input
            type="checkbox"
            checked={selected}
            onClick={(e) => toggle(index, e.shiftKey)}
            aria-label={`Select ${run.name}`}
          />
        </span>
        {columns.map((c) => (
          <BodyCell key={c.name} run={run} column={c} />
        ))}
      </div>
    );
  }
}

function BodyCell({ run, column }: { run: Run; column: Column }) {
  switch (column.name) {
    case "name":
      return (
        <span role="cell" class="cut">
          <a href={runPath(run.id)} title={run.name}>
            {run.display_name || run.name}
          </a>
        </span>
      );
    case "status":
      return (
        <span role="cell">
          <Status status={run.status} />
        </span>
      );
    case "tags":
      return (
        <span role="cell" class="cut">
          <Tags tags={run.tags} />
        </span>
      );
    case "created":
      return <NumberCell value={dateTime(run.created_ns)} title={dateTime(run.created_ns, true)} />;
    case "duration":
      return <NumberCell value={duration(run.duration_ms)} title={`${run.duration_ms} ms`} />;
    case "attempts":
      return <NumberCell value={String(run.attempt)} title="" />;
    default: {
      const value = cellOf(run, column.name);
      const isNumber =
        typeof value === "number" || value === "NaN" || value === "Infinity" || value === "-Infinity";
      const text = Array.isArray(value)
        ? value.join(", ")
        : typeof value === "boolean"
          ? String(value)
          : value;
      return (
        <NumberCell
          value={isNumber ? short(value) : text === undefined || text === null ? "" : String(text)}
          title={full(text as string)}
        />
      );
    }
  }
}

function NumberCell({ value, title }: { value: string; title: string }) {
  return (
    <span role="cell" class="right cut" title={title}>
      {value}
    </span>
  );
}

interface Keys {
  runs: Run[];
  at: Signal<number>;
  flip: (row: number, range: boolean) => void;
  open: (ids: string[]) => void;
  host: { current: HTMLDivElement | null };
}

function useTableKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const move = (by: number) => {
      const { at, runs, host } = now.current;
      at.value = Math.max(0, Math.min(runs.length - 1, at.value + by));
      const el = host.current!;
      const y = at.value * rowHeight;
      if (y < el.scrollTop) el.scrollTop = y;
      if (y + rowHeight + headHeight > el.scrollTop + el.clientHeight)
        el.scrollTop = y + rowHeight + headHeight - el.clientHeight;
    };
    return bind({
      j: () => move(1),
      k: () => move(-1),
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      x: () => now.current.flip(now.current.at.value, false),
      X: () => now.current.flip(now.current.at.value, true),
      Enter: () => {
        const { runs, at, open } = now.current;
        const here = runs[at.value]?.id;
        if (selected.value.size) open([]);
        else if (here) open([here]);
      },
    });
  }, []);
}
