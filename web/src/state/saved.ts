import { computed, signal } from "@preact/signals";
import * as api from "../api/view.ts";
import { say } from "./app.ts";
import { chosenColumns } from "./columnchoice.ts";
import { chosenWays } from "./directionchoice.ts";
import { address, comparePath, go, param, replace, route, runsPath, withParams } from "./route.ts";
import { addressOf, idsIn, selected } from "./selection.ts";
import { arrangement, isPage, override, viewName } from "./space.ts";
import { done } from "./undo.ts";

/**
 * Saved views of a project's page: the parameters of its address, and where its charts are. The table and the charts
 * name some parameters differently; a view has the names of the charts.
 */
export interface Place {
  workspace: string;
  project: string;
}

interface Saved extends Place {
  name: string;
  etag: string;
  doc: api.ViewDocument;
}

/** The view that the address names, once it was read. */
export const open = signal<Saved | null>(null);
export const views = signal<api.ViewInfo[]>([]);

const tableTab = "runs";
/** Names in the table's address, and what a view calls them. */
const names: Record<string, string> = { q: "filter", sel: "runs", find: "q" };
const back = Object.fromEntries(Object.entries(names).map(([a, b]) => [b, a]));
const left = ["view", "chart", "trash"]; // not of a view

export type Params = Record<string, string>;

/** The parameters of the address as a view has them. */
export function paramsOf(page: "runs" | "compare", from: URLSearchParams, chosen: string[]): Params {
  const out: Params = {};
  for (const [name, value] of from)
    if (value && value !== "many" && !left.includes(name))
      out[page === "runs" ? (names[name] ?? name) : name] = value;
  if (page === "runs") out.tab = tableTab;
  if (chosen.length) out.runs = chosen.join(",");
  return sortedBy(out);
}

