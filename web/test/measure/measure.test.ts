import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { host, launch, open } from "../browser/host.ts";
import { ulid } from "../standin/data.ts";

/** Where the sets of docs/design/targets.md are: the stand-in's own, or what load.py logged into the server KYMOGRAM_SERVER. */
interface Sets {
  url: string;
  /** Paths of pages; null for a set that the server does not have. */
  a: string | null;
  b: string | null;
  c: string | null;
  c10: string | null;
  wide: Record<string, string | null>;
  crowd: { curves: string; table: string } | null;
  runs: string | null;
  close(): void;
}

// A = 50 runs × 20 metrics × 2,000 steps; B = 5,000 metrics × 100; C = 1 M points with a spike, 10 M the same;
// wide = runs of 10,000, 100,000 and 1,000,000 series; crowd = 2,000 runs of 50 metrics; runs = a project of 100,000 runs.
const server = process.env.KYMOGRAM_SERVER;

/** Addresses of a TensorBoard with the same points, by set: {"A":"http://127.0.0.1:…"}. */
const tensorboard = JSON.parse(process.env.TENSORBOARD ?? "{}") as Record<string, string>;

/** What a page calls a chart that is drawn, what it asks for data, and what one scrolls. */
interface Kind {
  drawn: string;
  card: string;
  data: string;
  scrolled: string;
}

const ours: Kind = {
  drawn: ".card[data-drawn] canvas",
  card: ".card",
  data: "/api/",
  scrolled: ".grid-scroll",
};
// Its charts tell nobody when their lines are there: a canvas without a spinner is as early as it can be.
const theirs: Kind = {
  drawn: "scalar-card:not(:has(mat-spinner)) line-chart canvas",
  card: "scalar-card",
  data: "/data/",
  scrolled: "metrics-main-view",
};

async function standinSets(): Promise<Sets> {
  const { url, close } = await host();
  const others = Array.from({ length: 49 }, (_, i) => ulid(`A/${i + 1}`)).join();
  const [a, b, c] = [`/runs/${ulid("A/0")}?with=${others}`, `/runs/${ulid("B")}`, `/runs/${ulid("C")}`];
  const none = { c10: null, wide: {}, crowd: null };
  return { url, a, b, c, ...none, runs: "/projects/default/huge", close };
}

async function serverSets(url: string): Promise<Sets> {
  const ids = async (project: string, name = ""): Promise<string[]> => {
    const answer = await fetch(`${url}/api/v1/projects/default/${project}/runs?limit=100&name=${name}`);
    return answer.ok ? ((await answer.json()) as { runs: { id: string }[] }).runs.map((r) => r.id) : [];
  };
  const [first, ...rest] = await ids("A");
  const one = async (project: string, name = "") => {
    const [id] = await ids(project, name);
    return id ? `/runs/${id}` : null;
  };
  return {
    url,
    a: first ? `/runs/${first}?with=${rest.join()}` : null,
    b: await one("B"),
    c: await one("C", "long-1m"),
    c10: await one("C", "long-10m"),
    wide: { "10,000": await one("K"), "100,000": await one("H"), "1,000,000": await one("M") },
    crowd: (await one("R"))
      ? { curves: "/compare/default/R?tab=charts", table: "/projects/default/R" }
      : null,
    runs: (await fetch(`${url}/api/v1/projects/scale/table/runs?limit=1`)).ok
      ? "/projects/scale/table"
      : null,
    close: () => {},
  };
}

let browser: Browser;
let at: Sets;
const lines: string[] = [];
const note = (what: string, value: string) => lines.push(`${what.padEnd(50)} ${value}`);

beforeAll(async () => {
  at = await (server ? serverSets(server) : standinSets());
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  at.close();
  console.log(`\n${lines.join("\n")}\n`);
});

interface Seen {
  at: Record<number, number>;
}

