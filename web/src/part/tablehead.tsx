import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { resizing, setColumns } from "../state/columnchoice.ts";
import {
  aggregateOf,
  bestWay,
  type Column,
  clampWidth,
  moved,
  pinnedFirst,
  serverColumn,
} from "../state/columns.ts";
import { setDirection } from "../state/directionchoice.ts";
import { setParams } from "../state/route.ts";
import { select } from "../state/selection.ts";
import type { Laid } from "../state/tablefit.ts";
import { drags, drops } from "./dragging.ts";
import { Icon } from "./icon.tsx";
import { useOutside } from "./useoutside.ts";

export const headHeight = 48;
const step = 16; // px of a key
const draggedColumn = "text/x-kymogram-column";

interface HeadProps {
  columns: readonly Laid[];
  template: string;
  width: number;
  sort: string;
  whole: boolean;
  selectAll: () => void;
  fitted: (name: string) => number;
}

const sortable = new Set(["name", "status", "created"]);
const sortOf = (name: string): string => (sortable.has(name) || serverColumn(name) ? name : "");

/** A link may name an order as the server does. */
const sameOrder = (a: string, b: string): boolean =>
  a === b || (serverColumn(a) || a) === (b.startsWith("spark(") ? b : serverColumn(b) || b);

export function Head({ columns, template, width, sort, whole, selectAll, fitted }: HeadProps) {
  const groups: { name: string; span: number; left: number | null; at: number }[] = [];
  columns.forEach((c, at) => {
    const last = groups.at(-1);
    if (last?.name === c.group && c.left === null && last.left === null) last.span++;
    else groups.push({ name: c.group, span: 1, left: c.left, at });
  });
  const stuck = (left: number | null) => (left === null ? {} : { left: `${left}px` });
  return (
    <div class="table-head" style={{ height: `${headHeight}px`, minWidth: `${width}px` }} role="rowgroup">
      <div class="head-groups" style={{ gridTemplateColumns: template }} role="row">
        <span role="columnheader" class="box">
          <span class="unseen">selection</span>
        </span>
        {groups.map((g) => (
          <span
            key={g.at}
            class={`cut${g.left === null ? "" : " stuck"}${g.span === 1 && columns[g.at]!.right ? " right" : ""}`}
            style={{ gridColumn: `span ${g.span}`, ...stuck(g.left) }}
            role="columnheader"
          >
            {g.name === "run" ? <span class="unseen">run</span> : g.name}
          </span>
        ))}
      </div>
      <div class="head-names" style={{ gridTemplateColumns: template }} role="row">
        <span role="columnheader" class="box">
          <input
            type="checkbox"
            checked={whole}
            onChange={() => (whole ? select([]) : selectAll())}
            aria-label={whole ? "Select no run" : "Select all runs that match"}
            title={whole ? "Select no run" : "Select all runs that match"}
          />
        </span>
        {columns.map((c) => (
          <HeadCell key={c.name} column={c} columns={columns} sort={sort} fitted={fitted} />
        ))}
      </div>
    </div>
  );
}

/** What is kept of columns: without where they are drawn. */
const plain = (columns: readonly Laid[]): Column[] =>
  columns.map(({ name, width, pinned }) => ({ name, ...(width && { width }), ...(pinned && { pinned }) }));

interface CellProps {
  column: Laid;
  columns: readonly Laid[];
  sort: string;
  fitted: (name: string) => number;
}

