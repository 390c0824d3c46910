import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { host, open, settled, shot } from "./host.ts";
import { browser, on } from "./stage.ts";

const child = `/runs/${ulid("fork/child")}`;
const parent = `/runs/${ulid("fork/parent")}`;

const points = (page: Page, metric: string) =>
  page.locator(`.card[data-metric="${metric}"]`).getAttribute("data-points");

/** How strongly a part of a chart is drawn at most in the first hue of the light theme, #3666d5: 0 to 1. */
async function ink(page: Page, metric: string, from: number, to: number): Promise<number> {
  return page.evaluate(
    ([name, a, b]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(`.card[data-metric="${name}"] canvas`)!;
      const over = document.querySelector<HTMLElement>(`.card[data-metric="${name}"] .u-over`)!;
      const ratio = canvas.width / canvas.clientWidth;
      const left = over.offsetLeft * ratio;
      const width = over.clientWidth * ratio;
      const [x0, x1] = [Math.round(left + width * Number(a)), Math.round(left + width * Number(b))];
      const copy = Object.assign(document.createElement("canvas"), {
        width: canvas.width,
        height: canvas.height,
      });
      const ctx = copy.getContext("2d", { willReadFrequently: true })!;
      ctx.drawImage(canvas, 0, 0);
      const { data } = ctx.getImageData(x0, 0, x1 - x0, over.clientHeight * ratio);
      let most = 0;
      for (let i = 0; i < data.length; i += 4)
        most = Math.max(most, ((data[i + 2]! - data[i]!) / (0xd5 - 0x36)) * (data[i + 3]! / 255));
      return most;
    },
    [metric, from, to] as const,
  );
}

describe("a fork", () => {
  test("goes on from its parent, dimmed up to the line where it left", () =>
    on(child, async (page) => {
      await settled(page, 2);
      expect(await points(page, "train/loss")).toBe("900");
      expect(await points(page, "eval/loss")).toBe("500"); // which it has only from its parent
      const [inherited, own] = [
        await ink(page, "train/loss", 0.1, 0.5),
        await ink(page, "train/loss", 0.62, 0.98),
      ];
      expect(own).toBeGreaterThan(0.8);
      expect(inherited).toBeGreaterThan(0.25);
      expect(inherited).toBeLessThan(0.6);
      await shot(page, "fork");
      const box = (await page.locator('.card[data-metric="train/loss"] .u-over').boundingBox())!;
      await page.mouse.move(box.x + box.width * 0.2, box.y + 60);
      expect(await page.locator(".tip").innerText()).toContain("inherited");
      await page.mouse.move(box.x + box.width * 0.9, box.y + 60);
      await page.waitForFunction(() => !document.querySelector(".tip")!.textContent!.includes("inherited"));
    }));

  test("shows its own points alone when asked to, and the address says so", () =>
    on(child, async (page) => {
      await settled(page, 2);
      await page.getByLabel("inherited").uncheck();
      await page.waitForFunction(() => location.search.includes("inherited=0"));
      await expect.poll(() => points(page, "train/loss")).toBe("400");
      expect(await page.locator('.card[data-metric="eval/loss"]').count()).toBe(0);
      await page.reload();
      await settled(page, 1);
      expect(await points(page, "train/loss")).toBe("400");
    }));

  test("names its parent, and the parent its forks", () =>
    on(child, async (page) => {
      await page.locator(".lineage").getByText("at step 499").waitFor();
      await page.locator(".lineage").getByRole("link", { name: "base" }).click();
      await page.waitForURL((url) => url.pathname === parent);
      await page.locator(".lineage").getByRole("link", { name: "lower-lr" }).waitFor();
      expect(await page.getByLabel("inherited").count()).toBe(0);
    }));

  test("shows a series that it begins while one watches, though it has fewer than it inherits", async () => {
    const mine = await host(); // its data change
    const tab = await open(browser);
    await tab.page.goto(mine.url + child);
    await settled(tab.page, 2);
    const { standin } = mine.handler;
    const run = standin.world.runs.get(ulid("fork/child"))!;
    const [first] = run.series;
    const columns = { step: new Float64Array([900]), time_ns: new Float64Array([1.79e18]) };
    const curve = { ...first!, metric: "new/one", columns, value: new Float64Array([1]), attempt: 1 };
    run.series.push({ ...first!, metric: "new/one", count: 1, make: () => curve });
    standin.append({ run, points: 400 }, () => 0.5);
    await tab.page.locator('.card[data-metric="new/one"]').waitFor();
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
    mine.close();
  });

  test("goes on with its parent's late points, and with series that only the parent begins", async () => {
    const mine = await host(); // its data change
    const tab = await open(browser);
    const { standin } = mine.handler;
    const base = standin.world.runs.get(ulid("fork/parent"))!;
    standin.world.runs.get(ulid("fork/child"))!.parent!.step = 1499; // the parent is at 999
    await tab.page.goto(mine.url + child);
    await settled(tab.page, 2);
    expect(await points(tab.page, "eval/loss")).toBe("1000");
    for (let i = 0; i < 3; i++) standin.append({ run: base, points: 2000 + 2 * i }, () => 0.5);
    await expect.poll(() => points(tab.page, "eval/loss")).toBe("1003");
    const [first] = base.series;
    const columns = { step: new Float64Array([7]), time_ns: new Float64Array([1.79e18]) };
    const curve = { ...first!, metric: "late/one", columns, value: new Float64Array([1]), attempt: 1 };
    base.series.push({ ...first!, metric: "late/one", count: 1, make: () => curve });
    standin.append({ run: base, points: 2010 }, () => 0.5);
    await tab.page.locator('.card[data-metric="late/one"]').waitFor();
    await shot(tab.page, "fork-live");
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
    mine.close();
  });

  test("is drawn over its parent, and on wall time", () =>
    on(`${child}?with=${ulid("fork/parent")}&x=wall`, async (page) => {
      await settled(page, 2);
      expect(await points(page, "train/loss")).toBe("1900");
      await shot(page, "fork-wall");
    }));
});

