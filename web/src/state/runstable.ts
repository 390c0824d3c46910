import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { chosenColumns } from "./columnchoice.ts";
import {
  aggregateOf,
  askedColumns,
  bestWay,
  type Column,
  type Named,
  ownColumns,
  parseColumns,
  serverColumn,
} from "./columns.ts";
import { escapeName, unescapeName } from "./escape.ts";
import { param, setParams } from "./route.ts";
import { RunGroups, Unfolded } from "./rungroups.ts";
import { columnsOf, defaultColumns, type ListQuery, RunList } from "./runlist.ts";
import { flatRows, groupedRows, type Show, type TableRows } from "./tablerows.ts";

const settleMs = 120; // of typing

/** The keys that rows are grouped by. */
const groupKeys = (): string[] => param("group").split(",").filter(Boolean).map(unescapeName);
export const setGroupKeys = (by: string[]): void =>
  setParams({ group: by.map(escapeName).join(","), open: "" });

const statistic = (): Show =>
  param("stat") === "min" || param("stat") === "max" ? (param("stat") as Show) : "mean";

/** Runs whose points at a step a group's statistics may read: of more it takes seconds. */
const mostAtStep = 5000;

/** The columns whose values the server adds up. Of a parameter only the server knows whether some run has a number. */
function numberColumns(columns: readonly Column[], total: number): string[] {
  return columns
    .map((c) => c.name)
    .filter((name) => {
      const of = aggregateOf(name)?.of;
      return of !== "spark" && (of !== "at" || total <= mostAtStep) && serverColumn(name) !== "";
    });
}

/** The groups' order that a column's order means. */
function groupSort(sort: string, of: readonly string[], show: Show): string {
  const sign = sort.startsWith("-") ? "-" : "";
  const name = sort.slice(sign.length);
  const at = of.map(serverColumn).indexOf(serverColumn(name) || name);
  if (at >= 0) return `${sign}${show}:${at}`;
  return sort === "name" || sort === "-name" ? `${sign}key` : "-runs";
}

/** All that the table of a project's runs shows: its runs, groups, columns and figures. */
export function useRunsTable(workspace: string, project: string, asked: ListQuery) {
  const model = useMemo(
    () => ({
      list: new RunList(workspace, project),
      all: new RunGroups(workspace, project),
      groups: new RunGroups(workspace, project),
      unfolded: new Unfolded(workspace, project),
      /** The most runs that a question found: a filter that is being typed must not take the names away. */
      widest: { runs: [] as readonly Run[] },
      /** The columns of the runs that were found last. */
      last: { known: [] as Named[] },
    }),
    [workspace, project],
  );
  const { list, all, groups, unfolded } = model;
  useEffect(
    () => () => {
      for (const part of [model.list, model.all, model.groups, model.unfolded]) part.close();
    },
    [model],
  );

  const runs = list.runs.value;
  if (runs.length >= model.widest.runs.length) model.widest.runs = runs;
  const here = useComputed(() => columnsOf(list.runs.value)).value;
  if (here.length) model.last.known = here;
  const { known } = model.last;
  const chosen = chosenColumns.value;
  const columns = useMemo<Column[]>(
    () => (chosen ? parseColumns(chosen) : [...ownColumns, ...defaultColumns(known)].map(asDefault)),
    [chosen, known],
  );
  const by = groupKeys();
  const show = statistic();
  const query: ListQuery = { ...asked, columns: askedColumns(columns, list.cut.value) };
  const ways = columns.map((c) => c.name).filter(bestWay);
  const numbers = numberColumns(columns, all.result.value?.runs ?? Number.POSITIVE_INFINITY).filter(
    (name) => !by.includes(name),
  );
  const open = param("open");
  useEffect(() => unfolded.show(open), [unfolded, open]);
  const columnsOfAll = ways.map(serverColumn);
  const filter = JSON.stringify([query, workspace, project]);
  const begun = runs.length > 0 || list.next.value === "";

  const ask = () => {
    list.ask(query);
    unfolded.ask(query);
  };
  const count = () => {
    void all.ask(query, [], columnsOfAll, "");
    if (by.length)
      void groups.ask(query, by, numbers.map(serverColumn), groupSort(query.sort, numbers, show));
  };
  const latest = useRef({ ask, count });
  latest.current = { ask, count };
  useSettled(filter, () => latest.current.ask(), !begun);
  const figures = JSON.stringify([filter, by, numbers, columnsOfAll, by.length ? show : ""]);
  useSettled(begun ? figures : "", () => latest.current.count(), false);

  const best = useMemo(() => {
    const of = new Map<string, string>();
    for (const name of ways) {
      const s = all.of(serverColumn(name));
      const run = bestWay(name) === "up" ? s?.max_run : s?.min_run;
      if (run) of.set(name, run.id);
    }
    return of;
  }, [all.result.value, ways.join("\u0000"), ways.map(bestWay).join()]);

  const total =
    list.next.value === "" ? runs.length : Math.max(runs.length, all.result.value?.runs ?? runs.length);
  const shown = groups.result.value?.shown;
  const lists = unfolded.lists.value;
  const read = [...lists.values()].map((l) => l.runs.value);
  const grouped = by.length > 0;
  const rows = useMemo<TableRows>(
    () => (grouped ? groupedRows(shown ?? [], lists, (l) => l.runs.value) : flatRows(list, runs, total)),
    [grouped, shown, lists, runs, total, ...read],
  );
  const anew = () => {
    latest.current.ask();
    latest.current.count();
  };
  return { ...model, runs, known, columns, by, show, numbers, best, total, rows, anew, query, count };
}

/** A column that nobody has chosen; the name stays in view. */
const asDefault = (name: string): Column => (name === "name" ? { name, pinned: true } : { name });

/** Does something when a text has stopped to change. */
function useSettled(text: string, act: () => void, atOnce: boolean): void {
  useEffect(() => {
    if (!text) return;
    const timer = setTimeout(act, atOnce ? 0 : settleMs);
    return () => clearTimeout(timer);
  }, [text]);
}
