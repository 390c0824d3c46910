import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, settled } from "./host.ts";
import { type Real, real } from "./real.ts";

// A run of more metrics than a page lists: 30 sections of 1,000, of which the server's order has section 9 last.
const names = Array.from({ length: 30_000 }, (_, i) => `s${Math.floor(i / 1000)}/m${i % 1000}`);
let browser: Browser;
let at: Real;
let [path, key] = ["", ""];

beforeAll(async () => {
  browser = await launch();
  at = await real();
  key = at.key("ingest,read");
  at.add(
    "wide",
    [`run,step,${names.join()}`, ...[0, 1].map((s) => `wide,${s},${names.map((_, i) => i + s).join()}`)].join(
      "\n",
    ),
  );
  const runs = await fetch(`${at.url}/api/v1/projects/default/wide/runs`, {
    headers: { Authorization: `Bearer ${key}` },
  });
  path = `/runs/${((await runs.json()) as { runs: { id: string }[] }).runs[0]!.id}`;
});
afterAll(async () => {
  await browser.close();
  await at.close();
});

async function sit(
  query = "",
): Promise<{ page: Page; asked: string[]; complaints: string[]; close(): Promise<void> }> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript((k) => sessionStorage.setItem("kymogram.key", k), key);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const [asked, complaints]: string[][] = [[], []];
  page.on("request", (r) => r.url().includes("/series?") && asked!.push(r.url()));
  page.on("pageerror", (e) => complaints!.push(e.stack ?? e.message));
  await page.goto(at.url + path + query);
  return { page, asked: asked!, complaints: complaints!, close: () => context.close() };
}

const shown = (page: Page) =>
  page.locator("article.card").evaluateAll((all) => all.map((c) => (c as HTMLElement).dataset.metric!));
const search = (page: Page) => page.getByLabel("Search metrics");

test("a run of many metrics is listed as far as one scrolls, and searched by the server", async () => {
  const { page, asked, complaints, close } = await sit();
  await settled(page, 12);
  await page.getByText(/of 30,000 series: scroll on/).waitFor();
  let listed = 0;
  const rests = () => {
    const before = listed;
    listed = asked.length;
    return listed === before;
  };
  await expect.poll(rests, { interval: 300 }).toBe(true); // that stands there while the pages up to it are still read
  await page.waitForTimeout(500);
  expect(asked.length).toBe(listed); // it is not read further without need
  expect(await page.locator(".tabs").innerText()).toContain("30,000");
  // Each word must be found by the server, and none that is unwanted: s9 is last in its list.
  await search(page).fill("s9/ m99 !m999");
  await expect
    .poll(() => shown(page))
    .toEqual(["s9/m99", ...Array.from({ length: 9 }, (_, i) => `s9/m99${i}`)]);
  await settled(page, 10);
  await search(page).fill("s*/m7");
  await expect
    .poll(async () => (await shown(page)).filter((m) => /^s\d+\/m7$/.test(m)).length)
    .toBeGreaterThan(11);
  expect(await page.locator(".group-title").count()).toBeGreaterThan(11);
  await search(page).fill("no-such-metric");
  await page.getByText("No metric matches").waitFor();
  await search(page).fill("(?=s)9"); // the browser knows it, the server does not
  await page.getByText(/The server cannot search for this/).waitFor();
  await search(page).fill("");
  await expect.poll(() => shown(page)).toContain("s0/m0");
  // Scrolling to the end lists more, after what is there.
  const height = () => page.locator(".grid").evaluate((el) => el.clientHeight);
  const before = await height();
  await page.locator(".grid-scroll").evaluate((el) => el.scrollTo(0, el.scrollHeight));
  await expect.poll(height).toBeGreaterThan(before);
  expect(complaints).toEqual([]);
  await close();
});

test("a chart that is pinned, or in full screen, is read wherever the list is", async () => {
  const { page, complaints, close } = await sit("?chart=s9/m5");
  await page.locator(".full canvas").first().waitFor();
  await page.keyboard.press("Escape");
  await search(page).fill("^s9/m500$");
  await page.locator("article.card[data-metric='s9/m500'] canvas").first().waitFor();
  await search(page).press("Enter");
  await page.locator("article.card").hover();
  await page.keyboard.press("P");
  await search(page).fill("");
  await page.locator("[data-section='pinned']").waitFor();
  const again = await sit();
  await again.page.locator("article.card[data-metric='s9/m500'] canvas").first().waitFor();
  expect((await shown(again.page))[0]).toBe("s9/m500");
  expect([...complaints, ...again.complaints]).toEqual([]);
  await again.close();
  await close();
});
