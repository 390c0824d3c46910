import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Host, host, launch, open } from "../browser/host.ts";
import { ulid } from "../standin/data.ts";

// The figures of design/web.md: A = 50 runs × 20 metrics × 2,000 steps; B = 5,000 metrics × 100; C = 1 M points with a spike.
let browser: Browser;
let at: Host;
const lines: string[] = [];
const note = (what: string, value: string) => lines.push(`${what.padEnd(46)}${value}`);

beforeAll(async () => {
  at = await host();
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  at.close();
  console.log(`\n${lines.join("\n")}\n`);
});

/** Watches long tasks and the first moments at which 1 and n charts are drawn. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const w = window as unknown as { seen: { longest: number; at: Record<number, number> } };
    w.seen = { longest: 0, at: {} };
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) w.seen.longest = Math.max(w.seen.longest, e.duration);
    }).observe({ type: "longtask", buffered: true });
    const look = () => {
      const n = document.querySelectorAll(".card[data-drawn] canvas").length;
      for (let k = 1; k <= n; k++) w.seen.at[k] ??= performance.now();
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}

const seen = (page: Page) =>
  page.evaluate(() => (window as unknown as { seen: { longest: number; at: Record<number, number> } }).seen);

async function firstCharts(name: string, path: string, charts: number): Promise<Page> {
  // Once to have the data made, as a store would have it.
  const warm = await open(browser);
  await warm.page.goto(at.url + path);
  await warm.page.waitForTimeout(4000);
  await warm.context.close();
  at.bytes.api = 0;
  const { page } = await open(browser);
  await watch(page);
  await page.goto(at.url + path);
  await page.waitForFunction(
    (n) => document.querySelectorAll(".card[data-drawn] canvas").length >= n,
    charts,
  );
  await page.waitForTimeout(1500);
  const s = await seen(page);
  const whole = await page.evaluate(
    () =>
      [...document.querySelectorAll(".card")].filter((c) => c.getBoundingClientRect().bottom <= innerHeight)
        .length,
  );
  note(`${name}: first chart`, `${Math.round(s.at[1]!)} ms`);
  note(`${name}: ${charts} charts`, `${Math.round(s.at[charts]!)} ms`);
  note(`${name}: longest task`, `${Math.round(s.longest)} ms`);
  note(`${name}: data for the screen (gzip)`, `${Math.round(at.bytes.api / 1000)} kB`);
  note(`${name}: whole charts at 1440×900`, String(whole));
  return page;
}

/** Frames a second while something scrolls with the wheel for three seconds. */
async function scrolling(page: Page, selector: string): Promise<number> {
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
  const start = Date.now();
  while (Date.now() - start < 3000) {
    await page.mouse.wheel(0, 120);
    await page.waitForTimeout(16);
  }
  const frames = await page.evaluate(() => {
    const w = window as unknown as { frames: number; stop: boolean };
    w.stop = true;
    return w.frames;
  });
  return frames / ((Date.now() - start) / 1000);
}

test("size", () => {
  const dist = join(import.meta.dirname, "../../dist");
  const files = ["index.html", "icon.svg", ...readdirSync(join(dist, "assets")).map((f) => `assets/${f}`)];
  const bytes = files.reduce((n, f) => n + gzipSync(readFileSync(join(dist, f)), { level: 9 }).length, 0);
  note("page on the wire (gzip)", `${(bytes / 1000).toFixed(1)} kB`);
  expect(bytes).toBeLessThan(150_000);
});

test("A: fifty runs over one another", async () => {
  const others = Array.from({ length: 49 }, (_, i) => ulid(`A/${i + 1}`)).join();
  const page = await firstCharts("A", `/runs/${ulid("A/0")}?with=${others}`, 10);
  note("A: scroll", `${(await scrolling(page, ".grid-scroll")).toFixed(0)} fps`);
  await page.context().close();
});

test("B: five thousand metrics", async () => {
  const page = await firstCharts("B", `/runs/${ulid("B")}`, 12);
  note("B: scroll", `${(await scrolling(page, ".grid-scroll")).toFixed(0)} fps`);
  note("B: longest task while scrolling", `${Math.round((await seen(page)).longest)} ms`);
  await page.context().close();
});

test("C: a million points", async () => {
  const page = await firstCharts("C", `/runs/${ulid("C")}`, 1);
  const box = (await page.locator(".card .u-over").boundingBox())!;
  const start = Date.now();
  const answered = page.waitForResponse((r) => r.url().includes("/buckets"));
  await page.mouse.move(box.x + 100, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 200, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await answered;
  note("C: zoom to answer", `${Date.now() - start} ms`);
  await page.context().close();
});

test("a hundred thousand runs", async () => {
  const { page, context } = await open(browser);
  await watch(page);
  await page.goto(`${at.url}/projects/default/huge`);
  await page.waitForSelector(".row a");
  note("runs: 100,000, first rows", `${Math.round(await page.evaluate(() => performance.now()))} ms`);
  note("runs: scroll", `${(await scrolling(page, ".table-scroll")).toFixed(0)} fps`);
  note("runs: longest task", `${Math.round((await seen(page)).longest)} ms`);
  await context.close();
});

test("an idle tab", async () => {
  const { page, context } = await open(browser);
  await page.goto(`${at.url}/runs/${ulid("A/2")}`);
  await page.waitForTimeout(2000);
  at.bytes.api = 0;
  await page.waitForTimeout(10_000);
  note("idle tab", `${at.bytes.api * 6} B/min`);
  expect(at.bytes.api * 6).toBeLessThan(1000);
  await context.close();
});
