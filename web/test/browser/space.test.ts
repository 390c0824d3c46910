import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findings, launch, settled, shot } from "./host.ts";
import { type Real, real } from "./real.ts";

const metrics = ["eval/acc", "eval/loss", "lr", "train/acc", "train/loss", "train/norm"];
const hostile = "<img src=x onerror=alert(1)>";
let browser: Browser;
let at: Real;
let [writer, reader] = ["", ""];

beforeAll(async () => {
  browser = await launch();
  at = await real();
  writer = at.key("ingest,read");
  reader = at.key("read");
  const rows = [`run,step,config/lr,${metrics.join()}`];
  for (let r = 0; r < 12; r++)
    for (let step = 0; step < 30; step++)
      rows.push(`r${r},${step},${r % 3},${metrics.map((_, m) => Math.exp(-step / 9) + r * 0.02 + m).join()}`);
  at.add("space", rows.join("\n"));
  at.add("scratch", rows.join("\n"));
});
afterAll(async () => {
  await browser.close();
  await at.close();
});

interface Seat {
  page: Page;
  context: BrowserContext;
  complaints: string[];
}

async function sit(
  key: string,
  path: string,
  theme: "light" | "dark" = "light",
  width = 1440,
): Promise<Seat> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
  await context.addInitScript((k) => {
    if (location.protocol === "http:") sessionStorage.setItem("kymogram.key", k);
  }, key);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints: string[] = [];
  page.on("pageerror", (e) => complaints.push(e.stack ?? e.message));
  page.on("console", (m) => {
    // A refused change is one that the page expects and explains.
    if (m.type() === "error" && !/status of (403|409)/.test(m.text())) complaints.push(m.text());
  });
  await page.goto(path === "about:blank" ? path : at.url + path);
  return { page, context, complaints };
}

const charts = "/compare/default/space?tab=charts";
const cards = (page: Page) =>
  page.locator("article.card").evaluateAll((all) => all.map((c) => (c as HTMLElement).dataset.metric));
const heads = (page: Page) => page.locator(".group-title .group-head .cut").allInnerTexts();
const first = async (page: Page) => {
  await settled(page, 1);
  return (await cards(page))[0];
};
const card = (page: Page, metric: string) => page.locator(`article.card[data-metric="${metric}"]`).first();

/** The menu of a card. */
async function menu(page: Page, metric: string, item: string): Promise<void> {
  await card(page, metric).hover();
  await card(page, metric)
    .getByRole("button", { name: `Save ${metric}` })
    .click();
  await page.getByRole("menuitem", { name: item }).click();
}

/** Waits until the server has what the page shows. */
const stored = (page: Page, what: RegExp) =>
  expect
    .poll(async () =>
      page.evaluate(async () => {
        const headers = { Authorization: `Bearer ${sessionStorage.getItem("kymogram.key")}` };
        const res = await fetch("/api/v1/projects/default/space/views/project-charts", { headers });
        return res.text();
      }),
    )
    .toMatch(what);

