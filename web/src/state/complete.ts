/** Completion of the filter of runs: what may stand at the caret. */
export interface Completion {
  /** The characters that a choice replaces. */
  from: number;
  to: number;
  choices: { text: string; note: string }[];
}

const most = 10;
const statuses = ["running", "finished", "failed", "interrupted", "lost", "silent"];

export interface Known {
  config: string[];
  metrics: string[];
  tags: string[];
}

/** Choices for the word before the caret; null inside of quotes and where nothing fits. */
export function complete(line: string, caret: number, known: Known): Completion | null {
  const before = line.slice(0, caret);
  if ((before.replaceAll(/\\./g, "").match(/"/g) ?? []).length % 2 === 1) return null;
  const from = caret - (/[^\s()<>=!"]*$/.exec(before)?.[0].length ?? 0);
  const word = before.slice(from).toLowerCase();
  const to = caret + (/^[^\s()<>=!"]*/.exec(line.slice(caret))?.[0].length ?? 0);
  const compared = /(\w+)\s*(?:!=|<=|>=|=|<|>)\s*$/.exec(before.slice(0, from))?.[1];
  const aggregate = /(?:last|min|max|best|at)\(\s*$/.test(before.slice(0, from));
  const all = compared ? values(compared, known) : aggregate ? metrics(known, "") : names(known);
  const found = all.filter((c) => c.text.toLowerCase().includes(word) && c.text.toLowerCase() !== word);
  const begins = (text: string) => Number(!text.toLowerCase().startsWith(word));
  found.sort((a, b) => begins(a.text) - begins(b.text));
  if (found.length === 0 || (word === "" && !compared && !aggregate)) return null;
  return { from, to, choices: found.slice(0, most) };
}

function values(path: string, known: Known): Completion["choices"] {
  if (path === "status") return statuses.map((text) => ({ text, note: "status" }));
  if (path === "tag") return known.tags.map((t) => ({ text: quoted(t), note: "tag" }));
  return [];
}

function names(known: Known): Completion["choices"] {
  return [
    ...["name", "status", "tag", "created", "last"].map((text) => ({ text, note: "run" })),
    ...known.config.map((c) => ({ text: quoted(c), note: "config" })),
    ...metrics(known, "last value"),
    ...known.metrics.flatMap((m) =>
      ["min", "max"].map((of) => ({ text: `${of}(${quoted(m)})`, note: `${of}imum` })),
    ),
    ...["or", "not", "and"].map((text) => ({ text, note: "joins" })),
  ];
}

function metrics(known: Known, note: string): Completion["choices"] {
  return known.metrics.map((m) => ({ text: quoted(m), note }));
}

/** A name as the filter reads it: in quotes where it has spaces, operators, brackets or is a word of the filter. */
export function quoted(name: string): string {
  if (name && !/[\s"<>=!()\\]/.test(name) && !/^(or|and|not)$/i.test(name)) return name;
  return `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

export function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replaceAll(/\\(.)/g, "$1") : text;
}
