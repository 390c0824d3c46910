import { afterEach, describe, expect, test, vi } from "vitest";

/** A server of one project's views, with the conditions that docs/format/view.md has. */
function server() {
  const views = new Map<string, { text: string; etag: string }>();
  let etags = 0;
  const of = { writable: true, puts: 0, before: async (_put: number) => {} };
  const answer = (status: number, body: unknown, etag = "") =>
    new Response(status === 204 ? null : JSON.stringify(body), {
      status,
      headers: etag ? { ETag: `"${etag}"` } : {},
    });
  const failed = (status: number) =>
    answer(status, { error: { code: "c", message: `status ${status}`, hint: "" } });
  const fetch = async (url: string, init: RequestInit = {}) => {
    const [, name] = /\/views(?:\/(.+))?$/.exec(url)!;
    const known = name ? views.get(name) : undefined;
    if (!name)
      return answer(200, {
        views: [...views].map(([n, v]) => ({
          name: n,
          title: JSON.parse(v.text).title,
          panels: 0,
          etag: v.etag,
        })),
      });
    if (!init.method) return known ? answer(200, JSON.parse(known.text), known.etag) : failed(404);
    if (!of.writable) return failed(403);
    await of.before(++of.puts);
    const headers = new Headers(init.headers);
    const now = views.get(name);
    const match = headers.get("If-Match");
    if (match ? match !== `"${now?.etag}"` : headers.has("If-None-Match") && now) return failed(409);
    if (init.method === "DELETE") return views.delete(name) ? answer(204, null) : failed(404);
    const etag = `e${++etags}`;
    views.set(name, { text: String(init.body), etag });
    return answer(200, {}, etag);
  };
  return { ...of, of, views, fetch, page: (name: string) => JSON.parse(views.get(name)!.text).page };
}

const storage = () => {
  const kept = new Map<string, string>();
  return {
    getItem: (k: string) => kept.get(k) ?? null,
    setItem: (k: string, v: string) => void kept.set(k, v),
    removeItem: (k: string) => void kept.delete(k),
  };
};

/** A browser at an address; its modules are its own. */
async function reader(at: ReturnType<typeof server>, address = "/compare/w/p", local = storage()) {
  vi.resetModules();
  const url = new URL(address, "http://x");
  const move = (_: unknown, __: string, to: string) => {
    url.href = new URL(to, url).href;
  };
  vi.stubGlobal("location", url);
  vi.stubGlobal("history", { state: null, pushState: move, replaceState: move });
  vi.stubGlobal("localStorage", local);
  vi.stubGlobal("sessionStorage", storage());
  vi.stubGlobal("fetch", at.fetch);
  const space = await import("../../src/state/space.ts");
  const arrangement = await import("../../src/state/arrangement.ts");
  const undo = await import("../../src/state/undo.ts");
  const saved = await import("../../src/state/saved.ts");
  const app = await import("../../src/state/app.ts");
  const pin = (metric: string) => space.change("pinned", (now) => arrangement.togglePinned(now, metric));
  const pinned = () => space.arrangement.value.pinned ?? [];
  return { space, undo, saved, app, pin, pinned, url, local };
}

const place = { workspace: "w", project: "p" };
const name = "project-charts";
afterEach(() => vi.unstubAllGlobals());