/** Watches the first moments at which 1 and n charts are drawn. */
async function watch(page: Page, kind = ours): Promise<void> {
  await page.addInitScript((drawn) => {
    const w = window as unknown as { seen: Seen };
    w.seen = { at: {} };
    const look = () => {
      const n = document.querySelectorAll(drawn).length;
      for (let k = 1; k <= n; k++) w.seen.at[k] ??= performance.now();
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, kind.drawn);
}

const seen = (page: Page) => page.evaluate(() => (window as unknown as { seen: Seen }).seen);

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  tdur?: number;
  args: { name?: string };
}

/**
 * The longest task of a page's main thread until it is asked for, in ms of processor time. On a machine that others use
 * too, the clock would also count how long the task waited for them.
 */
async function tasks(page: Page): Promise<() => Promise<number>> {
  const cdp = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  cdp.on("Tracing.dataCollected", (e) => events.push(...(e.value as unknown as TraceEvent[])));
  await cdp.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["toplevel"] },
  });
  return async () => {
    const complete = new Promise<unknown>((done) => cdp.once("Tracing.tracingComplete", done));
    await cdp.send("Tracing.end");
    await complete;
    await cdp.detach();
    const mains = new Set(
      events.filter((e) => e.ph === "M" && e.args.name === "CrRendererMain").map((e) => `${e.pid}/${e.tid}`),
    );
    const took = events.flatMap((e) =>
      e.ph === "X" && e.tdur !== undefined && mains.has(`${e.pid}/${e.tid}`) ? [e.tdur / 1000] : [],
    );
    if (took.length === 0) throw new Error("the trace has no task of a page");
    return Math.max(...took);
  };
}

/** Counts requests for data and the bytes of their answers on the wire. The beats of a stream are no answer that somebody waits for. */
async function wire(page: Page, kind = ours): Promise<{ api: number; requests: number; lastMs: number }> {
  const sum = { api: 0, requests: 0, lastMs: 0 };
  const [api, streams] = [new Set<string>(), new Set<string>()];
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  cdp.on("Network.responseReceived", (e) => {
    if (!e.response.url.includes(kind.data)) return;
    api.add(e.requestId);
    if (e.response.mimeType === "text/event-stream") streams.add(e.requestId);
    sum.requests++;
  });
  cdp.on("Network.dataReceived", (e) => {
    if (!api.has(e.requestId)) return;
    sum.api += e.encodedDataLength;
    if (!streams.has(e.requestId)) sum.lastMs = Date.now();
  });
  return sum;
}

const drawn = (page: Page, n: number, kind = ours) =>
  page.waitForFunction(([k, of]) => document.querySelectorAll(of).length >= k, [n, kind.drawn] as const);

async function firstCharts(
  name: string,
  path: string,
  charts: number,
  kind = ours,
  whole?: (page: Page) => Promise<unknown>,
): Promise<Page> {
  // Once to have the data made, as a store would have it.
  if (!server && kind === ours) {
    const warm = await open(browser);
    await warm.page.goto(at.url + path);
    await warm.page.waitForTimeout(4000);
    await warm.context.close();
  }
  const { page } = await open(browser);
  await watch(page, kind);
  const bytes = await wire(page, kind);
  const longest = await tasks(page);
  await page.goto(kind === ours ? at.url + path : path);
  await drawn(page, charts, kind);
  await whole?.(page);
  // On a slow machine most of the data comes long after the first lines.
  do await page.waitForTimeout(1500);
  while (Date.now() - bytes.lastMs < 1500);
  const s = await seen(page);
  const inView = await page.evaluate(
    (card) =>
      [...document.querySelectorAll(card)].filter((c) => c.getBoundingClientRect().bottom <= innerHeight)
        .length,
    kind.card,
  );
  note(`${name}: first chart`, `${Math.round(s.at[1]!)} ms`);
  note(`${name}: ${charts} charts`, `${Math.round(s.at[charts]!)} ms`);
  note(`${name}: longest task`, `${Math.round(await longest())} ms of processor time`);
  note(
    `${name}: data for the screen (wire)`,
    `${Math.round(bytes.api / 1000)} kB in ${bytes.requests} requests`,
  );
  note(`${name}: whole charts at 1440×900`, String(inView));
  return page;
}

/** From the end of a brush to the frame that shows the finer answer. */
async function zoomed(name: string, page: Page): Promise<void> {
  const box = (await page.locator(".card .u-over").first().boundingBox())!;
  await page.evaluate(() => {
    const w = window as unknown as { painted: Promise<number> };
    const card = document.querySelector<HTMLElement>(".card")!;
    const before = card.dataset.points;
    w.painted = new Promise((done) => {
      addEventListener("mouseup", () => {
        const start = performance.now();
        const look = () => {
          if (card.dataset.points !== before) requestAnimationFrame(() => done(performance.now() - start));
          else requestAnimationFrame(look);
        };
        look();
      });
    });
  });
  await page.mouse.move(box.x + 100, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 200, box.y + 60, { steps: 4 });
  await page.mouse.up();
  const ms = await page.evaluate(() => (window as unknown as { painted: Promise<number> }).painted);
  note(`${name}: zoom to painted`, `${Math.round(ms)} ms`);
}

