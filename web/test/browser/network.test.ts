import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { NetworkStandin } from "../standin/network.ts";
import { host, inBothThemes, open, pictures, shot } from "./host.ts";
import { at, browser, on as onPage } from "./stage.ts";

// The data is the same in every process, so the tests know who is who.
const { demo, large } = Object.fromEntries(new NetworkStandin().nets) as Record<"demo" | "large", Docs>;
type Docs = NonNullable<ReturnType<NetworkStandin["nets"]["get"]>>;

const paths = { demo: "/network/default/demo", large: "/network/default/large" };
const phone = { width: 390, height: 844 };
const row70 = demo.miners.findIndex((m) => m.uid === 70);
const miner70 = `70/${demo.miners[row70]!.hotkey}`;
const equivocator = demo.validators.find((v) => v.verdict === "equivocated")!;
const opened = (name: string) => `${paths.demo}?open=${encodeURIComponent(name)}`;

const on = (path: string, body: (page: Page) => Promise<void>) =>
  onPage(path, async (page) => {
    await painted(page);
    await body(page);
  });

const painted = (page: Page) => page.waitForSelector(".net-cells[data-painted]");
const status = (page: Page) => page.locator(".net-status");

/** The colours at the feet of cells, as the canvas has them: one reading of the whole. */
function colours(
  page: Page,
  cells: [row: number, column: number][],
  cell: { width: number; height: number },
): Promise<string[]> {
  return page.locator(".net-cells").evaluate(
    (el, places) => {
      const canvas = el as HTMLCanvasElement;
      const ratio = canvas.width / canvas.clientWidth;
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      return places.map(([x, y]) => {
        const at = 4 * (Math.floor(y! * ratio) * canvas.width + Math.floor(x! * ratio));
        return data.slice(at, at + 4).join();
      });
    },
    cells.map(([r, c]) => [c * cell.width + 1, (r + 1) * cell.height - 3]),
  );
}