function HeadCell({ column: c, columns, sort, fitted }: CellProps) {
  const by = sortOf(c.name);
  const on = by !== "" && sameOrder(sort.replace(/^-/, ""), by);
  const down = sort.startsWith("-");
  const host = useRef<HTMLSpanElement>(null);
  const menu = useSignal(false);
  const close = () => {
    menu.value = false;
  };
  useOutside(host, menu.value, close);
  const over = useSignal(false);
  const change = (to: Partial<Column>) =>
    setColumns(pinnedFirst(plain(columns).map((x) => (x.name === c.name ? { ...x, ...to } : x))));
  const place = columns.indexOf(c);
  const shift = (by: number) => {
    const to = columns[place + by];
    if (to) setColumns(moved(plain(columns), c.name, to.name));
  };
  // The first click shows what is better first, or the largest.
  const way = bestWay(c.name);
  const downFirst = way ? way === "up" : c.right;
  const next = !on ? (downFirst ? `-${by}` : by) : down === downFirst ? (down ? by : `-${by}`) : "";
  const keys = (e: KeyboardEvent) => {
    const way = e.key === "ArrowLeft" ? -1 : e.key === "ArrowRight" ? 1 : 0;
    if (way && e.shiftKey) shift(way);
    else if (way && e.altKey) change({ width: clampWidth(c.px + way * step) });
    else if (e.key === "ArrowDown" && e.altKey) menu.value = true;
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <span
      class={`head-cell${c.right ? " right" : ""}${c.left === null ? "" : " stuck"}${over.value ? " over" : ""}${menu.value ? " open" : ""}`}
      style={c.left === null ? undefined : { left: `${c.left}px` }}
      role="columnheader"
      aria-sort={on ? (down ? "descending" : "ascending") : by ? "none" : undefined}
      ref={host}
      {...drags(draggedColumn, c.name)}
      {...drops(
        draggedColumn,
        (name) => setColumns(moved(plain(columns), name, c.name)),
        (e) => {
          over.value = e !== null;
        },
      )}
      onContextMenu={(e) => {
        e.preventDefault();
        menu.value = true;
      }}
    >
      <button
        type="button"
        class="sorter"
        onClick={() => by && setParams({ sort: next })}
        onKeyDown={keys}
        aria-label={by ? undefined : `${c.title}: not sortable`}
        title={`${c.name}\nShift+← → moves, Alt+← → resizes, Alt+↓ opens the menu`}
      >
        <span class="cut">{c.title}</span>
        {on && <span class="arrow">{down ? "↓" : "↑"}</span>}
      </button>
      <button
        type="button"
        class="head-more"
        aria-label={`Column ${c.title}`}
        aria-haspopup="menu"
        aria-expanded={menu.value}
        onClick={() => {
          menu.value = !menu.value;
        }}
      >
        <Icon name="down" size={10} />
      </button>
      <Grip column={c} set={(width) => change({ width })} fit={() => change({ width: fitted(c.name) })} />
      {menu.value && (
        <ColumnMenu
          column={c}
          by={by}
          last={place === columns.length - 1}
          first={place === 0}
          change={change}
          shift={shift}
          fit={() => change({ width: fitted(c.name) })}
          hide={() => setColumns(plain(columns).filter((x) => x.name !== c.name))}
          close={close}
        />
      )}
    </span>
  );
}

/** Grip is the edge that is dragged; the keys of the head do the same. */
function Grip({ column, set, fit }: { column: Laid; set: (px: number) => void; fit: () => void }) {
  return (
    <span
      class="grip"
      aria-hidden="true"
      onMouseDown={(e) => e.preventDefault()} // the head is not dragged with it
      onPointerDown={(e) => {
        const el = e.currentTarget;
        const from = e.clientX;
        el.setPointerCapture(e.pointerId);
        const move = (m: PointerEvent) => {
          resizing.value = { name: column.name, px: clampWidth(column.px + m.clientX - from) };
        };
        const end = () => {
          el.removeEventListener("pointermove", move);
          el.removeEventListener("lostpointercapture", end);
          if (resizing.value) set(resizing.value.px);
          resizing.value = null;
        };
        el.addEventListener("pointermove", move);
        el.addEventListener("lostpointercapture", end);
      }}
      onDblClick={fit}
    />
  );
}

interface MenuProps {
  column: Laid;
  by: string;
  first: boolean;
  last: boolean;
  change: (to: Partial<Column>) => void;
  shift: (by: number) => void;
  fit: () => void;
  hide: () => void;
  close: () => void;
}

function ColumnMenu({ column: c, by, first, last, change, shift, fit, hide, close }: MenuProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    host.current?.querySelector("button")?.focus();
  }, []);
  const metric = aggregateOf(c.name)?.metric;
  const way = bestWay(c.name);
  const items: [string, () => void][] = [];
  if (by)
    items.push(
      ["Sort ascending ↑", () => setParams({ sort: by })],
      ["Sort descending ↓", () => setParams({ sort: `-${by}` })],
    );
  items.push([c.pinned ? "Unpin" : "Pin left", () => change({ pinned: !c.pinned })]);
  if (!first) items.push(["Move left", () => shift(-1)]);
  if (!last) items.push(["Move right", () => shift(1)]);
  items.push(["Fit width", fit]);
  if (metric !== undefined && way !== "down")
    items.push(["Less is better ↓", () => setDirection(metric, "down")]);
  if (metric !== undefined && way !== "up")
    items.push(["More is better ↑", () => setDirection(metric, "up")]);
  if (c.name !== "name") items.push(["Hide", hide]);
  const keys = (e: KeyboardEvent) => {
    const all = [...host.current!.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    if (e.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (e.key === "ArrowUp") all[(at + all.length - 1) % all.length]?.focus();
    else if (e.key === "Escape" || e.key === "Tab") {
      const button = host.current?.parentElement?.querySelector<HTMLButtonElement>(".head-more");
      close();
      button?.focus();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="menu column-menu" role="menu" aria-label={`Column ${c.title}`} ref={host} onKeyDown={keys}>
      {items.map(([text, act]) => (
        <button
          key={text}
          type="button"
          role="menuitem"
          onClick={() => {
            close();
            act();
          }}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
