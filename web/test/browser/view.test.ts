import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { startNs } from "../standin/data.ts";
import { host, inBothThemes, open, shot } from "./host.ts";
import { at, browser, on } from "./stage.ts";

const address = "/p/default/A/views/kinds";

const panel = (page: Page, title: string) => page.locator(`[data-panel="${title}"]`);
const drawn = (page: Page) =>
  page.waitForFunction(() => document.querySelectorAll('[data-lines]:not([data-lines="0"])').length >= 2);

describe("a view", () => {
  test("draws lines, numbers and tables of all runs", () =>
    on(address, async (page) => {
      await drawn(page);
      const lines = await panel(page, "lines").locator(".view-lines").getAttribute("data-lines");
      expect(Number(lines)).toBeGreaterThan(40);
      await expect.poll(() => panel(page, "top").locator(".view-legend li").count()).toBe(5);
      await expect.poll(() => panel(page, "top").textContent()).toMatch(/5 of \d+ series, by last\./);
      const numbers = await panel(page, "numbers")
        .locator("[data-value]")
        .evaluateAll((all) => all.map((e) => Number((e as HTMLElement).dataset.value)));
      expect(numbers).toHaveLength(3);
      expect([...numbers].sort((a, b) => a - b)).toEqual(numbers);
      await expect.poll(() => panel(page, "one").locator("dd").count()).toBe(1);
      await expect.poll(() => panel(page, "table").locator("tbody tr").count()).toBeGreaterThan(40);
      await shot(page, "view");
    }));

  test("an empty panel says why, and what was meant", () =>
    on(address, async (page) => {
      await expect
        .poll(() => panel(page, "typo").locator(".card-note").textContent())
        .toMatch(
          /^No data: there is no series named “train\/los” in its \d+ runs\. Did you mean “train\/loss”/,
        );
      await expect
        .poll(() => panel(page, "no run").locator(".card-note").textContent())
        .toBe("No data: the project has no run named “nobody-*”.");
      await expect
        .poll(() => panel(page, "label").locator(".card-note").textContent())
        .toMatch(/no series has the label rank = “0”; no series has this label\.$/);
      await expect
        .poll(() => panel(page, "no axis").textContent())
        .toMatch(/\d+ series have no axis window and are left out\./);
    }));

  test("a brush zooms every panel of the axis, in the address", () =>
    on(address, async (page) => {
      await drawn(page);
      const box = (await panel(page, "lines").locator(".u-over").boundingBox())!;
      await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 50, { steps: 5 });
      await page.mouse.up();
      await page.waitForFunction(() => location.search.includes("zoom=step:"));
      await panel(page, "lines").locator(".u-over").dblclick();
      await page.waitForFunction(() => !location.search.includes("zoom"));
    }));

  test("what is logged while it is open is drawn within seconds", async () => {
    const here = await host(); // another world, which this test changes
    const { standin } = here.handler;
    const run = standin.world.projects.get("default/A")![0]!;
    const tab = await open(browser);
    await tab.page.goto(here.url + address);
    await drawn(tab.page);
    await expect.poll(() => standin.listeners.size).toBe(1);
    const points = () =>
      panel(tab.page, "lines").locator(".view-lines").getAttribute("data-points").then(Number);
    const before = await points();
    standin.append({ run, points: 40_000 }, () => 0.123);
    await expect.poll(points, { timeout: 6000 }).toBe(before + 1);
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
    here.close();
  });

  test("a range of time is of the points in it, and drawn over time", () =>
    on(address, async (page) => {
      await drawn(page); // the stand-in knows the last points of what was drawn once
      await expect.poll(() => panel(page, "one").locator("dd").count()).toBe(1);
      const { world, curve } = at.handler.standin;
      const now = startNs / 1e6 + 4000e3;
      const [from, to] = [
        Math.ceil(now / 10_000) * 10_000 * 1e6 - 3600e9,
        Math.ceil(now / 10_000) * 10_000 * 1e6,
      ];
      let [points, lines] = [0, 0];
      for (const run of world.projects.get("default/A")!)
        for (const spec of run.series.filter((s) => s.metric === "train/loss")) {
          const c = curve.call(at.handler.standin, spec, run.attempts);
          const inside = [...c.columns.time_ns!].flatMap((t, i) =>
            t >= from && t <= to ? [c.value[i]!] : [],
          );
          points += inside.filter(Number.isFinite).length;
          lines += inside.length ? 1 : 0;
        }
      expect(points).toBeGreaterThan(1000);
      await page.clock.setFixedTime(now);
      await page.goto(`${at.url}/p/default/A/views/narrowed`);
      const count = () => panel(page, "one").locator("[data-value]").getAttribute("data-value").then(Number);
      await expect.poll(count).toBe(points);
      const all = panel(page, "lines").locator(".view-lines");
      await expect.poll(() => all.getAttribute("data-lines").then(Number)).toBe(lines);
      expect(await all.getAttribute("data-axis")).toBe("time_ns");
      expect(await page.locator(".view-ranges select").inputValue()).toBe("1h");
      await shot(page, "view-range");
      await page.locator(".view-ranges select").selectOption("all");
      await page.waitForFunction(() => location.search === "?last=all");
      await expect.poll(() => all.getAttribute("data-axis")).toBe("step");
      await page.goto(`${at.url}${address}?last=24h`); // a reader's choice in the address
      await expect.poll(() => all.getAttribute("data-axis")).toBe("time_ns");
      await page.clock.setFixedTime(now + 90 * 86_400e3);
      await page.reload();
      await expect
        .poll(() => panel(page, "one").textContent())
        .toMatch(/No data in this range of time: the newest point is of 20\d\d-/);
    }));

  test("a part of an axis is the document's, the reader's, or all", () =>
    on(`/p/default/A/views/narrowed?last=all`, async (page) => {
      await drawn(page);
      const points = () =>
        panel(page, "lines").locator(".view-lines").getAttribute("data-points").then(Number);
      const lines = () => panel(page, "lines").locator(".view-lines").getAttribute("data-lines").then(Number);
      const many = await lines();
      const naive = (from: number, to: number) =>
        at.handler.standin.world.projects
          .get("default/A")!
          .flatMap((run) =>
            run.series.filter((s) => s.metric === "train/loss").map((s) => s.make(run.attempts)),
          )
          .reduce((n, c) => n + [...c.columns.step!].filter((x) => x >= from && x <= to).length, 0);
      expect(many).toBeGreaterThan(40);
      await expect.poll(points).toBe(naive(1000, 1200));
      const first = page.getByLabel("first step");
      expect([await first.inputValue(), await page.getByLabel("last step").inputValue()]).toEqual([
        "1000",
        "1200",
      ]);
      await first.fill("1100");
      await first.blur();
      await page.waitForFunction(() => location.search.includes("zoom=step:1100:1200"));
      await expect.poll(points).toBe(naive(1100, 1200));
      await page.getByRole("button", { name: "show all" }).click();
      await expect.poll(points).toBe(naive(-Infinity, Infinity));
      await page.getByRole("button", { name: "as stored" }).click();
      await expect.poll(points).toBe(naive(1000, 1200));
    }));

  test("its code is loaded apart, and its list leads to it", async () => {
    const tab = await open(browser);
    const asked: string[] = [];
    tab.page.on("request", (r) => asked.push(new URL(r.url()).pathname));
    await tab.page.goto(`${at.url}/projects/default/A`);
    await tab.page.getByRole("link", { name: "Views" }).waitFor();
    expect(asked.filter((p) => p.includes("/view-"))).toEqual([]);
    await tab.page.getByRole("link", { name: "Views" }).click();
    await tab.page.getByRole("link", { name: "All kinds" }).click();
    await drawn(tab.page);
    expect(new URL(tab.page.url()).pathname).toBe(address);
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
  });

  test("a view that is not there is named", async () => {
    const tab = await open(browser);
    await tab.page.goto(`${at.url}/p/default/A/views/none`);
    await expect.poll(() => tab.page.getByRole("alert").textContent()).toContain('there is no view "none"');
    await tab.context.close();
  });

  test("contrast, names and roles", async () => {
    const views = {
      kinds: address,
      narrowed: "/p/default/A/views/narrowed?last=all",
      list: "/p/default/A/views",
    };
    for (const [name, path] of Object.entries(views))
      await on(path, async (page) => {
        await page.waitForTimeout(1200);
        await inBothThemes(page, `view-${name}`, ["wcag2a", "wcag2aa", "best-practice"]);
      });
  });
});