describe("the charts of a project", () => {
  test("are a tab away from the table, for the runs that are selected, else those that match", async () => {
    const { page, context, complaints } = await sit(writer, "/projects/default/space?q=lr<2");
    await page.locator(".row[aria-rowindex='1']").waitFor();
    const asked: string[] = [];
    page.on("request", (r) => asked.push(r.url()));
    await page.getByRole("tab", { name: "Charts" }).click();
    await settled(page, metrics.length);
    expect(await page.locator(".compare-runs .panel-item").count()).toBe(8);
    // The series of a run are asked for once.
    expect(asked.filter((u) => /\/series\?/.test(u)).length).toBeLessThan(2);
    await page.getByRole("tab", { name: "Runs" }).click();
    await page.locator(".row[aria-rowindex='3'] input").click();
    await page.locator(".row[aria-rowindex='4'] input").click();
    await page.getByRole("tab", { name: "Charts" }).click();
    await settled(page, metrics.length);
    expect(await page.getByText("2 of 2 selected runs").count()).toBe(1);
    await page.getByRole("tab", { name: "Runs" }).click();
    expect(await page.locator(".bulk strong").innerText()).toBe("2 selected");
    await page.reload();
    expect(await page.locator(".bulk strong").innerText()).toBe("2 selected");
    expect(await page.getByRole("searchbox").or(page.locator(".filter input")).first().inputValue()).toBe(
      "lr<2",
    );
    await page.goBack();
    await page.getByText("2 of 2 selected runs").waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("of many metrics are read as they come into view, whatever the number of runs", async () => {
    const names = Array.from({ length: 60 }, (_, m) => `layers/${m}/norm`);
    const rows = [`run,step,${names.join()}`];
    for (let r = 0; r < 10; r++)
      for (let step = 0; step < 3; step++) rows.push(`w${r},${step},${names.map((_, m) => m + step).join()}`);
    at.add("tall", rows.join("\n"));
    const { page, context, complaints } = await sit(writer, "about:blank");
    const asked: string[] = [];
    page.on("request", (r) => asked.push(`${r.url()} ${r.postData() ?? ""}`));
    await page.goto(`${at.url}/compare/default/tall?tab=charts`);
    await settled(page, 12);
    expect(await page.locator(".group-title .muted").innerText()).toBe("60");
    expect(asked.filter((u) => u.includes("/series"))).toEqual([]);
    expect(asked.filter((u) => u.includes("layers/50/norm"))).toEqual([]);
    await page.locator(".grid-scroll").evaluate((el) => el.scrollTo(0, el.scrollHeight));
    await card(page, names[59]!).locator("canvas").first().waitFor();
    await expect.poll(() => card(page, names[59]!).getAttribute("data-points")).toBe("30");
    expect(asked.filter((u) => u.includes("layers/59/norm")).length).toBeGreaterThan(0);
    // What was read stays: the first cards come back without a question.
    const before = asked.length;
    await page.locator(".grid-scroll").evaluate((el) => el.scrollTo(0, 0));
    await expect.poll(() => card(page, names[0]!).getAttribute("data-points")).toBe("30");
    expect(
      asked.slice(before).filter((u) => u.includes("/overviews") && u.includes("layers/0/norm")),
    ).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("are pinned, moved and put into sections for every run and reader; undo takes it back", async () => {
    const one = await sit(writer, charts);
    const { page } = one;
    await settled(page, metrics.length);
    await card(page, "train/norm").hover();
    await page.keyboard.press("P");
    await expect.poll(() => heads(page)).toEqual(["Pinned", "other", "eval", "train"]);
    await menu(page, "train/acc", "Move to a new section…");
    await page.keyboard.type(hostile);
    await page.keyboard.press("Enter");
    await expect.poll(() => heads(page)).toEqual(["Pinned", hostile, "other", "eval", "train"]);
    await page.keyboard.press("Control+z");
    await expect.poll(() => heads(page)).toEqual(["Pinned", "other", "eval", "train"]);
    await menu(page, "train/acc", "Move to a new section…");
    await page.keyboard.type(hostile);
    await page.keyboard.press("Enter");
    // Sections move by their buttons, cards by keys and by dragging.
    await page.getByRole("button", { name: "Move train up" }).click();
    await expect.poll(() => heads(page)).toEqual(["Pinned", hostile, "other", "train", "eval"]);
    await page.getByRole("status").getByRole("button", { name: "undo" }).click();
    await expect.poll(() => heads(page)).toEqual(["Pinned", hostile, "other", "eval", "train"]);
    await card(page, "eval/loss").hover();
    await page.keyboard.press("<");
    await expect
      .poll(() => cards(page))
      .toEqual(["train/norm", "train/acc", "lr", "eval/loss", "eval/acc", "train/loss"]);
    await card(page, "lr")
      .locator("h3")
      .dragTo(card(page, "train/norm"), { targetPosition: { x: 8, y: 90 } });
    await expect.poll(async () => (await cards(page)).slice(0, 2)).toEqual(["lr", "train/norm"]);
    await page.getByRole("button", { name: /eval/, expanded: true }).first().click();
    await expect.poll(() => cards(page)).not.toContain("eval/acc");
    await stored(page, /"folded":\["\/eval"\]/);

    // Another reader sees the same on a run's page; both change it at once.
    const two = await sit(writer, "/projects/default/space");
    await two.page.locator(".row[aria-rowindex='1'] a").first().click();
    await two.page.locator(".run-page").waitFor();
    await expect.poll(() => heads(two.page)).toEqual(["Pinned", hostile, "eval", "train"]);
    expect(await first(two.page)).toBe("lr");
    await card(page, "train/loss").hover();
    await page.keyboard.press("P");
    await stored(page, /"pinned":\["lr","train\/norm","train\/loss"\]/);
    await card(two.page, "train/acc").hover();
    await two.page.keyboard.press("p");
    await stored(page, /"pinned":\["lr","train\/norm","train\/loss","train\/acc"\]/);
    await two.page.getByText("both changes are kept").waitFor();
    await two.page.reload();
    await expect.poll(() => cards(two.page)).toEqual(["lr", "train/norm", "train/loss", "train/acc"]);
    await two.page.getByRole("button", { name: "eval" }).first().click();
    await settled(two.page, metrics.length);
    expect(await findings(two.page)).toEqual([]);
    await shot(two.page, "space-run");
    expect([...one.complaints, ...two.complaints]).toEqual([]);
    await one.context.close();
    await two.context.close();
  });

  test("of a reader without the right to write are arranged in the browser, which says so", async () => {
    const { page, context, complaints } = await sit(reader, "/compare/default/scratch?tab=charts");
    await settled(page, metrics.length);
    await card(page, "train/norm").hover();
    await page.keyboard.press("P");
    await page.getByText("Your key may not write here").waitFor();
    await page.reload();
    expect(await first(page)).toBe("train/norm");
    await page.getByText("Your key may not write here").waitFor();
    expect(await findings(page)).toEqual([]);
    await page.getByRole("button", { name: "show the project's" }).click();
    await expect.poll(() => heads(page)).toEqual(["other", "eval", "train"]);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("Back takes back full screen, tab, zoom, search and selection; a reload keeps them", async () => {
    const { page, context, complaints } = await sit(writer, "/compare/default/scratch?tab=charts");
    await settled(page, metrics.length);
    const steps: [() => Promise<void>, string][] = [
      [() => page.getByLabel("Search metrics").fill("train !norm"), "q"],
      [() => page.locator("body").click({ position: { x: 700, y: 880 } }), ""],
      [
        async () => {
          const box = (await card(page, "train/acc").locator("canvas").first().boundingBox())!;
          await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
          await page.mouse.down();
          await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 4 });
          await page.mouse.up();
        },
        "zoom",
      ],
      [
        () =>
          card(page, "train/loss")
            .getByRole("button", { name: "Full screen of train/loss" })
            .click({ force: true }),
        "chart",
      ],
      [() => page.keyboard.press("Escape"), "-chart"],
      [() => page.getByRole("tab", { name: "Differences" }).click(), "tab"],
    ];
    const param = (name: string) => new URL(page.url()).searchParams.get(name) ?? "";
    const seen: string[] = [];
    for (const [act, name] of steps) {
      const before = page.url();
      await act();
      if (!name) continue;
      await expect.poll(() => page.url()).not.toBe(before);
      seen.push(before);
    }
    expect(param("tab")).toBe("attributes");
    for (const url of seen.reverse()) {
      await page.goBack();
      expect(page.url()).toBe(url);
    }
    await expect
      .poll(() => cards(page))
      .toEqual(["lr", "eval/acc", "eval/loss", "train/acc", "train/loss", "train/norm"]);
    for (let i = 0; i < 3; i++) await page.goForward();
    await page.reload();
    await page.getByRole("dialog", { name: "train/loss" }).waitFor();
    await expect.poll(() => page.locator(".full-legend li").count()).toBe(12);
    expect([param("q"), param("chart"), param("zoom") !== ""]).toEqual(["train !norm", "train/loss", true]);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("hide a run, and undo shows it again", async () => {
    const { page, context } = await sit(writer, "/compare/default/scratch?tab=charts");
    await settled(page, metrics.length);
    await page.getByRole("button", { name: "Hide r3" }).click();
    await page.getByText("1 hidden").waitFor();
    await page.keyboard.press("Control+z");
    await expect.poll(() => page.getByText("1 hidden").count()).toBe(0);
    await context.close();
  });
});

describe("saved views", () => {
  test("keep what is shown under a name, are links, show what is not saved, and come back when deleted", async () => {
    const one = await sit(writer, "/projects/default/scratch?q=lr<2&sort=name");
    const { page } = one;
    await page.locator(".row[aria-rowindex='2'] input").click();
    await page.getByRole("tab", { name: "Charts" }).click();
    await settled(page, metrics.length);
    await page.getByRole("button", { name: "all that match" }).click();
    await page.getByLabel("Smoothing").selectOption("ema:0.9");
    await page.getByRole("button", { name: "Save view…" }).click();
    await page.getByLabel("Name of a new view").fill(hostile);
    await page.keyboard.press("Enter");
    await page.getByText("the address is its link").waitFor();
    expect(await page.locator(".unsaved").count()).toBe(0);

    await card(page, "train/loss").hover();
    await page.keyboard.press("P");
    await page.locator(".unsaved").waitFor();
    await page.reload();
    expect(await first(page)).toBe("train/loss"); // what is not saved yet
    await page.locator(".unsaved").getByRole("button", { name: "save" }).click();
    await expect.poll(() => page.locator(".unsaved").count()).toBe(0);

    // The link, for somebody else.
    const two = await sit(reader, "/p/default/scratch/views");
    await two.page.getByRole("link", { name: hostile }).click();
    expect(await first(two.page)).toBe("train/loss");
    const params = new URL(two.page.url()).searchParams;
    expect(Object.fromEntries(params)).toMatchObject({
      filter: "lr<2",
      smooth: "ema:0.9",
      sort: "name",
      tab: "charts",
    });
    await two.page.getByLabel("Smoothing").selectOption("");
    await two.page.locator(".unsaved").waitFor();
    // Nothing is offered that a key which may only read cannot do.
    expect(await two.page.locator(".unsaved").getByRole("button").allInnerTexts()).toEqual(["reset"]);
    await two.page.locator(".saved > .button").click();
    await two.page.getByRole("link", { name: hostile }).waitFor();
    expect(await two.page.locator(".saved-menu").getByRole("button").allInnerTexts()).toEqual([
      "close the view, keep what is shown",
    ]);
    await two.page.keyboard.press("Escape");
    await two.page.locator(".unsaved").getByRole("button", { name: "reset" }).click();
    await expect.poll(() => two.page.getByLabel("Smoothing").inputValue()).toBe("ema:0.9");

    // The project's own arrangement is not the view's.
    await page.locator(".saved > .button").click();
    expect(await findings(page)).toEqual([]);
    await shot(page, "space-views");
    await page.getByRole("button", { name: "close the view, keep what is shown" }).click();
    expect(await first(page)).toBe("lr");
    await page.locator(".saved > .button").click();
    await page.getByRole("button", { name: `Delete ${hostile}` }).click();
    await page.getByText(`view ${hostile} deleted`).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("body").click({ position: { x: 900, y: 20 } });
    await page.keyboard.press("Control+z");
    await page.locator(".saved > .button").click();
    await page.getByRole("link", { name: hostile }).waitFor();
    expect([...one.complaints, ...two.complaints]).toEqual([]);
    await one.context.close();
    await two.context.close();
  });

  for (const [theme, width] of [
    ["light", 1024],
    ["dark", 1440],
    ["light", 360],
    ["dark", 360],
  ] as const)
    test(`look well in ${theme} at ${width}`, async () => {
      const { page, context, complaints } = await sit(writer, charts, theme, width);
      await settled(page, 1);
      await page.locator(".saved > .button").click();
      await page.getByRole("dialog", { name: "Saved views" }).waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      expect(await findings(page)).toEqual([]);
      await shot(page, `space-${theme}-${width}`);
      await page.getByRole("tab", { name: "Runs" }).click();
      await page.locator(".row").first().waitFor();
      expect(await findings(page)).toEqual([]);
      await shot(page, `space-runs-${theme}-${width}`);
      expect(complaints).toEqual([]);
      await context.close();
    });
});