describe("looks", () => {
  const views: [string, string][] = [
    ["network-demo", paths.demo],
    ["network-large", paths.large],
    ["network-miner", opened(miner70)],
    ["network-proof", opened(equivocator.run_id)],
    ["network-nothing", "/network/default/nothing"],
  ];
  for (const size of [undefined, phone])
    for (const [name, path] of views)
      test(`${name}${size ? " on a phone" : ""}`, async () => {
        const tab = await open(browser, "light", size);
        await tab.page.goto(at.url + path);
        await tab.page.waitForSelector(".net-cells[data-painted], .message");
        if (path.includes("open=")) await tab.page.waitForSelector(".net-history table");
        await tab.page.waitForTimeout(300);
        if (size)
          await shot(tab.page, `phone-${name}`); // narrow.test.ts looks at one of them in full
        else await inBothThemes(tab.page, name);
        expect(await tab.page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
        expect(tab.complaints).toEqual([]);
        await tab.context.close();
      });
});

describe("the matrix", () => {
  test("256 × 64: heads stay, little is in the document, the overview shows and moves it", () =>
    on(paths.large, async (page) => {
      expect(await page.locator(".net-label").count()).toBeLessThan(80);
      expect(await page.locator(".net-head").count()).toBe(64);
      const scroll = page.locator(".net-scroll");
      const plane = await page.locator(".net-plane").evaluate((el) => [el.clientWidth, el.clientHeight]);
      expect(plane[1]! - 112).toBe(256 * 12);
      await scroll.evaluate((el) => el.scrollTo(0, 200 * 12));
      await page.waitForFunction(() => document.querySelector(".net-label .uid")?.textContent === "264");
      const box = (await scroll.boundingBox())!;
      expect((await page.locator(".net-head").first().boundingBox())!.y).toBeCloseTo(box.y, 0);
      expect((await page.locator(".net-label").first().boundingBox())!.x).toBeCloseTo(box.x, 0);
      const overview = (await page.locator(".net-overview canvas").boundingBox())!;
      expect(overview.width).toBeCloseTo(64 * Math.min(3, overview.height / 256), 0);
      await page.mouse.click(overview.x + 5, overview.y + 2);
      await page.waitForFunction(() => document.querySelector(".net-scroll")!.scrollTop === 0);
      // A cell of each verdict has a colour of its own, and a verified one that of its score.
      const cell = { width: 12, height: 12 };
      const places = new Map<string, [number, number]>();
      for (const [c, v] of large.validators.entries()) {
        const r = v.scores.findIndex((s, i) => i < 40 && s !== null && s > 60 && v.flags[i]! & 2);
        if (!places.has(v.verdict)) places.set(v.verdict, [r, c]);
      }
      expect(places.size).toBe(7);
      // Legacy and unregistered are both grey; their shapes tell them apart.
      expect(new Set(await colours(page, [...places.values()], cell)).size).toBeGreaterThanOrEqual(6);
    }));

  test("scrolling through 256 × 64 paints each frame in a few milliseconds", () =>
    on(paths.large, async (page) => {
      const ms = await page.locator(".net-scroll").evaluate(async (el) => {
        const seen: number[] = [];
        for (let i = 0; i < 40; i++) {
          el.scrollTop += 60;
          await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          seen.push(Number(document.querySelector<HTMLElement>(".net-cells")!.dataset.ms));
        }
        return seen.sort((a, b) => a - b)[20]!;
      });
      console.info(`median of painting the matrix: ${ms} ms`);
      expect(ms).toBeGreaterThan(0);
    }));

  test("pointer and keys: the line at the foot says what a cell says, Enter opens the miner", () =>
    on(paths.demo, async (page) => {
      for (const key of ["ArrowDown", "ArrowRight", "j"]) await page.keyboard.press(key);
      const m = demo.miners[1]!;
      await expect.poll(() => status(page).innerText()).toContain(m.hotkey.slice(0, 6));
      await expect.poll(() => status(page).innerText()).toContain("merged");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: `Miner ${m.uid}` }).waitFor();
      expect(new URL(page.url()).searchParams.get("open")).toBe(`${m.uid}/${m.hotkey}`);
      await page.reload();
      await page.getByRole("heading", { name: `Miner ${m.uid}` }).waitFor();
      await page.keyboard.press("Escape");
      await expect.poll(() => page.locator(".net-panel").count()).toBe(0);
    }));

  test("filter, verdicts and order are in the address", () =>
    on(paths.demo, async (page) => {
      const labels = page.locator(".net-label .uid");
      await page.getByLabel("Filter miners").fill("70");
      await expect.poll(() => labels.allInnerTexts()).toEqual(["70"]);
      await page.getByLabel("Filter miners").fill("disputed");
      await expect.poll(() => labels.count()).toBeGreaterThan(5);
      await page.getByLabel("Filter miners").fill("no such miner");
      await page.getByText("No miner matches").waitFor();
      await page.getByRole("button", { name: "clear" }).click();
      await page.locator(".net-chip", { hasText: "equivocated" }).click();
      await expect.poll(() => page.locator(".net-head").count()).toBe(5);
      expect(new URL(page.url()).searchParams.get("hide")).toBe("equivocated");
      await page.getByLabel("Order of miners").selectOption("score");
      const best = demo.miners.reduce((a, b) => ((b.result?.score ?? 0) > (a.result?.score ?? 0) ? b : a));
      await expect.poll(() => labels.first().innerText()).toBe(String(best.uid));
      await page.reload();
      await painted(page);
      await expect.poll(() => labels.first().innerText()).toBe(String(best.uid));
      expect(await page.locator(".net-head").count()).toBe(5);
    }));

  test("the findings name the culprits, and open them", () =>
    on(paths.demo, async (page) => {
      const findings = page.getByLabel("Findings").getByRole("button");
      await expect.poll(() => findings.count()).toBe(5);
      await findings.filter({ hasText: "equivocated" }).click();
      await page.getByRole("heading", { name: `Validator ${equivocator.uid}` }).waitFor();
    }));
});

