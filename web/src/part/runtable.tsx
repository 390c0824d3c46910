import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { RunGroup } from "../api/table.ts";
import { resizing } from "../state/columnchoice.ts";
import { bestWay, type Column, cellOf } from "../state/columns.ts";
import { bind } from "../state/keys.ts";
import { select, selected } from "../state/selection.ts";
import { boxWidth, fitting, isNumber, lay } from "../state/tablefit.ts";
import type { Line, Show, TableRows } from "../state/tablerows.ts";
import { Head, headHeight } from "./tablehead.tsx";
import { figureText, GroupRow, RunRow, rowHeight } from "./tablerow.tsx";

const overscan = 12;

interface Props {
  rows: TableRows;
  columns: readonly Column[];
  sort: string;
  /** By column the run that is the best of all. */
  best: ReadonlyMap<string, string>;
  open: (ids: string[]) => void;
  /** Selects every run that matches, read or not. */
  selectAll: () => void;
  /** The keys of the groups, and the columns that they have statistics of. */
  by: readonly string[];
  of: readonly string[];
  show: Show;
  unfold: (group: RunGroup) => void;
  /** All runs of a group. */
  runsOf: (group: RunGroup) => Promise<string[]>;
}

/** RunTable draws the rows in view of a list that may be a hundred thousand long. */
export function RunTable(p: Props) {
  const { rows, columns, sort } = p;
  const host = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const box = useSignal({ width: 1200, height: 600 });
  const at = useSignal(-1);
  const chosen = useGroupChoice(p);
  const first = Math.max(0, Math.floor(top.value / rowHeight) - overscan);
  const end = Math.min(rows.total, Math.ceil((top.value + box.value.height) / rowHeight) + overscan);

  const { widthOf, numeric } = useFit(p, host);
  const drag = resizing.value;
  const all = useMemo(
    () =>
      lay(
        columns.map((c) => (drag?.name === c.name ? { ...c, width: drag.px } : c)),
        (c) => widthOf(c.name),
        box.value.width,
        numeric,
      ),
    [columns, widthOf, box.value.width, drag],
  );
  // The name takes what is left, so that no column is cut beside empty space.
  const grows = all.some((c) => c.name === "name" && !c.width) ? "name" : "";
  const template = `${boxWidth}px ${all.map((c) => (c.name === grows ? `minmax(${c.px}px, 1fr)` : `${c.px}px`)).join(" ")}`;
  const width = boxWidth + all.reduce((n, c) => n + c.px, 0);

  useLayoutEffect(() => {
    const el = host.current!;
    const observer = new ResizeObserver(() => {
      box.value = { width: el.clientWidth, height: el.clientHeight };
    });
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  useEffect(() => rows.reach(first, end), [first, end, rows]);
  const flip = useFlip(p, chosen.toggle);
  useTableKeys({ ...p, at, flip, host });

  const figured = useMemo(() => figuredOf(rows.groups, p.of), [rows.groups, p.of.join("\u0000")]);
  const drawn = [];
  for (let i = first; i < end; i++) {
    const line = rows.at(i);
    const same = { index: i, columns: all, template, active: at.value === i, toggle: flip };
    if (line.group)
      drawn.push(
        <GroupRow
          key={`g${line.group.member}`}
          {...same}
          group={line.group}
          open={line.open}
          by={p.by}
          of={figured}
          show={p.show}
          unfold={p.unfold}
          selected={chosen.has(line.group)}
        />,
      );
    else
      drawn.push(
        <RunRow
          key={i}
          {...same}
          run={line.run}
          best={p.best}
          inGroup={p.by.length > 0}
          selected={!!line.run && selected.value.has(line.run.id)}
        />,
      );
  }
  const whole = rows.runs.length > 0 && selected.value.size >= rows.runs.length;
  return (
    <div
      class="table-scroll"
      ref={host}
      onScroll={(e) =>
        (top.value = Math.floor((e.currentTarget as HTMLElement).scrollTop / rowHeight) * rowHeight)
      }
      tabIndex={-1}
      role="table"
      aria-rowcount={rows.total}
    >
      <Head
        columns={all}
        template={template}
        width={width}
        sort={sort}
        whole={whole}
        selectAll={p.selectAll}
        fitted={(name) => fitNow(name, rows, first, end, host.current)}
      />
      <div
        class="rows"
        style={{ height: `${rows.total * rowHeight}px`, minWidth: `${width}px` }}
        role="rowgroup"
      >
        {drawn}
      </div>
    </div>
  );
}

const fontOf = (el: Element | null): string => {
  const style = getComputedStyle(el ?? document.body);
  return `${style.fontSize} ${style.fontFamily}`;
};

/** The rows in view decide how wide a column is that the reader asks to fit. */
function fitNow(name: string, rows: TableRows, first: number, end: number, host: Element | null): number {
  const runs = [];
  for (let i = first; i < end; i++) {
    const line = rows.at(i);
    if (!line.group && line.run) runs.push(line.run);
  }
  return fitting(name, runs, fontOf(host));
}

/** Widths by the rows that were read first: they do not move while more are read. */
function useFit({ rows, columns, of, show, by }: Props, host: { current: HTMLDivElement | null }) {
  const names = columns.map((c) => `${c.name} ${bestWay(c.name)}`).join("\u0000");
  const some = rows.runs.length > 0;
  const groups = by.length > 0 && rows.total > 0 ? `${by} ${show} ${of}` : "";
  return useMemo(() => {
    const known = new Map<string, number>();
    const font = fontOf(host.current);
    const { runs, figures } = sampled(rows, of, show);
    const widthOf = (name: string): number => {
      const px = known.get(name) ?? fitting(name, runs, font, figures.get(name));
      known.set(name, px);
      return px;
    };
    const texts = new Set(
      columns.filter((c) => runs.some((r) => !isNumber(cellOf(r, c.name) ?? 0))).map((c) => c.name),
    );
    return { widthOf, numeric: (name: string) => !texts.has(name) };
  }, [names, some, groups, rows.runs[0]?.project]);
}

const looked = 300; // rows that decide how wide a column is

/** The columns that some group has a value of, and their places. */
function figuredOf(groups: readonly RunGroup[], of: readonly string[]): ReadonlyMap<string, number> {
  const has = (at: number) => groups.some(({ columns: { [at]: s } }) => s && s.n + (s.not_finite ?? 0) > 0);
  return new Map([...of.entries()].filter(([at]) => has(at)).map(([at, name]) => [name, at]));
}

/** The runs and the texts of groups among the first rows. */
function sampled(rows: TableRows, of: readonly string[], show: Show) {
  const figures = new Map<string, string[]>(of.map((name) => [name, []]));
  for (let i = 0; i < Math.min(rows.total, looked); i++) {
    const { group } = rows.at(i);
    of.forEach((name, at) => {
      const s = group?.columns[at];
      if (s) figures.get(name)!.push(figureText(s, show));
    });
  }
  return { runs: rows.runs.slice(0, looked), figures };
}

/** Groups whose runs are selected: they are read when they are chosen. */
function useGroupChoice({ runsOf }: Props) {
  const of = useSignal<ReadonlyMap<string, string[]>>(new Map());
  const has = (group: RunGroup): boolean => {
    const ids = of.value.get(group.member ?? "");
    return !!ids?.length && ids.every((id) => selected.value.has(id));
  };
  const toggle = async (group: RunGroup) => {
    const ids = await runsOf(group);
    const next = new Set(selected.value);
    const on = !ids.every((id) => next.has(id));
    for (const id of ids) on ? next.add(id) : next.delete(id);
    of.value = new Map([...of.value, [group.member ?? "", ids]]);
    select(next);
  };
  return { has, toggle };
}

/** Selects a row, a range up to it, or all runs of a group. */
function useFlip({ rows }: Props, group: (group: RunGroup) => void) {
  const last = useRef<number | null>(null); // row that a range begins at
  const now = useRef({ rows, group });
  now.current = { rows, group };
  return useMemo(
    () => (row: number, range: boolean) => {
      const { rows } = now.current;
      const line = rows.at(row);
      if (line.group) return now.current.group(line.group);
      if (!line.run) return;
      const next = new Set(selected.value);
      const on = !next.has(line.run.id);
      const from = range && last.current !== null ? last.current : row;
      for (let i = Math.min(from, row); i <= Math.max(from, row); i++) {
        const between = rows.at(i);
        if (between.group || !between.run) continue;
        if (on) next.add(between.run.id);
        else next.delete(between.run.id);
      }
      last.current = row;
      select(next);
    },
    [],
  );
}

interface Keys extends Props {
  at: Signal<number>;
  flip: (row: number, range: boolean) => void;
  host: { current: HTMLDivElement | null };
}

function useTableKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const move = (by: number) => {
      const { at, rows, host } = now.current;
      at.value = Math.max(0, Math.min(rows.total - 1, at.value + by));
      const el = host.current!;
      const y = at.value * rowHeight;
      if (y < el.scrollTop) el.scrollTop = y;
      if (y + rowHeight + headHeight > el.scrollTop + el.clientHeight)
        el.scrollTop = y + rowHeight + headHeight - el.clientHeight;
    };
    const here = (): Line | null => {
      const { at, rows } = now.current;
      return at.value >= 0 && at.value < rows.total ? rows.at(at.value) : null;
    };
    const fold = (open: boolean) => () => {
      const line = here();
      if (line?.group && line.open !== open) now.current.unfold(line.group);
    };
    return bind({
      j: () => move(1),
      k: () => move(-1),
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      ArrowRight: fold(true),
      ArrowLeft: fold(false),
      x: () => here() && now.current.flip(now.current.at.value, false),
      X: () => here() && now.current.flip(now.current.at.value, true),
      Enter: (e) => {
        const target = e.target as HTMLElement;
        if (target.closest?.("button, a")) return target.click();
        const line = here();
        if (line?.group) now.current.unfold(line.group);
        else if (selected.value.size) now.current.open([]);
        else if (line?.run) now.current.open([line.run.id]);
      },
    });
  }, []);
}
