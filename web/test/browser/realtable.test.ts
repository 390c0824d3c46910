import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findings, launch, open, pages, shot } from "./host.ts";
import { passOn, type Served, serve } from "./real.ts";

/** The table over a real server: what the stand-in says of groups, edits and files is not asked. */
const hostile = "zero\u200bwidth<img onerror=x>";
let server: Served;
let browser: Browser;
let front: Awaited<ReturnType<typeof pages>>;

beforeAll(async () => {
  server = await serve("--no-auth");
  for (let i = 0; i < 60; i++) await makeRun(i);
  for (let i = 0; i < wideRuns; i++)
    await openRun("wide", `wide-${i}`, [
      set("config/lr", "float64", rate(i)),
      ...wide.map((name, n) => set(`config/${name}`, "int64", i * 1000 + n)),
    ]);
  for (let i = 0; i < 320; i++)
    await openRun("late", `late-${i}`, [
      set("config/seed", "int64", i % 2),
      ...(i < 4 ? [set("config/late", "float64", i)] : []),
    ]);
  browser = await launch();
  front = await pages(passOn(server.url));
}, 60_000);
afterAll(async () => {
  await browser?.close();
  front?.close();
  await server?.close();
});

const rate = (i: number): number => [0.1, 0.01, 0.001][i % 3]!;

const wideRuns = 6;
const wide = Array.from({ length: 1000 }, (_, i) => `parameter_${String(i).padStart(4, "0")}`);

const set = (path: string, type: string, value: unknown) => ({
  op: "set_attribute",
  path,
  value: { type, value },
});

const makeRun = (i: number): Promise<void> =>
  openRun("real", i === 7 ? `=cmd|'/c calc'!A1` : `run-${String(i).padStart(2, "0")}`, [
    set("config/lr", "float64", rate(i)),
    set("config/size", "int64", i * i),
    ...(i % 2
      ? [set("config/__proto__", "string", "inert"), set(`config/${hostile}`, "string", hostile)]
      : []),
    { op: "add_tags", tags: i % 4 ? ["sweep"] : ["sweep", "base"] },
  ]);

async function openRun(project: string, name: string, initial: unknown[]): Promise<void> {
  const body = {
    writer: randomBytes(16).toString("hex"),
    workspace: "lab",
    ...{ project, run_name: name, initial },
  };
  const res = await fetch(`${server.url}/api/v1/open`, { method: "POST", body: JSON.stringify(body) });
  if (!res.ok) throw new Error(await res.text());
}

async function on(
  query: string,
  body: (page: Page) => Promise<void>,
  width = 1440,
  project = "real",
): Promise<void> {
  const tab = await open(browser, "light", { width, height: 900 });
  tab.page.setDefaultTimeout(15_000);
  await tab.page.goto(`${front.url}/projects/lab/${project}${query}`);
  await tab.page.locator(".row[aria-rowindex='1']").waitFor();
  await body(tab.page);
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
}

const heads = (page: Page) => page.locator(".head-cell .sorter").allInnerTexts();