describe("the ledger", () => {
  test("says everything that it counts in plain words", () =>
    on(`/runs/${ulid("lost")}`, async (page) => {
      const head = page.locator(".ledger");
      await head.waitFor();
      expect((await head.innerText()).replaceAll(/\s+/g, " ")).toContain("✕ lost 100 and more");
      await head.click();
      const table = page.locator(".ledger-table");
      await table.waitFor();
      const rows = (await table.innerText()).split("\n").map((line) => line.replaceAll("\t", " | "));
      expect(rows.slice(0, 6)).toEqual([
        "logged | 4,000",
        "stored here | 3,900",
        "of those superseded by a later point at the same place | 40",
        "still in the clients' spools | 0",
        "refused for good | 7",
        "dropped by a client's cap | 12",
      ]);
      const text = rows.join("\n");
      expect(text).toContain(
        "not here, record 31: cut off in the client's file when its machine went down | unknown",
      );
      expect(text).toContain(
        "records 40 to 44: unreadable in the client's spool, where they were set aside | 21",
      );
      expect(text).toContain(
        "records 60 to 70: deleted by the client as delivered, before the server went back to a backup | 11",
      );
      expect(text).toContain("records 90 to 91: unreadable in the server's log | 2");
      expect(text).toMatch(
        /stored and damaged since, logged .+ to .+: segments\/17\.seg cannot be read \| 47/,
      );
      expect(rows.at(-1)).toBe("lost in all | 100, and what is unknown");
      await page.getByText("is logged by two writers at once").waitFor();
      const warning = await page.locator("p.warning").innerText();
      expect(warning).toContain("env-3");
      expect(warning).toContain("node-1 pid 4242, rank 0 and node-1 pid 4243, rank 1");
      await shot(page, "ledger");
    }));

  test("of a run without losses says none", () =>
    on(`${child}?tab=writers`, async (page) => {
      await page.locator(".ledger-table").waitFor();
      expect(await page.locator(".ledger-table .lost").count()).toBe(0);
      expect(await page.locator(".warning").count()).toBe(0);
    }));
});