/** Tells how much processor time the page's main thread has taken, in ms. */
async function clock(page: Page): Promise<() => Promise<number>> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return 1000 * metrics.find((m) => m.name === "TaskDuration")!.value;
  };
}

/** From a text in the search box to charts that all match it. */
async function searching(name: string, page: Page, text: string): Promise<void> {
  const busy = await clock(page);
  const before = await busy();
  const ms = await page.evaluate((q) => {
    const box = document.querySelector<HTMLInputElement>("input[aria-label='Search metrics']")!;
    const start = performance.now();
    box.value = q;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    const found = () => {
      const cards = [...document.querySelectorAll<HTMLElement>(".card[data-drawn]")];
      return cards.length >= 12 && cards.every((c) => new RegExp(q).test(c.dataset.metric!));
    };
    return new Promise<number>((done) => {
      const look = () => (found() ? done(performance.now() - start) : requestAnimationFrame(look));
      look();
    });
  }, text);
  const took = Math.round((await busy()) - before);
  note(`${name}: search of the page, 12 charts`, `${Math.round(ms)} ms, ${took} of processor time`);
}

/** Megabytes that scripts hold after a collection. */
async function heap(name: string, page: Page): Promise<void> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  note(`${name}: heap`, `${((await cdp.send("Runtime.getHeapUsage")).usedSize / 1e6).toFixed(0)} MB`);
}