describe("the table over a real server", () => {
  test("groups all runs, with figures that a loop finds, and unfolds one", () =>
    on("?group=config/lr&cols=~name,config/size", async (page) => {
      await expect.poll(() => page.locator(".row.group").count()).toBe(3);
      await page.locator(".total", { hasText: "60 runs in 3 groups" }).waitFor();
      const sizes = Array.from({ length: 60 }, (_, i) => i)
        .filter((i) => rate(i) === 0.01)
        .map((i) => i * i);
      const mean = sizes.reduce((a, b) => a + b) / sizes.length;
      const std = Math.sqrt(sizes.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (sizes.length - 1));
      const group = page.locator(".row.group", { hasText: "lr = 0.01" });
      const title = await group.locator("[title^='mean']").getAttribute("title");
      const [, shownMean, shownStd, n] = /mean ([\d.]+) ± ([\d.]+) of (\d+) runs/.exec(title!)!;
      expect(Number(n)).toBe(20);
      expect(Number(shownMean)).toBeCloseTo(mean, 8);
      expect(Number(shownStd)).toBeCloseTo(std, 8);
      await group.getByRole("button").click();
      await expect.poll(() => page.locator(".row.member").count()).toBe(20);
      expect(await page.locator(".row.member .cut:nth-child(3)").allInnerTexts()).not.toContain("0");
      expect(await findings(page)).toEqual([]);
      await shot(page, "table-groups");
      await page.getByLabel("Group by a second key").selectOption("tag");
      await page.locator(".total", { hasText: "60 runs in 6 groups (75 rows)" }).waitFor();
    }));

  test("1,000 columns have values, figures of groups and a file", () =>
    on(
      `?group=config/lr&cols=name,${wide.map((name) => `config/${name}`).join()}`,
      async (page) => {
        await page.locator(".total", { hasText: "6 runs in 3 groups" }).waitFor();
        const group = page.locator(".row.group", { hasText: "lr = 0.1" });
        await expect.poll(() => group.locator("[title^='mean']").count()).toBe(1000);
        // Runs 0 and 3 have this rate.
        expect(await group.locator("[title^='mean']").last().getAttribute("title")).toContain("mean 2499 ± ");
        await group.getByRole("button").click();
        const cells = page.locator(".row.member").first().locator("[role=cell]");
        await expect.poll(() => cells.last().innerText()).toBe("3,999");
        expect((await cells.allInnerTexts()).slice(1)).not.toContain("");
        const download = page.waitForEvent("download");
        await page.getByRole("button", { name: "CSV" }).click();
        const lines = readFileSync(await (await download).path(), "utf8")
          .trimEnd()
          .split("\n");
        expect(lines).toHaveLength(wideRuns + 1);
        for (const line of lines.slice(1)) {
          const [, name, ...values] = line.split(",");
          const run = Number(name!.slice("wide-".length));
          expect(values.map(Number)).toEqual(wide.map((_, n) => run * 1000 + n));
        }
      },
      1440,
      "wide",
    ));

  test("a parameter that only the oldest runs have has figures in groups", () =>
    on(
      "?group=config/seed&cols=name,config/late",
      async (page) => {
        const group = page.locator(".row.group", { hasText: "seed = 1" });
        await group.locator("[title^='mean 2 ± ']").waitFor(); // of 1 and 3
      },
      1440,
      "late",
    ));

  test("groups that are open stay so in the address, and close with another key", () =>
    on("?group=config/lr&cols=~name", async (page) => {
      for (const lr of ["0.1", "0.001"])
        await page
          .locator(".row.group", { hasText: `lr = ${lr}2` })
          .getByRole("button")
          .click();
      await expect.poll(() => page.locator(".row.member").count()).toBeGreaterThan(20);
      await page.reload();
      await expect.poll(() => page.locator(".row.group [aria-expanded='true']").count()).toBe(2);
      await expect.poll(() => page.locator(".row.member").count()).toBeGreaterThan(20);
      await page.getByLabel("Group by", { exact: true }).selectOption("status");
      await page.locator(".row.group", { hasText: "status = running" }).waitFor();
      expect(new URL(page.url()).searchParams.get("open")).toBeNull();
      expect(await page.locator(".row.member").count()).toBe(0);
    }));

  test("a saved view has the direction that its reader chose", async () => {
    const query = `?cols=name,${encodeURIComponent("best(odd)")}`;
    const best = (page: Page) => page.locator(".head-cell .sorter", { hasText: "odd" });
    await on(query, async (page) => {
      await best(page).focus();
      await page.keyboard.press("Alt+ArrowDown");
      await page.getByRole("menuitem", { name: "More is better ↑" }).click();
      await page.getByText("best ↑").waitFor();
      await page.getByRole("button", { name: "Save view…" }).click();
      await page.getByLabel("Name of a new view").fill("odd ones");
      await page.keyboard.press("Enter");
      await page.getByText("the address is its link").waitFor();
    });
    await on("?view=odd-ones", async (page) => {
      await page.getByText("best ↑").waitFor();
      expect(await page.locator(".unsaved").count()).toBe(0);
      await best(page).focus();
      await page.keyboard.press("Alt+ArrowDown");
      await page.getByRole("menuitem", { name: "Less is better ↓" }).click();
      await page.getByText("best ↓").waitFor();
      await page.locator(".unsaved").waitFor();
    });
    await on(query, async (page) => {
      await best(page).waitFor();
      expect(await page.getByText(/best [↑↓]/).count()).toBe(0); // another browser
    });
  });

  test("compare says of each selected run that is not shown why", async () => {
    const list = await fetch(`${server.url}/api/v1/projects/lab/late/runs?limit=6`);
    const ids = ((await list.json()) as { runs: { id: string }[] }).runs.map((r) => r.id);
    await fetch(`${server.url}/api/v1/runs/${ids[0]}`, { method: "DELETE" });
    await fetch(`${server.url}/api/v1/runs/${ids[1]}?now=1`, { method: "DELETE" });
    const tab = await open(browser, "light");
    await tab.page.goto(`${front.url}/compare/lab/late?runs=${ids.join()},nonsense&filter=seed=0`);
    const said = tab.page.getByText("selected runs");
    await expect
      .poll(() => said.innerText())
      .toContain("2 of 7 selected runs: 2 deleted, 1 no id of a run, 2 left out by the filter");
    const title = await said.getAttribute("title");
    for (const part of [ids[0]!, "in the trash", ids[1]!, '"nonsense" is not the id of a run'])
      expect(title).toContain(part);
    await tab.page.goto(`${front.url}/runs/${ids[2]}?with=nonsense,${ids[3]}`);
    await tab.page.getByTitle('"nonsense" is not the id of a run').waitFor();
    expect(await tab.page.locator(".panel-item", { hasText: "unreadable" }).count()).toBe(1);
    await tab.context.close();
  });

  test("a group's box selects its runs; an act on them is one request, and is undone", () =>
    on("?group=tag", async (page) => {
      const base = page.locator(".row.group", { hasText: "tag = base" });
      await base.getByRole("checkbox").click();
      await expect.poll(() => page.locator(".bulk strong").innerText()).toBe("15 selected");
      const sent: string[] = [];
      page.on("request", (r) => r.method() === "POST" && sent.push(new URL(r.url()).pathname));
      await page.getByRole("button", { name: "delete" }).click();
      await page.getByText("15 runs moved to the trash").waitFor();
      expect(sent).toEqual(["/api/v1/deletions"]);
      await page.locator(".total", { hasText: "45 runs" }).waitFor();
      await page.getByRole("button", { name: "undo" }).click();
      await page.locator(".total", { hasText: "60 runs" }).waitFor();
    }));

  test("columns are pinned, moved, sized, fitted and hidden by keyboard and pointer, and kept", () =>
    on("?cols=~name,status,config/lr,config/size", async (page) => {
      expect(await heads(page)).toEqual(["name", "status", "lr", "size"]);
      await page.locator(".head-cell .sorter").nth(3).focus();
      await page.keyboard.press("Shift+ArrowLeft");
      await expect.poll(() => heads(page)).toEqual(["name", "status", "size", "lr"]);
      await page.locator(".head-cell .sorter", { hasText: "lr" }).focus();
      await page.keyboard.press("Alt+ArrowDown");
      await page.getByRole("menuitem", { name: "Pin left" }).waitFor();
      expect(await findings(page)).toEqual([]);
      await page.getByRole("menuitem", { name: "Pin left" }).click();
      await expect.poll(() => heads(page)).toEqual(["name", "lr", "status", "size"]);
      await page
        .locator(".head-cell", { hasText: "size" })
        .dragTo(page.locator(".head-cell", { hasText: "status" }));
      await expect.poll(() => heads(page)).toEqual(["name", "lr", "size", "status"]);
      const width = async () => (await page.locator(".head-cell", { hasText: "size" }).boundingBox())!.width;
      const before = await width();
      const grip = (await page.locator(".head-cell", { hasText: "size" }).locator(".grip").boundingBox())!;
      await page.mouse.move(grip.x + 4, grip.y + 10);
      await page.mouse.down();
      await page.mouse.move(grip.x + 64, grip.y + 10, { steps: 5 });
      await page.mouse.up();
      expect(await width()).toBeCloseTo(before + 60, -1);
      await page.locator(".head-cell", { hasText: "size" }).locator(".grip").dblclick();
      await expect.poll(width).toBeCloseTo(before, -1);
      await page.goto(`${front.url}/projects/lab/real`);
      await expect.poll(() => heads(page)).toEqual(["name", "lr", "size", "status"]);
      await page.locator(".head-cell", { hasText: "status" }).click({ button: "right" });
      await page.getByRole("menuitem", { name: "Hide" }).click();
      await expect.poll(() => heads(page)).toEqual(["name", "lr", "size"]);
      await page.getByRole("button", { name: "columns" }).click();
      await page.getByRole("button", { name: "as the page chooses" }).click();
      await expect.poll(() => heads(page)).toContain("created");
    }));

  test("writes all runs of the filter as CSV, where no text is a formula", () =>
    on("?cols=name,config/lr,config/__proto__,status&q=lr>0.05", async (page) => {
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "CSV" }).click();
      const text = readFileSync(await (await download).path(), "utf8");
      const lines = text.trimEnd().split("\n");
      expect(lines[0]).toBe("id,name,config/lr,config/__proto__,status");
      expect(lines).toHaveLength(21);
      for (const line of lines.slice(1))
        expect(line).toMatch(/^[0-9A-Z]{26},run-\d\d,0\.1,(inert)?,running$/);
    }));

  test("hostile names are columns like others", () =>
    on(
      `?cols=name,config/__proto__,${encodeURIComponent(`config/${hostile}`)}&sort=config/__proto__`,
      async (page) => {
        await expect
          .poll(() => page.locator(".row[aria-rowindex='1'] .cut").nth(1).innerText())
          .toBe("inert");
        expect(await page.locator(".row[aria-rowindex='1'] .cut").nth(2).innerText()).toBe(hostile);
        await page.getByLabel("Group by", { exact: true }).selectOption("config/__proto__");
        await page.locator(".row.group", { hasText: "__proto__ = inert" }).waitFor();
        await page.locator(".row.group", { hasText: "__proto__ = none" }).waitFor();
        await page.getByLabel("Group by", { exact: true }).selectOption(`config/${hostile}`);
        await page.locator(".row.group", { hasText: hostile }).first().waitFor();
      },
    ));

  test("the links that W&B's SDK prints open the run and the project", async () => {
    const tab = await open(browser, "light");
    const { page } = tab;
    await page.goto(`${front.url}/lab/real/runs/run-02/overview`);
    await page.locator("h1", { hasText: "run-02" }).waitFor();
    await expect.poll(() => page.url()).toMatch(/\/runs\/[0-9A-Z]{26}(\?|$)/);
    await page.goto(`${front.url}/lab/real/workspace`);
    await page.locator(".total", { hasText: "60 runs" }).waitFor();
    await page.goto(`${front.url}/lab/real/runs/nobody`);
    await page.getByRole("alert").waitFor();
    await page.goto(`${front.url}/lab/real/elsewhere`);
    await page.locator("h1", { hasText: "Not found" }).waitFor();
    await tab.context.close();
  });
});
