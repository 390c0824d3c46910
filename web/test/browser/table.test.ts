import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findings, type Host, host, launch, open, shot, type Tab } from "./host.ts";

let browser: Browser;
let at: Host;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

async function on(path: string, body: (page: Page, tab: Tab) => Promise<void>, width = 1440): Promise<void> {
  at = await host();
  const tab = await open(browser, "light", { width, height: 900 });
  tab.page.setDefaultTimeout(15_000);
  await tab.page.goto(at.url + path);
  await tab.page.locator(".row[aria-rowindex='1']").waitFor();
  await body(tab.page, tab);
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
  at.close();
}

const project = "default/A";
const runsOf = () => at.handler.standin.world.projects.get(project)!;
const count = (page: Page) => page.locator(".bulk strong").innerText();
const box = (page: Page, row: number) => page.locator(`.row[aria-rowindex='${row}'] input`);

describe("the table of runs", () => {
  test("selects a range with shift, the top ten and all; Back undoes, and a reload keeps it", () =>
    on(`/projects/${project}`, async (page) => {
      await box(page, 2).click();
      await box(page, 6).click({ modifiers: ["Shift"] });
      expect(await count(page)).toBe("5 selected");
      await page.reload();
      expect(await count(page)).toBe("5 selected");
      await page.goBack();
      await expect.poll(() => count(page)).toBe("1 selected");
      await page.getByRole("button", { name: "top 10" }).click();
      expect(await count(page)).toBe("10 selected");
      await page.getByLabel("Select all runs that match").click();
      const all = runsOf().length;
      await expect.poll(() => count(page)).toBe(`${all} selected`);
      expect(await findings(page)).toEqual([]);
      await shot(page, "runs-selected");
    }));

  test("tags, archives and deletes what is selected, and takes it back", () =>
    on(`/projects/${project}`, async (page) => {
      const world = runsOf();
      await box(page, 1).click();
      await box(page, 2).click();
      await page.getByLabel("Tag for the selected runs").fill("mine");
      await page.getByRole("button", { name: "add tag" }).click();
      await page.getByText("2 runs tagged mine").waitFor();
      expect(world.filter((r) => r.tags.includes("mine"))).toHaveLength(2);
      await page.getByRole("button", { name: "undo" }).click();
      await expect.poll(() => world.filter((r) => r.tags.includes("mine")).length).toBe(0);

      await page.getByRole("button", { name: "archive", exact: true }).click();
      await page.getByText("2 runs archived").waitFor();
      const shown = world.length - 2;
      await expect.poll(() => page.locator(".total").innerText()).toContain(String(shown));

      await page.getByRole("button", { name: "delete" }).click();
      await page.getByText("2 runs moved to the trash").waitFor();
      expect(world.filter((r) => r.deleted)).toHaveLength(2);
      await page.getByRole("button", { name: "undo" }).click();
      await expect.poll(() => world.filter((r) => r.deleted).length).toBe(0);
    }));

  test("an undo in the trash shows the trash without the run; nothing is offered for nothing", () =>
    on(`/projects/${project}`, async (page) => {
      await box(page, 1).click();
      await page.getByRole("button", { name: "delete" }).click();
      await page.getByLabel("Which runs").selectOption("trash");
      await expect.poll(() => page.locator(".row").count()).toBe(1);
      await page.getByRole("button", { name: "undo" }).click();
      await expect.poll(() => page.locator(".row").count()).toBe(0);
      await page.getByLabel("Which runs").selectOption("");
      await box(page, 1).click();
      await page.getByLabel("Tag for the selected runs").fill("nobody-has-it");
      const asked = page.waitForResponse((r) => r.url().includes("/runs?"));
      await page.getByRole("button", { name: "take away" }).click();
      await asked;
      expect(await page.getByRole("button", { name: "undo" }).count()).toBe(0);
    }));

  test("the trash gives runs back", () =>
    on(`/projects/${project}`, async (page) => {
      const world = runsOf();
      await box(page, 1).click();
      await page.getByRole("button", { name: "delete" }).click();
      await page.getByText("1 run moved to the trash").waitFor();
      await page.getByLabel("Which runs").selectOption("trash");
      await expect.poll(() => page.locator(".row").count()).toBe(1);
      await box(page, 1).click();
      await page.getByRole("button", { name: "restore" }).click();
      await page.getByText("1 run restored").waitFor();
      expect(world.filter((r) => r.deleted)).toHaveLength(0);
    }));

  test("shows the best value whole, behind its star", () =>
    on(`/projects/${project}?cols=name,summary/loss&sort=summary/loss`, async (page) => {
      runsOf().forEach((run, i) => {
        const value = 0.088_54 + i * 0.0111; // wider than the head of its column
        run.summary = { loss: { step: 0, value } };
      });
      await page.reload();
      const cell = page.locator(".row .best");
      await cell.waitFor();
      expect(await cell.innerText()).toMatch(/^★\s*\d\.\d{3}/);
      expect(await cell.evaluate((el) => el.scrollWidth - el.clientWidth)).toBe(0);
      await shot(page, "table-best");
    }));

  test("the columns keep their names while a filter finds no run", () =>
    on(`/projects/${project}`, async (page) => {
      await page.getByRole("button", { name: "columns" }).click();
      const names = page.locator(".chooser-list label", { hasText: "eval/loss" });
      await names.first().waitFor();
      const before = await names.count();
      await page.getByLabel("Filter runs").fill("nothing-like-it");
      await page.getByText("No run matches").waitFor();
      await page.getByRole("button", { name: "columns" }).click();
      expect(await names.count()).toBe(before);
    }));

  test("completes the filter by keyboard, and sorts by a metric on the server", () =>
    on(`/projects/${project}`, async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("eval/");
      await page.locator(".row").first().waitFor({ state: "detached" }); // no run has this word: the names stay
      await page.keyboard.type("l");
      await page.locator(".filter-choices [role=option]").first().waitFor();
      expect(await findings(page)).toEqual([]);
      await shot(page, "runs-completion");
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      expect(await page.getByLabel("Filter runs").inputValue()).toBe("eval/loss");
      await page.getByLabel("Filter runs").fill("");
      const asked = page.waitForRequest((r) => r.url().includes("sort=-last"));
      await page.locator(".head-names button[title^='summary/']").first().click();
      expect(decodeURIComponent((await asked).url())).toMatch(/sort=-last\(/);
    }));
});

