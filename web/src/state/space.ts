import { computed, signal } from "@preact/signals";
import * as api from "../api/view.ts";
import { say } from "./app.ts";
import { type Arrangement, merge } from "./arrangement.ts";
import { param } from "./route.ts";
import { done, forget } from "./undo.ts";

/**
 * The arrangement of a project's charts. It is a view document of the project, so that it holds for all runs and
 * readers. Two readers who change it at once keep both changes. A reader who may not write has a copy in the browser.
 */
export const viewName = "project-charts";
const title = "Charts of the project";
const mostTries = 8; // of readers who write at the same moment

interface Shared {
  workspace: string;
  project: string;
  /** What is shown, and what the server has under its etag. */
  page: api.PageSpec;
  stored: api.PageSpec;
  etag: string;
  /** The reader may not write: what is shown is this browser's. */
  own: boolean;
}

const shared = signal<Shared | null>(null);
let saving = false;

/** An open view of a project has an arrangement of its own. */
export const override = signal<{ name: string; page: Arrangement } | null>(null);

const overridden = computed(() =>
  override.value && override.value.name === param("view") ? override.value : null,
);
export const arrangement = computed<Arrangement>(() => overridden.value?.page ?? shared.value?.page ?? {});
export const folded = computed<ReadonlySet<string>>(() => new Set(arrangement.value.folded ?? []));
/** Whether pins and order are kept in this browser alone. */
export const isOwn = computed(() => !overridden.value && !!shared.value?.own);

const keyOf = (workspace: string, project: string): string => `kymogram.charts.${workspace}/${project}`;

/** Reads the arrangement of a project: first what this browser knows of it, then what the server has. */
export async function openSpace(workspace: string, project: string): Promise<void> {
  const now = shared.peek();
  if (now?.workspace !== workspace || now.project !== project) {
    forget();
    shared.value = { ...remembered(workspace, project), workspace, project };
  }
  await refresh().catch(() => {}); // what this browser knows is shown
}

function remembered(workspace: string, project: string): Omit<Shared, "workspace" | "project"> {
  const empty = { page: {}, stored: {}, etag: "", own: false };
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(workspace, project)) ?? "{}");
    return { ...empty, ...(isPage(kept.page) && isPage(kept.stored) ? kept : {}) };
  } catch {
    return empty; // not ours
  }
}

/** Whether lists are lists: what is kept in a browser may be of anybody, and newer versions may store other things. */
export function isPage(page: unknown): page is api.PageSpec {
  if (!page || typeof page !== "object") return false;
  const { pinned = [], order = [], folded = [], sections = [] } = page as api.PageSpec;
  const texts = (list: unknown) => Array.isArray(list) && list.every((t) => typeof t === "string");
  const isSection = (s: api.Section) => !!s && typeof s.title === "string" && texts(s.metrics ?? []);
  return [pinned, order, folded].every(texts) && Array.isArray(sections) && sections.every(isSection);
}

function update(change: Partial<Shared>): void {
  const next = { ...shared.peek()!, ...change };
  shared.value = next;
  const { workspace, project, ...kept } = next;
  try {
    localStorage.setItem(keyOf(workspace, project), JSON.stringify(kept));
  } catch {} // full: the server has it
}

const isDirty = (s: Shared): boolean => JSON.stringify(s.page) !== JSON.stringify(s.stored);

/** The project is still the one that is shown: another may have been opened while the server was asked. */
function isShown({ workspace, project }: Shared): boolean {
  const here = shared.peek()!;
  return here.project === project && here.workspace === workspace;
}

async function refresh(): Promise<void> {
  const before = shared.peek()!;
  const list = await api.views(before.workspace, before.project, true);
  const there = list.find((v) => v.name === viewName);
  if (!isShown(before) || (there?.etag ?? "") === shared.peek()!.etag) return;
  await take(before);
}

/** Takes what the server has, and puts what was changed here on top of it. */
async function take(before: Shared): Promise<void> {
  const { workspace, project } = before;
  const { page, etag, foreign } = await stored(workspace, project);
  if (!isShown(before)) return;
  const here = shared.peek()!;
  const own = here.own || foreign; // somebody's dashboard has the name
  update({ stored: page, etag, own, page: own ? here.page : merge(here.stored, here.page, page) });
}

interface Stored {
  page: api.PageSpec;
  etag: string;
  foreign: boolean;
}

async function stored(workspace: string, project: string): Promise<Stored> {
  try {
    const { doc, etag } = await api.taggedView(workspace, project, viewName);
    const ours = isPage(doc.page);
    return { page: ours ? doc.page! : {}, etag, foreign: !ours };
  } catch (cause) {
    if (api.isMissing(cause)) return { page: {}, etag: "", foreign: false };
    throw cause;
  }
}

/** Changes the arrangement that is shown, and offers to take it back. */
export function change(text: string, by: (now: Arrangement) => Arrangement, quiet = false): void {
  const before = arrangement.peek();
  const after = by(before);
  const view = overridden.peek()?.name;
  set(after);
  const takeBack = () => {
    // What others changed since stays.
    if (view === overridden.peek()?.name) set(merge(after, before, arrangement.peek()));
    else say("that was changed in another view: open it to take it back", true);
  };
  done(text, takeBack, quiet);
}

function set(page: Arrangement): void {
  const over = overridden.peek();
  if (over) {
    override.value = { ...over, page };
    return;
  }
  if (!shared.peek()) return;
  update({ page });
  if (saving) return; // it goes on until all is stored
  saving = true;
  void save().finally(() => {
    saving = false;
  });
}

async function save(): Promise<void> {
  let tries = 0;
  for (let s = shared.peek()!; isDirty(s) && !s.own; s = shared.peek()!) {
    const { workspace, project, page } = s;
    try {
      const etag = await api.putView(workspace, project, viewName, { format: 1, title, page }, s.etag);
      if (isShown(s)) update({ stored: page, etag });
      tries = 0;
    } catch (cause) {
      if (!isShown(s)) continue; // this browser keeps the change, and the next one there stores both
      if (api.isForbidden(cause)) update({ own: true });
      else if (api.isConflict(cause) && ++tries < mostTries) {
        await take(s);
        say("somebody else changed the charts at the same time: both changes are kept");
      } else {
        say(`not stored yet: ${(cause as Error).message}. The next change tries again.`, true);
        return;
      }
    }
  }
}

/** Gives up the copy of this browser for what the server has. */
export function dropOwn(): void {
  const { stored } = shared.peek()!;
  update({ page: stored, own: false });
}