describe("a row that is opened", () => {
  test("says who said what and which report won", () =>
    on(opened(miner70), async (page) => {
      const result = demo.miners[row70]!.result!;
      await page.getByText("Merged result:").waitFor();
      const rows = page.locator(".net-part").first().locator("tbody tr");
      const reported = demo.validators.filter((v) => v.scores[row70] !== null);
      expect(await rows.count()).toBe(reported.length);
      const carried = await rows.filter({ hasText: "carried the result" }).count();
      expect(carried).toBe(result.carried.length);
      expect(await rows.filter({ hasText: "not counted: the record is 412 blocks old" }).count()).toBe(1);
      expect(await page.locator(".net-history tbody tr").count()).toBe(4);
      expect(await page.locator(".net-history tbody tr").first().innerText()).toContain(
        "stats: 1 of 1 entries",
      );
      expect(await page.locator(".net-history tbody tr").nth(1).innerText()).toContain(
        "it follows the record before",
      );
      expect(await page.locator(".spark").count()).toBe(4);
    }));

  test("an equivocation shows both envelopes, and the proof is a file with their exact bytes", () =>
    on(opened(equivocator.run_id), async (page) => {
      await page.locator(".net-envelopes pre").first().waitFor();
      const texts = await page.locator(".net-envelopes pre").allInnerTexts();
      expect(texts[0]).toContain('"score": 90');
      expect(texts[1]).toContain('"score": 5');
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "download proof" }).click();
      const file = `${pictures}/proof.json`;
      await (await download).saveAs(file);
      const proof = JSON.parse(readFileSync(file, "utf8"));
      for (const e of [proof.a, proof.b])
        expect(Object.keys(e).sort()).toEqual(["payload", "record", "signature"]);
      expect(proof.a.record).not.toBe(proof.b.record);
    }));
});

describe("live", () => {
  test("an update is seen within a second", () =>
    on(paths.demo, async (page) => {
      await page.waitForTimeout(800);
      const start = Date.now();
      at.handler.standin.network.change("demo", (doc) => {
        doc.miners[0]!.result = { hotkey: "", score: 12.25, gpu: 0, carried: [0], against: 0 };
      });
      await page.waitForFunction(() =>
        document.querySelector(".net-label .net-result")?.textContent?.startsWith("12.25"),
      );
      expect(Date.now() - start).toBeLessThan(1000);
    }));
});

describe("the public link", () => {
  test("is made on the page, opens without a key, and ends when it is revoked", async () => {
    const key = "0123456789abcdef0123456789abcdef01234567";
    const closed = await host({ key });
    const owner = await open(browser);
    await owner.page.goto(`${closed.url}/login#good`);
    await owner.page.waitForURL(`${closed.url}/`);
    await owner.page.goto(closed.url + paths.demo);
    await owner.page.getByRole("button", { name: "share" }).click();
    await owner.page.getByRole("button", { name: "make a link" }).click();
    const link = await owner.page.getByRole("status").locator("code").innerText();
    expect(link).toMatch(/\/network\/default\/demo#[0-9a-f]{40}$/);
    await shot(owner.page, "network-share");
    const visitor = await open(browser);
    await visitor.page.goto(link);
    await painted(visitor.page);
    await visitor.page.getByLabel("Filter miners").fill("70");
    expect(visitor.page.url()).toContain(link.split("#")[1]);
    await owner.page.getByRole("button", { name: "revoke" }).click();
    await visitor.page.getByText("This public link is not valid").waitFor();
    expect(await visitor.page.locator(".net-cells").count()).toBe(0);
    await shot(visitor.page, "network-revoked");
    await owner.context.close();
    await visitor.context.close();
    closed.close();
  });

  test("the list of runs leads to the network of a project that has one", async () => {
    const tab = await open(browser);
    await tab.page.goto(`${at.url}/projects/default/A`);
    await tab.page.waitForSelector(".row a");
    expect(await tab.page.getByRole("link", { name: "network" }).count()).toBe(0);
    await tab.page.goto(`${at.url}/projects/default/demo`);
    await tab.page.getByRole("link", { name: "network" }).click();
    await painted(tab.page);
    await tab.context.close();
  });
});
