import type { Groups, Statistics } from "../api/table.ts";

const mostColumns = 100; // of one request, as the server's MaxColumns
const mostBytes = 32_000; // of their names, which are in an address

/** The columns of each request; the one that the groups are sorted by, as mean:3, is in each. */
export function pieces(columns: readonly string[], sort: string): { columns: string[]; sort: string }[] {
  const [, of = "", place = ""] = /^(.*:)(\d+)$/.exec(sort) ?? [];
  const lead = of ? [columns[Number(place)]!] : [];
  const order = of ? `${of}0` : sort;
  const out = [{ columns: [...lead], sort: order }];
  let bytes = 0;
  for (const column of new Set(columns)) {
    if (column === lead[0]) continue;
    const more = encodeURIComponent(column).length;
    const last = out.at(-1)!.columns;
    if (last.length < mostColumns && bytes + more <= mostBytes) last.push(column);
    else out.push({ columns: [...lead, column], sort: order });
    bytes = last === out.at(-1)!.columns ? bytes + more : more;
  }
  return out;
}

const none: Statistics = {
  n: 0,
  ...{ mean: null, std: null, min: null, max: null, min_run: null, max_run: null },
};

/** Answers to pieces as one. Runs may come and go between two of them: the first says which groups there are. */
export function joined(
  columns: readonly string[],
  parts: readonly { columns: string[]; answer: Groups }[],
): Groups {
  const [first] = parts;
  const found = parts.map(({ columns, answer }) => ({
    at: new Map(columns.map((c, i) => [c, i])),
    by: new Map(answer.shown.map((g) => [g.member, g.columns])),
  }));
  const places = columns.map((c) => found.find(({ at }) => at.has(c))!);
  const shown = first!.answer.shown.map((g) => ({
    ...g,
    columns: columns.map((c, i) => places[i]!.by.get(g.member)?.[places[i]!.at.get(c)!] ?? none),
  }));
  return { ...first!.answer, shown };
}