describe("the arrangement of a project", () => {
  test("is the same for every reader, and a reader who was faster loses nothing", async () => {
    const at = server();
    const one = await reader(at);
    await one.space.openSpace("w", "p");
    one.pin("a");
    await vi.waitFor(() => expect(at.page(name)).toEqual({ pinned: ["a"] }));
    const two = await reader(at);
    await two.space.openSpace("w", "p");
    expect(two.pinned()).toEqual(["a"]);
    two.pin("b");
    await vi.waitFor(() => expect(at.page(name).pinned).toEqual(["a", "b"]));
    // The first has not seen this: its change comes on top of it.
    one.pin("c");
    await vi.waitFor(() => expect(at.page(name).pinned).toEqual(["a", "b", "c"]));
    expect(one.pinned()).toEqual(["a", "b", "c"]);
    expect(one.app.notice.value?.text).toContain("both changes are kept");
    // Taking back one's own pin leaves those of others.
    expect(one.undo.undo()).toBe(true);
    await vi.waitFor(() => expect(at.page(name).pinned).toEqual(["a", "b"]));
  });

  test("that changes while it is stored is stored again, with one request at a time", async () => {
    const at = server();
    const one = await reader(at);
    await one.space.openSpace("w", "p");
    let most = 0;
    let now = 0;
    at.of.before = async () => {
      most = Math.max(most, ++now);
      await new Promise((done) => setTimeout(done, 5));
      now--;
    };
    for (let i = 0; i < 20; i++) one.pin(`m${i}`);
    await vi.waitFor(() => expect(at.page(name).pinned).toHaveLength(20));
    expect(most).toBe(1);
    expect(at.of.puts).toBeLessThan(4);
  });

  test("of a key that may not write stays in the browser, and says so", async () => {
    const at = server();
    const writer = await reader(at);
    await writer.space.openSpace("w", "p");
    writer.pin("a");
    await vi.waitFor(() => expect(at.views.size).toBe(1));
    at.of.writable = false;
    const one = await reader(at);
    await one.space.openSpace("w", "p");
    one.pin("b");
    await vi.waitFor(() => expect(one.space.isOwn.value).toBe(true));
    expect([one.pinned(), at.page(name).pinned]).toEqual([["a", "b"], ["a"]]);
    const again = await reader(at, "/compare/w/p", one.local);
    await again.space.openSpace("w", "p");
    expect([again.pinned(), again.space.isOwn.value]).toEqual([["a", "b"], true]);
    again.space.dropOwn();
    expect([again.pinned(), again.space.isOwn.value]).toEqual([["a"], false]);
  });

  test("is stored also when another project's is on its way, and is not taken for that one's", async () => {
    for (const [workspace, project] of [
      ["w", "other"],
      ["other", "p"],
    ] as const) {
      const [at, other] = [server(), server()];
      const fetch: typeof at.fetch = (url, init) => (url.includes("other") ? other : at).fetch(url, init);
      const one = await reader({ ...at, fetch });
      await one.space.openSpace("w", "p");
      at.of.before = () => new Promise((done) => setTimeout(done, 20));
      one.pin("a");
      await one.space.openSpace(workspace, project);
      one.pin("b");
      await vi.waitFor(() => expect(other.views.has(name)).toBe(true));
      expect([at.page(name).pinned, other.page(name).pinned, one.pinned()]).toEqual([["a"], ["b"], ["b"]]);
      expect(one.app.notice.value?.text).toBe("pinned"); // nobody else changed anything
    }
  });

  test("leaves alone a dashboard that has its name", async () => {
    const at = server();
    at.views.set(name, { text: JSON.stringify({ format: 1, title: "t", panels: [{}] }), etag: "x" });
    const one = await reader(at);
    await one.space.openSpace("w", "p");
    one.pin("a");
    expect([one.pinned(), one.space.isOwn.value]).toEqual([["a"], true]);
    await new Promise((done) => setTimeout(done, 20));
    expect(JSON.parse(at.views.get(name)!.text).panels).toHaveLength(1);
  });

  test("is none where a browser has kept something else", async () => {
    const at = server();
    for (const text of [
      "{",
      "3",
      '{"page":{"pinned":3},"stored":{}}',
      '{"page":{"sections":[null]},"stored":{}}',
    ]) {
      const local = storage();
      local.setItem("kymogram.charts.w/p", text);
      const one = await reader(at, "/compare/w/p", local);
      await one.space.openSpace("w", "p");
      expect(one.space.arrangement.value).toEqual({});
    }
  });
});