test("says that the server is gone within two seconds, and that it is back", async () => {
  const here = await host();
  const port = Number(new URL(here.url).port);
  const page = await browser.newPage();
  await page.goto(`${here.url}/projects/${project}`);
  await page.locator(".row[aria-rowindex='1']").waitFor();
  await expect.poll(() => here.handler.standin.listeners.size).toBe(1);
  here.close();
  const gone = Date.now();
  await page.getByText("Offline since").waitFor();
  expect(Date.now() - gone).toBeLessThan(2000);
  const back = await host({}, port);
  await page.getByText("Offline since").waitFor({ state: "detached" });
  await page.close();
  back.close();
});

/** A way to a server that can be held: connections stay open, and nothing passes. */
async function holding(target: number) {
  const pairs = new Set<Socket>();
  let held = false;
  const proxy = createServer((here) => {
    const there = connect(target, "127.0.0.1");
    for (const [from, to] of [
      [here, there],
      [there, here],
    ] as const) {
      pairs.add(from);
      from.on("data", (chunk) => to.write(chunk));
      from.on("error", () => to.destroy());
      from.on("close", () => {
        pairs.delete(from);
        to.destroy();
      });
      if (held) from.pause();
    }
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    hold(yes: boolean) {
      held = yes;
      for (const one of pairs) yes ? one.pause() : one.resume();
    },
    close() {
      for (const one of pairs) one.destroy();
      proxy.close();
    },
  };
}

test("says within six seconds that a connection hangs, and that it is back", async () => {
  const here = await host();
  const way = await holding(Number(new URL(here.url).port));
  const page = await browser.newPage();
  await page.goto(`${way.url}/projects/${project}`);
  await page.locator(".row[aria-rowindex='1']").waitFor();
  await expect.poll(() => here.handler.standin.listeners.size).toBe(1);
  // An idle stream is not taken for one that hangs.
  await page.waitForTimeout(7_000);
  expect(await page.getByText("Offline since").count()).toBe(0);
  way.hold(true);
  const hung = Date.now();
  await page.getByText("Offline since").waitFor();
  console.info(`told after ${Date.now() - hung} ms`);
  expect(Date.now() - hung).toBeLessThan(6_000);
  way.hold(false);
  await page.getByText("Offline since").waitFor({ state: "detached" });
  // The tries that a hanging connection took do not make the next end late.
  await page.waitForTimeout(500);
  way.close();
  const gone = Date.now();
  await page.getByText("Offline since").waitFor();
  expect(Date.now() - gone).toBeLessThan(2_000);
  await page.close();
  here.close();
});