/** Frames a second, and the main thread's milliseconds of processor time a frame, while the wheel turns for three seconds. */
async function scrolling(name: string, page: Page, selector = ours.scrolled): Promise<void> {
  const busy = await clock(page);
  await page.hover(selector, { position: { x: 400, y: 300 } });
  await page.evaluate(() => {
    const w = window as unknown as { frames: number; stop: boolean };
    w.frames = 0;
    w.stop = false;
    const count = () => {
      w.frames++;
      if (!w.stop) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  const top = () => page.evaluate((of) => document.querySelector(of)!.scrollTop, selector);
  const [start, from, before] = [Date.now(), await top(), await busy()];
  const turn = async (by: number) => {
    for (const begin = Date.now(); Date.now() - begin < 3000; await page.waitForTimeout(16))
      await page.mouse.wheel(0, by);
  };
  await turn(120);
  const frames = await page.evaluate(() => {
    const w = window as unknown as { frames: number; stop: boolean };
    w.stop = true;
    return w.frames;
  });
  const seconds = (Date.now() - start) / 1000;
  const each = ((await busy()) - before) / frames;
  const moved = Math.round(((await top()) - from) / frames);
  note(
    `${name}: scroll`,
    `${(frames / seconds).toFixed(0)} fps, ${each.toFixed(1)} ms of processor time a frame${moved ? ` of ${moved} px` : "; its place is not known"}`,
  );
  // A trace takes time of the frames: the way back is only looked at for its tasks.
  const longest = await tasks(page);
  await turn(-120);
  note(`${name}: longest task while scrolling`, `${Math.round(await longest())} ms of processor time`);
}

test("size", () => {
  const dist = join(import.meta.dirname, "../../dist");
  // What a run's page loads: the other pages come when somebody goes there.
  const parts = readdirSync(join(dist, "assets")).filter(
    (f) => !/^(compare|kymograph|network|view)-/.test(f),
  );
  const files = ["index.html", "icon.svg", ...parts.map((f) => `assets/${f}`)];
  const bytes = files.reduce((n, f) => n + gzipSync(readFileSync(join(dist, f)), { level: 9 }).length, 0);
  note("page of a run on the wire (gzip)", `${(bytes / 1000).toFixed(1)} kB`);
  expect(bytes).toBeLessThan(150_000);
});

test("A: fifty runs over one another", async (t) => {
  if (!at.a) return t.skip("the server has no set A");
  const page = await firstCharts("A", at.a, 12);
  await scrolling("A", page);
  await heap("A", page);
  await page.context().close();
});

test("B: five thousand metrics", async (t) => {
  if (!at.b) return t.skip("the server has no set B");
  const page = await firstCharts("B", at.b, 12);
  await scrolling("B", page);
  await heap("B", page);
  await page.context().close();
});

test("C: a million points", async (t) => {
  if (!at.c) return t.skip("the server has no set C");
  const page = await firstCharts("C", at.c, 1);
  await zoomed("C", page);
  await page.context().close();
});

for (const [set, url] of Object.entries(tensorboard))
  test(`${set} in TensorBoard`, async () => {
    const page = await firstCharts(`${set} in TensorBoard`, url, 1, theirs);
    await scrolling(`${set} in TensorBoard`, page, theirs.scrolled);
    await page.context().close();
  });

test("ten million points", async (t) => {
  if (!at.c10) return t.skip("the server has no 10 M points");
  const page = await firstCharts("C of 10 M", at.c10, 1);
  await zoomed("C of 10 M", page);
  await page.context().close();
});

for (const n of ["10,000", "100,000", "1,000,000"])
  test(`${n} series`, async (t) => {
    const path = at.wide[n];
    if (!path) return t.skip(`the server has no ${n} series`);
    const name = `${n} series`;
    const page = await firstCharts(name, path, 12);
    await searching(name, page, "block7.*act_m");
    await scrolling(name, page);
    await heap(name, page);
    await page.context().close();
  }, 120_000);

test("two thousand runs of fifty metrics", async (t) => {
  if (!at.crowd) return t.skip("the server has no set R");
  const page = await firstCharts("R: curves of 200 of 2,000 runs", at.crowd.curves, 12);
  await scrolling("R: curves", page);
  await heap("R: curves", page);
  await page.context().close();
  const table = await open(browser);
  await table.page.goto(at.url + at.crowd.table);
  await table.page.waitForSelector(".row a");
  await scrolling("R: table", table.page, ".table-scroll");
  await table.context.close();
}, 180_000);

// KYMOGRAM_LIVE is a command that begins a run, prints its id, then logs train/loss for each line that it reads and
// prints the time (Unix ms) at which log() returned: `python load.py L`.
test("log() to drawn", async (t) => {
  const command = process.env.KYMOGRAM_LIVE;
  if (!server || !command) return t.skip("KYMOGRAM_SERVER and KYMOGRAM_LIVE are not set");
  const child = spawn("/bin/sh", ["-c", command], { stdio: ["pipe", "pipe", "ignore"] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const id = (await answers.next()).value as string;
  const log = async () => {
    child.stdin.write("0.5\n");
    return Number((await answers.next()).value);
  };
  const { page, context } = await open(browser);
  await log();
  await page.goto(`${server}/runs/${id}`);
  await drawn(page, 1);
  const took: number[] = [];
  for (let i = 0; i < 10; i++) {
    const painted = page.evaluate(() => {
      const card = document.querySelector<HTMLElement>(".card")!;
      const before = card.dataset.points;
      return new Promise<number>((done) => {
        const look = () =>
          card.dataset.points !== before
            ? requestAnimationFrame(() => done(Date.now()))
            : requestAnimationFrame(look);
        look();
      });
    });
    const logged = await log();
    took.push((await painted) - logged);
  }
  child.stdin.end();
  took.sort((a, b) => a - b);
  note("log() to drawn, median and worst of 10", `${Math.round(took[5]!)} ms, ${Math.round(took[9]!)} ms`);
  await context.close();
});

test("a hundred thousand runs", async (t) => {
  if (!at.runs) return t.skip("the server has no 100,000 runs");
  const { page, context } = await open(browser);
  await watch(page);
  await page.goto(at.url + at.runs);
  await page.waitForSelector(".row a");
  note("runs: 100,000, first rows", `${Math.round(await page.evaluate(() => performance.now()))} ms`);
  await scrolling("runs", page, ".table-scroll");
  await context.close();
});

test("an idle tab", async (t) => {
  if (!at.a) return t.skip("the server has no set A");
  const { page, context } = await open(browser);
  const bytes = await wire(page);
  await page.goto(at.url + at.a.split("?")[0]);
  await page.waitForTimeout(3000);
  bytes.api = 0;
  const seconds = server ? 60 : 10;
  await page.waitForTimeout(seconds * 1000);
  note("idle tab", `${(bytes.api * 60) / seconds} B/min`);
  expect((bytes.api * 60) / seconds).toBeLessThan(1000);
  await context.close();
}, 90_000);
