import { computed, signal } from "@preact/signals";

/** The address is the state: every view is a link. */
export const address = signal(read());

function read(): { path: string; params: URLSearchParams } {
  return { path: location.pathname, params: new URLSearchParams(location.search) };
}

export type Route =
  | { page: "home" }
  | { page: "login" }
  | { page: "runs"; workspace: string; project: string }
  | { page: "run"; id: string }
  | { page: "kymograph"; id: string }
  | { page: "compare"; workspace: string; project: string }
  | { page: "network"; workspace: string; project: string }
  | { page: "view"; workspace: string; project: string; name: string }
  | { page: "named"; workspace: string; project: string; name: string }
  | { page: "lost"; path: string };

export const route = computed<Route>(() => parse(address.value.path));

/** The first parts of addresses of our own. */
const own = ["projects", "compare", "network", "p", "runs", "login", "api", "assets"];

export function parse(path: string): Route {
  const [, head, ...rest] = path.split("/").map(decode);
  if (!head) return { page: "home" };
  // A run as W&B's SDK prints it: ENTITY/PROJECT/runs/ID, also with a tab of W&B's behind it.
  if (rest[0] && rest[1] === "runs" && rest[2] && head !== "p")
    return { page: "named", workspace: head, project: rest[0], name: rest[2] };
  if (head === "login") return { page: "login" };
  if (head === "projects" && rest[0] && rest[1])
    return { page: "runs", workspace: rest[0], project: rest[1] };
  if (head === "compare" && rest[0] && rest[1])
    return { page: "compare", workspace: rest[0], project: rest[1] };
  if (head === "network" && rest[0] && rest[1])
    return { page: "network", workspace: rest[0], project: rest[1] };
  if (head === "p" && rest[0] && rest[1] && rest[2] === "views")
    return { page: "view", workspace: rest[0], project: rest[1], name: rest[3] ?? "" };
  if (head === "runs" && rest[0] && rest[1] === "kymograph") return { page: "kymograph", id: rest[0] };
  if (head === "runs" && rest[0]) return { page: "run", id: rest[0] };
  // A project of W&B: ENTITY/PROJECT, with or without a tab.
  const tabs = [undefined, "", "runs", "workspace", "table", "overview", "sweeps", "artifacts"];
  if (rest[0] && tabs.includes(rest[1]) && !own.includes(head))
    return { page: "runs", workspace: head, project: rest[0] };
  return { page: "lost", path };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const runsPath = (workspace: string, project: string): string =>
  `/projects/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}`;

export const networkPath = (workspace: string, project: string): string =>
  `/network/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}`;

/** All runs of a project side by side, or some of them. */
export const comparePath = (workspace: string, project: string, ids: string[] = []): string =>
  `/compare/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}${ids.length ? `?runs=${ids.map(encodeURIComponent).join(",")}` : ""}`;

/** A view of a project; without a name the list of them. */
export const viewPath = (workspace: string, project: string, name = ""): string =>
  `/p/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}/views${name && `/${encodeURIComponent(name)}`}`;

export const runPath = (id: string, others: string[] = []): string =>
  `/runs/${encodeURIComponent(id)}${others.length ? `?with=${others.map(encodeURIComponent).join(",")}` : ""}`;

/** Opens another view; back returns to this one. State is what is too long for the address. */
export function go(to: string, state: unknown = null): void {
  edited = { name: "", atMs: 0 };
  history.pushState(state, "", to);
  address.value = read();
}

/** Goes to where this address leads; back does not return to it. */
export function replace(to: string, state: unknown = null): void {
  history.replaceState(state, "", to);
  address.value = read();
}

/** A path with parameters, as people read them: commas, colons and slashes need no escape in a query. */
export function withParams(path: string, params: URLSearchParams): string {
  const text = params.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
  return text ? `${path}?${text}` : path;
}

/** A parameter of this view; "" when it is not set. */
export function param(name: string): string {
  return address.value.params.get(name) ?? "";
}

/** What Back undoes: a search, a selection, runs drawn over another, a tab, full screen, a zoom; all of a kymograph. */
const undone = [
  ...["q", "sel", "with", "tab", "chart", "zoom"],
  ...["rows", "metric", "scale", "order", "reduce", "limits", "row", "bar", "height"],
];
const editMs = 1500; // what is typed or dragged without a longer pause is one step back
const flowing = ["q", "zoom"];
let edited = { name: "", atMs: 0 };

/** Whether a change is a step of its own, and not the next moment of the one before. */
function isStep(before: URLSearchParams, change: Record<string, string>): boolean {
  const changed = Object.keys(change).filter((name) => (before.get(name) ?? "") !== change[name]);
  const name = undone.find((n) => changed.includes(n)) ?? "";
  const goesOn = name === edited.name && Date.now() - edited.atMs < editMs && flowing.includes(name);
  const nextChart = name === "chart" && before.get("chart") && change.chart;
  edited = { name, atMs: Date.now() };
  return name !== "" && !goesOn && !nextChart;
}

/**
 * Changes this view; "" removes a parameter. A step that Back undoes gets an entry in the history, state is kept with
 * it: what is too long for the address.
 */
export function setParams(change: Record<string, string>, state: unknown = history.state): void {
  const params = new URLSearchParams(location.search);
  const step = isStep(params, change) || state !== history.state;
  for (const [name, value] of Object.entries(change)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  // A public link keeps its token in the fragment, so that the address can be passed on.
  const to = withParams(location.pathname, params) + location.hash;
  if (step) history.pushState(state, "", to);
  else history.replaceState(state, "", to);
  address.value = read();
}

/** Follows links inside the page and the browser's back and forward. */
export function listen(): void {
  addEventListener("popstate", () => {
    edited = { name: "", atMs: 0 };
    address.value = read();
  });
  document.addEventListener("click", (e) => {
    const link = (e.target as Element).closest?.("a[href^='/']");
    if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)
      return;
    e.preventDefault();
    go(link.getAttribute("href")!);
  });
}