describe("saved views", () => {
  test("have all of the address, and open as they were", async () => {
    const at = server();
    const one = await reader(
      at,
      "/projects/w/p?q=lr<0.1&sort=-created&cols=config/lr&sel=R1,R2&by=lr&find=loss",
    );
    await one.space.openSpace("w", "p");
    await one.saved.saveAs(place, "Mine – größer <b>");
    expect([...at.views.keys()]).toEqual(["mine-gro-er-b"]);
    expect(at.page("mine-gro-er-b").params).toEqual({
      ...{
        filter: "lr<0.1",
        sort: "-created",
        cols: "config/lr",
        runs: "R1,R2",
        by: "lr",
        q: "loss",
        tab: "runs",
      },
    });
    expect(one.saved.changed.value).toBe(false);
    const two = await reader(at, "/projects/w/p?view=mine-gro-er-b");
    await two.space.openSpace("w", "p");
    await two.saved.openView(place, "mine-gro-er-b");
    const open = Object.fromEntries(two.url.searchParams);
    expect(open).toEqual({
      ...{
        q: "lr<0.1",
        sort: "-created",
        cols: "config/lr",
        sel: "R1,R2",
        by: "lr",
        find: "loss",
        view: "mine-gro-er-b",
      },
    });
    expect(two.saved.changed.value).toBe(false);
    two.pin("m");
    expect([two.saved.changed.value, at.views.has(name)]).toEqual([true, false]);
    two.saved.reset();
    expect([two.saved.changed.value, two.pinned()]).toEqual([false, []]);
  });

  test("have the columns that a browser keeps, and not those of the browser that opens them", async () => {
    const at = server();
    const one = await reader(at, "/projects/w/p");
    const columns = await import("../../src/state/columnchoice.ts");
    one.local.setItem("kymogram.columns.w/p", "name,config/lr");
    columns.openColumns("w/p");
    await one.space.openSpace("w", "p");
    await one.saved.saveAs(place, "V");
    expect(at.page("v").params).toEqual({ cols: "name,config/lr", tab: "runs" });
    expect([one.url.searchParams.get("cols"), one.saved.changed.value]).toEqual(["name,config/lr", false]);
    // A view whose columns are the page's own.
    const doc = { format: 1, title: "W", page: { params: { tab: "runs" } } };
    at.views.set("w", { text: JSON.stringify(doc), etag: "x" });
    const two = await reader(at, "/projects/w/p?view=w", one.local);
    const theirs = await import("../../src/state/columnchoice.ts");
    theirs.openColumns("w/p");
    await two.space.openSpace("w", "p");
    await two.saved.openView(place, "w");
    expect([theirs.chosenColumns.value, two.saved.changed.value]).toEqual(["", false]);
    theirs.setColumns([{ name: "name" }]);
    expect(two.saved.changed.value).toBe(true);
  });

  test("keep fields of newer versions, and are not overwritten unseen", async () => {
    const at = server();
    const doc = { format: 1, title: "V", page: { params: { by: "lr", newer: "1" }, newer: [1] } };
    at.views.set("v", { text: JSON.stringify(doc), etag: "x" });
    const one = await reader(at, "/compare/w/p?view=v");
    await one.space.openSpace("w", "p");
    await one.saved.openView(place, "v");
    one.pin("a");
    await one.saved.save();
    expect(at.page("v")).toEqual({ params: { by: "lr", newer: "1" }, newer: [1], pinned: ["a"] });
    at.views.set("v", { text: JSON.stringify({ ...doc, title: "W" }), etag: "y" });
    one.pin("b");
    await one.saved.save();
    expect(at.page("v").pinned).toBeUndefined();
    expect(one.app.notice.value).toMatchObject({ bad: true });
    expect(one.saved.changed.value).toBe(true);
    await one.saved.save(); // now it was seen
    expect(at.page("v").pinned).toEqual(["a", "b"]);
  });

  test("are stored anew when somebody deleted them, once that was seen", async () => {
    const at = server();
    const one = await reader(at, "/compare/w/p?by=lr");
    await one.space.openSpace("w", "p");
    await one.saved.saveAs(place, "V");
    at.views.delete("v");
    one.pin("a");
    await one.saved.save();
    expect([at.views.has("v"), one.app.notice.value?.text]).toEqual([
      false,
      "V was deleted by somebody else. Save again to store it anew.",
    ]);
    await one.saved.save();
    expect(at.page("v").pinned).toEqual(["a"]);
  });

  test("do not take the name under which the project keeps its charts", async () => {
    const at = server();
    const one = await reader(at, "/compare/w/p?by=lr");
    await one.space.openSpace("w", "p");
    await one.saved.saveAs(place, "Project charts");
    expect([...at.views.keys()]).toEqual([`${name}-2`]);
    one.saved.leave();
    one.pin("a");
    await vi.waitFor(() => expect(at.page(name)).toEqual({ pinned: ["a"] }));
  });

  test("are deleted and come back", async () => {
    const at = server();
    const one = await reader(at, "/compare/w/p?by=lr");
    await one.space.openSpace("w", "p");
    await one.saved.saveAs(place, "V");
    await one.saved.saveAs(place, "V"); // the name is taken
    expect([...at.views.keys()]).toEqual(["v", "v-2"]);
    await one.saved.remove(place, "v");
    expect([...at.views.keys()]).toEqual(["v-2"]);
    one.undo.undo();
    await vi.waitFor(() => expect(at.page("v")).toEqual({ params: { by: "lr" } }));
  });

  test("have more runs than an address has room for", async () => {
    const at = server();
    const one = await reader(at, "/compare/w/p");
    const ids = Array.from({ length: 150 }, (_, i) => `R${i}`);
    const [path, state] = one.saved.pathOf(place, { tab: "runs", runs: ids.join() });
    expect([path, state]).toEqual(["/projects/w/p?sel=many", { sel: ids }]);
    expect(one.saved.paramsOf("runs", new URLSearchParams("sel=many"), ids).runs).toBe(ids.join());
    expect(one.saved.paramsOf("runs", new URLSearchParams("sel=many"), []).runs).toBeUndefined();
  });
});