const sortedBy = (p: Params): Params =>
  Object.fromEntries(Object.entries(p).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Where parameters of a view lead: the table, or the charts. */
export function pathOf(at: Place, params: Params, view = ""): [string, unknown] {
  const table = params.tab === tableTab;
  const to = new URLSearchParams();
  let state: unknown = null;
  for (const [name, value] of Object.entries(params)) {
    if (typeof value !== "string" || left.includes(name) || (table && name === "tab")) continue;
    const key = table ? (back[name] ?? name) : name;
    if (name !== "runs") to.set(key, value);
    else {
      const [text, kept] = addressOf(value.split(",").filter(Boolean));
      if (text) to.set(key, text);
      state = kept;
    }
  }
  if (view) to.set("view", view);
  const path = (table ? runsPath : comparePath)(at.workspace, at.project);
  return [withParams(path, to), state];
}

const here = computed<Params>(() => {
  const { page } = route.value;
  if (page !== "runs" && page !== "compare") return {};
  const shown = new URLSearchParams(address.value.params);
  shown.set("best", chosenWays.value); // what this browser keeps is not in the address
  if (page === "compare") return paramsOf(page, shown, idsIn("runs"));
  shown.set("cols", chosenColumns.value);
  return paramsOf(page, shown, [...selected.value]);
});

/** The same project on another tab, with the filter, the selection and all else. */
export function pathTo(at: Place, tab: string): [string, unknown] {
  return pathOf(at, { ...here.value, tab }, param("view"));
}

const arranged = (page: api.PageSpec | undefined) => {
  const { pinned = [], sections = [], order = [], folded = [] } = page ?? {};
  return JSON.stringify([pinned, sections, order, folded]);
};

/** Without the tab: a look at another one is no change. */
const compared = (p: Params = {}): string => JSON.stringify(sortedBy({ ...p, tab: "" }));

export const changed = computed(() => {
  const view = open.value;
  if (!view || view.name !== param("view")) return false;
  return (
    compared(here.value) !== compared(view.doc.page?.params) ||
    arranged(override.value?.page) !== arranged(view.doc.page)
  );
});

export async function listViews(at: Place): Promise<void> {
  views.value = (await api.views(at.workspace, at.project)).filter(
    (v) => v.panels === 0 && v.name !== viewName,
  );
}

function show(at: Place, name: string, { doc, etag }: api.Tagged): void {
  if (!isPage(doc.page)) throw new Error(`the view ${name} is one of panels`);
  open.value = { ...at, name, doc, etag };
  const draft = drafts.get(name);
  override.value = { name, page: draft ?? doc.page };
}

/** Arrangements that were changed and not stored, while this tab lives. */
const drafts = {
  get(name: string): api.PageSpec | undefined {
    try {
      const page = JSON.parse(sessionStorage.getItem(draftName(name)) ?? "null");
      return isPage(page) ? page : undefined;
    } catch {
      return undefined; // not ours
    }
  },
  keep(): void {
    const over = override.peek();
    const view = open.peek();
    if (!over || over.name !== view?.name) return;
    if (arranged(over.page) === arranged(view.doc.page)) sessionStorage.removeItem(draftName(over.name));
    else sessionStorage.setItem(draftName(over.name), JSON.stringify(over.page));
  },
};
const draftName = (name: string): string =>
  `kymogram.draft.${location.pathname.split("/").slice(2, 4).join("/")}/${name}`;
override.subscribe(() => drafts.keep());

/** Reads the view that the address names. An address with nothing else shows what the view has. */
export async function openView(at: Place, name: string): Promise<void> {
  const known = open.peek();
  const isKnown = known?.name === name && known.project === at.project && known.workspace === at.workspace;
  if (!isKnown) show(at, name, await api.taggedView(at.workspace, at.project, name));
  const { params } = address.peek();
  if ([...params.keys()].every((key) => key === "view") && param("view") === name) reset();
}

/** What was stored, without what was changed since. */
export function reset(): void {
  const view = open.peek()!;
  override.value = { name: view.name, page: view.doc.page! };
  replace(...pathOf(view, view.doc.page?.params ?? {}, view.name));
}

/** The page as it is, as a view has it; fields of newer versions stay. */
function current(of: api.PageSpec | undefined): api.PageSpec {
  const { pinned, sections, order, folded } = arrangement.peek();
  const parts = Object.entries({ pinned, sections, order, folded }).filter(([, v]) => v !== undefined);
  return { ...of, params: here.peek(), ...Object.fromEntries(parts) };
}

/** Stores the view that is open as it is shown. */
export async function save(): Promise<void> {
  const view = open.peek()!;
  await store(view, { ...view.doc, page: current(view.doc.page) }, "saved");
}

export async function rename(title: string): Promise<void> {
  const view = open.peek()!;
  await store(view, { ...view.doc, title }, "renamed");
}

async function store(view: Saved, doc: api.ViewDocument, what: string): Promise<void> {
  try {
    const etag = await api.putView(view.workspace, view.project, view.name, doc, view.etag);
    open.value = { ...view, doc, etag };
    if (what === "saved") override.value = { name: view.name, page: doc.page! };
    say(`${doc.title} ${what}`);
    await listViews(view);
  } catch (cause) {
    if (!api.isConflict(cause)) throw cause;
    const theirs = await api.taggedView(view.workspace, view.project, view.name).catch((why) => {
      if (!api.isMissing(why)) throw why;
      return null;
    });
    open.value = { ...view, ...(theirs ?? { etag: "" }) };
    const next = theirs
      ? "changed by somebody else. Save again to replace it, or reset to see it."
      : "deleted by somebody else. Save again to store it anew.";
    say(`${view.doc.title} was ${next}`, true);
  }
}

/** A name for the address, from what people read. */
function slug(title: string): string {
  const text = title
    .normalize("NFKD")
    .replace(/[^a-zA-Z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .toLowerCase()
    .slice(0, 80);
  return text || "view";
}

const mostNames = 100;

/** Stores what is shown under a new name, and opens it. */
export async function saveAs(at: Place, title: string): Promise<void> {
  const doc: api.ViewDocument = { format: 1, title, page: current(undefined) };
  for (let n = 1; n <= mostNames; n++) {
    const name = n === 1 ? slug(title) : `${slug(title)}-${n}`;
    if (name === viewName) continue; // the arrangement of the project would be taken for a view, and back
    try {
      const etag = await api.putView(at.workspace, at.project, name, doc, "");
      show(at, name, { doc, etag });
      replace(...pathOf(at, doc.page!.params!, name));
      say(`${title} saved: the address is its link`);
      return await listViews(at);
    } catch (cause) {
      if (!api.isConflict(cause)) throw cause; // the name is taken
    }
  }
  throw new Error(`${mostNames} views have the name ${slug(title)}`);
}

export async function remove(at: Place, name: string): Promise<void> {
  const { doc, etag } = await api.taggedView(at.workspace, at.project, name);
  await api.deleteView(at.workspace, at.project, name, etag);
  if (param("view") === name) leave();
  await listViews(at);
  done(`view ${doc.title} deleted`, () => {
    api
      .putView(at.workspace, at.project, name, doc, "")
      .then(() => listViews(at))
      .catch((cause) => say(`the view is not back: ${(cause as Error).message}`, true));
  });
}

/** The page as it is, without the view. */
export function leave(): void {
  const params = new URLSearchParams(location.search);
  params.delete("view");
  open.value = null;
  override.value = null;
  go(withParams(location.pathname, params), history.state);
}
