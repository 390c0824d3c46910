import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { buckets } from "../standin/bucket.ts";
import { ulid } from "../standin/data.ts";
import { host, inBothThemes, open, settled, shot } from "./host.ts";
import { at, browser, on } from "./stage.ts";

const a0 = `/runs/${ulid("A/0")}`;
const c = `/runs/${ulid("C")}`;

const plot = (page: Page, metric: string) => page.locator(`.card[data-metric="${metric}"] .u-over`);
const search = (page: Page) => new URL(page.url()).searchParams;

async function brush(page: Page, metric: string, from: number, to: number): Promise<void> {
  const box = (await plot(page, metric).boundingBox())!;
  await page.mouse.move(box.x + box.width * from, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 50, { steps: 5 });
  await page.mouse.up();
}

describe("charts", () => {
  test("a brush asks the server for that range again, in the address; double click resets", () =>
    on(c, async (page) => {
      await settled(page, 1);
      const asked = page.waitForRequest(
        (r) => r.url().endsWith("/buckets") && (r.postData() ?? "").includes('"from"'),
      );
      await brush(page, "train/loss", 0.25, 0.5);
      const { queries } = (await asked).postDataJSON() as {
        queries: { from: number; to: number; n: number }[];
      };
      expect(queries[0]!.from).toBeGreaterThan(200_000);
      expect(queries[0]!.to).toBeLessThan(520_000);
      expect(Number.isInteger(queries[0]!.from)).toBe(true);
      expect(search(page).get("zoom")).toMatch(/^step:/);
      await shot(page, "zoomed");
      await page.reload();
      await settled(page, 1);
      expect(search(page).get("zoom")).toMatch(/^step:/);
      await plot(page, "train/loss").dblclick();
      await page.waitForFunction(() => !location.search.includes("zoom"));
    }));

  test("the spike of one step in a million and the three NaN are shown, with their places", () =>
    on(c, async (page) => {
      await settled(page, 1);
      await expect
        .poll(() => page.locator(".special").allInnerTexts())
        .toEqual(["3 NaN", "1 +Inf", "1 −Inf"]);
      await page.getByTitle("3 NaN, the first at 250,000: zoom there").click();
      await page.waitForFunction(() => location.search.includes("zoom=step:"));
      const [from, to] = search(page).get("zoom")!.split(":").slice(1).map(Number) as [number, number];
      expect(from).toBeLessThan(250_000);
      expect(to).toBeGreaterThan(250_001);
      await page.keyboard.press("z");
      await settled(page, 1);
      // The needle's arrow is at 61.8 % of the width, at the top edge; a click goes there.
      const box = (await plot(page, "train/loss").boundingBox())!;
      await page.mouse.click(box.x + box.width * 0.618, box.y + 5);
      await page.waitForFunction(() => location.search.includes("zoom=step:61"));
      await page.getByText("full range").waitFor(); // the needle leaves the zoomed frame too
    }));

  test("the tooltip has the bucket's numbers, at most eight rows, and lies beside the pointer", () =>
    on(`${a0}?with=${Array.from({ length: 11 }, (_, i) => ulid(`A/${i + 1}`)).join()}`, async (page) => {
      await settled(page, 8);
      const box = (await plot(page, "eval/loss").boundingBox())!;
      await page.mouse.move(box.x + 100, box.y + 60);
      await page.mouse.move(box.x + 101, box.y + 60);
      await page.waitForSelector(".tip");
      expect(await page.locator(".tip tr").count()).toBe(8);
      expect(await page.locator(".tip").innerText()).toContain("+4 more lines");
      const tip = (await page.locator(".tip").boundingBox())!;
      const over = tip.x < box.x + 101 && tip.x + tip.width > box.x + 101;
      expect(over).toBe(false);
      // Every other chart's cursor stands at the same place.
      const cursors = await page
        .locator(".u-cursor-x")
        .evaluateAll((all) => all.map((e) => (e as HTMLElement).style.transform));
      expect(new Set(cursors.map((t) => t.slice(0, 16))).size).toBeLessThanOrEqual(3);
      expect(cursors.every((t) => t && !t.includes("-10px"))).toBe(true);
      await shot(page, "tooltip");
    }));

  test("what the page draws is what the plainest scan of the data gives", () =>
    on(a0, async (page) => {
      const answer = page.waitForResponse((r) => r.url().endsWith("/buckets"));
      const res = await answer;
      const { queries } = res.request().postDataJSON() as { queries: { metric: string; n: number }[] };
      const spec = at.handler.standin.world.runs
        .get(ulid("A/0"))!
        .series.find((s) => s.metric === queries[0]!.metric)!;
      const want = buckets(spec.make(1), "step", queries[0]!.n);
      const got = ((await res.json()) as { results: { columns: typeof want }[] }).results[0]!.columns;
      expect(got.max).toEqual(want.max);
      await settled(page, 8);
      const points = await page
        .locator(`.card[data-metric="${queries[0]!.metric}"]`)
        .getAttribute("data-points");
      expect(Number(points)).toBe(2000);
    }));

  test("search by path template and by regular expression; no match says so and clears", () =>
    on(a0, async (page) => {
      await settled(page, 8);
      await page.keyboard.press("/");
      await page.keyboard.type("layers/*/grad_norm");
      await expect.poll(() => page.locator(".group-head").allInnerTexts()).toEqual(["layers\n6"]);
      await page.getByLabel("Search metrics").fill("loss|acc");
      await expect
        .poll(() => page.locator(".card h3").allInnerTexts())
        .toEqual(["eval/accuracy", "eval/loss", "train/accuracy", "train/loss"]);
      await page.getByLabel("Search metrics").fill("nothing-like-it");
      await page.getByText("No metric matches").waitFor();
      await page.getByRole("button", { name: "clear" }).click();
      await settled(page, 8);
      await page.getByLabel("Search metrics").fill("loss(");
      await page.getByText("The search is no regular expression").waitFor();
    }));

  test("keys: move, full screen, next, log, close, theme, help", () =>
    on(a0, async (page) => {
      await settled(page, 8);
      await page.mouse.move(700, 60);
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("f");
      await page.waitForSelector(".full .card[data-drawn]");
      expect(search(page).get("chart")).toBe("eval/loss");
      await page.waitForTimeout(300);
      await shot(page, "full-screen");
      await page.keyboard.press("]");
      await page.waitForFunction(() => location.search.includes("layers/0/grad_norm"));
      await page.keyboard.press("l");
      await page.waitForFunction(() => location.search.includes("log=layers/0/grad_norm"));
      await page.waitForTimeout(300);
      await shot(page, "full-screen-log");
      await page.keyboard.press("Escape");
      await page.waitForSelector(".full", { state: "detached" });
      await page.keyboard.press("t");
      expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await shot(page, "help");
      await page.keyboard.press("Escape");
      await page.keyboard.press("g");
      await page.keyboard.press("r");
      await page.waitForSelector(".table-scroll .row a");
      expect(new URL(page.url()).pathname).toBe("/projects/default/A");
    }));

  test("smoothing is off by default and drawn over the raw line when asked for", () =>
    on(a0, async (page) => {
      await settled(page, 8);
      expect(await page.getByLabel("Smoothing").inputValue()).toBe("");
      await page.getByLabel("Smoothing").selectOption("gauss:0.03");
      await page.waitForTimeout(200);
      expect(search(page).get("smooth")).toBe("gauss:0.03");
      await shot(page, "smoothed");
    }));

  test("axes: every one of the series, wall and relative", () =>
    on(`/runs/${ulid("rl")}`, async (page) => {
      await settled(page, 3);
      const options = await page.getByLabel("X axis").locator("option").allInnerTexts();
      expect(options).toEqual(["step", "episode", "rl_step", "wall time", "relative time"]);
      const asked = page.waitForRequest((r) => r.url().endsWith("/buckets"));
      await page.getByLabel("X axis").selectOption("rl_step");
      const { queries } = (await asked).postDataJSON() as { queries: { metric: string; x: string }[] };
      expect(new Set(queries.filter((q) => q.metric === "episode/return").map((q) => q.x))).toEqual(
        new Set(["rl_step"]),
      );
      await page.getByLabel("X axis").selectOption("relative");
      await page.waitForTimeout(400);
      await shot(page, "relative");
    }));

  test("switching the axis draws what a reload draws", () =>
    on(`${a0}?q=^train/loss$&with=${ulid("A/1")}`, async (page) => {
      const picture = async () => {
        await settled(page, 1);
        await page.mouse.move(5, 5);
        await page.waitForTimeout(300);
        return page.locator(".card canvas").evaluate((c) => (c as HTMLCanvasElement).toDataURL());
      };
      const whole = new Map<string, string>();
      for (const axis of ["step", "wall", "relative"]) {
        await page.goto(`${at.url}${a0}?q=^train/loss$&with=${ulid("A/1")}&x=${axis}`);
        whole.set(axis, await picture());
      }
      expect(new Set(whole.values()).size).toBe(3);
      // The page stands on relative time.
      for (const axis of ["wall", "relative", "step", "wall", "step", "relative", "wall"]) {
        await page.getByLabel("X axis").selectOption(axis);
        expect((await picture()) === whole.get(axis), `switched to ${axis}`).toBe(true);
      }
    }));

  test("one of fifty grey runs comes forward in its hue: under the pointer, in the list, and pinned", () =>
    on(
      `${a0}?q=^train/loss$&with=${Array.from({ length: 49 }, (_, i) => ulid(`A/${i + 1}`)).join()}`,
      async (page) => {
        await settled(page, 1);
        await page.waitForFunction(() => document.querySelectorAll(".panel-item.shown").length === 50);
        await page.waitForTimeout(1500);
        // The drawn runs fill the panel: the list of all comes when it is wanted.
        expect(await page.locator(".panel-item:not(.shown)").count()).toBe(0);
        await page.getByRole("button", { name: "show more runs" }).click();
        await page.getByRole("button", { name: "show more runs" }).waitFor({ state: "detached" });
        // The pixels of a hue, which no grey line has.
        const hued = (colour: string) =>
          page.locator(".card canvas").evaluate((c, hex) => {
            const { width, height } = c as HTMLCanvasElement;
            const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true })!;
            copy.drawImage(c as HTMLCanvasElement, 0, 0);
            const { data } = copy.getImageData(0, 0, width, height);
            const want = [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16));
            let n = 0;
            for (let i = 0; i < data.length; i += 4)
              if (want.every((v, k) => Math.abs(v - data[i + k]!) < 6)) n++;
            return n;
          }, colour);
        const item = page.locator(".panel-item.shown").nth(3);
        const blue = "#069ce4"; // the fourth
        const before = await hued(blue);
        await page.mouse.move(5, 5);
        await item.hover();
        await expect.poll(() => hued(blue)).toBeGreaterThan(before + 300);
        await shot(page, "crowd-forward");
        // The pointer on a line brings that run forward too, and its going takes it back.
        await page.mouse.move(700, 20);
        await expect.poll(() => hued(blue)).toBe(before);
        await shot(page, "crowd");
        const box = (await plot(page, "train/loss").boundingBox())!;
        const grey = await page.locator(".card canvas").evaluate((c) => (c as HTMLCanvasElement).toDataURL());
        await page.mouse.move(box.x + box.width / 2, box.y + box.height - 30);
        await page.mouse.move(box.x + box.width / 2 + 1, box.y + box.height - 30);
        await expect
          .poll(() => page.locator(".card canvas").evaluate((c) => (c as HTMLCanvasElement).toDataURL()))
          .not.toBe(grey);
        await shot(page, "crowd-pointed");
        await page.mouse.move(700, 20);
        await item.getByRole("button", { name: /in front/ }).click();
        await page.mouse.move(700, 20);
        await expect.poll(() => hued(blue)).toBeGreaterThan(before + 300);
        expect(search(page).get("pin")).toBe(ulid("A/3"));
      },
    ));

  test("saves PNG, SVG and CSV", () =>
    on(c, async (page) => {
      await settled(page, 1);
      for (const kind of ["PNG", "SVG", "CSV"]) {
        await page.locator(".card").hover();
        await page.getByLabel("Save train/loss").click();
        const download = page.waitForEvent("download");
        await page.getByText(`Save as ${kind}`).click();
        const file = await download;
        expect(file.suggestedFilename()).toBe(`train_loss.${kind.toLowerCase()}`);
        const data = readFileSync((await file.path())!);
        if (kind === "PNG") expect(data.subarray(1, 4).toString()).toBe("PNG");
        if (kind === "SVG") expect(data.toString()).toContain("<path d=");
        if (kind === "CSV") expect(data.toString()).toContain(",1000,");
      }
    }));

  test("of five thousand charts only those in view are made", () =>
    on(`/runs/${ulid("B")}`, async (page) => {
      await settled(page, 12);
      await page.waitForFunction(() => document.querySelector(".tabs")?.textContent?.includes("5,000"));
      expect(await page.locator(".card").count()).toBeLessThan(40);
      await page.locator(".grid-scroll").evaluate((el) => (el.scrollTop = 120_000));
      await page.waitForFunction(() => document.querySelectorAll(".card[data-drawn] canvas").length >= 12);
      expect(await page.locator(".card").count()).toBeLessThan(40);
      expect((await page.locator(".group-head").boundingBox())!.y).toBeLessThan(160); // it sticks
    }));

  test("a chart that waits reserves its place and shows a bar after 400 ms, never a spinner", async () => {
    const slow = await host({ delayMs: 1500 });
    const tab = await open(browser);
    await tab.page.goto(slow.url + a0);
    await tab.page.waitForSelector(".card .progress");
    expect(await tab.page.locator(".card[data-drawn]").count()).toBeGreaterThan(8); // the preview lines
    await shot(tab.page, "waiting");
    await tab.page.waitForSelector(".card .progress", { state: "detached" });
    await tab.context.close();
    slow.close();
  });
});

describe("runs over one another", () => {
  test("the panel adds and takes away; a run keeps its colour", () =>
    on(a0, async (page) => {
      await settled(page, 8);
      await page.getByLabel("Draw warm-wren-49").click();
      await page.getByLabel("Draw swift-wren-48").click();
      await page.getByLabel("Hide warm-wren-49").click();
      await expect.poll(() => search(page).get("with")).toBe(`${ulid("A/48")}~2`);
      const colour = await page.locator(".panel-item.shown:has-text('swift') line").getAttribute("stroke");
      expect(colour).toBe("#541791");
    }));

  test("attributes: only what differs", () =>
    on(`${a0}?with=${ulid("A/1")}&tab=attributes`, async (page) => {
      await page.waitForSelector(".attributes");
      await expect
        .poll(() => page.locator("tr.differs td:first-child").allInnerTexts())
        .toEqual(["lr", "width", "optimizer", "seed"]);
      await page.getByLabel("only differences").uncheck();
      await expect.poll(() => page.locator(".attributes tr").count()).toBeGreaterThan(8);
      await page.getByLabel("Search attributes").fill("python");
      await expect.poll(() => page.locator(".attributes td[title]").first().innerText()).toBe("python");
    }));

  test("attributes: a hundred thousand, a thousand lines at a time", () =>
    on(`/runs/${ulid("lost")}?tab=attributes`, async (page) => {
      await page.waitForSelector(".attributes");
      const rows = page.locator(".attributes tbody tr");
      expect(await rows.count()).toBe(1000);
      await page.getByText("show 1,000 more").click();
      await expect.poll(() => rows.count()).toBe(2000);
      await page.getByLabel("Search attributes").fill("table/99999/");
      await expect.poll(() => rows.allInnerTexts()).toEqual(["config", "table", "99999", "value\t99,999"]);
    }));
});

describe("table of runs", () => {
  test("a hundred thousand rows: few elements, pages as one scrolls, keys and selection", () =>
    on("/projects/default/huge", async (page) => {
      await page.waitForSelector(".row a");
      expect(await page.locator(".row").count()).toBeLessThan(80);
      await expect.poll(() => page.locator(".rows").evaluate((el) => el.clientHeight)).toBe(2_800_000);
      await page.locator(".table-scroll").evaluate((el) => (el.scrollTop = 28 * 2000));
      await page.waitForFunction(() =>
        [...document.querySelectorAll(".row a")].some((a) => a.textContent === "run-2005"),
      );
      await page.locator(".table-scroll").evaluate((el) => (el.scrollTop = 0));
      for (const key of ["j", "x", "j", "j", "x"]) await page.keyboard.press(key);
      await page.getByText("2 selected").waitFor();
      await shot(page, "selected");
      await page.keyboard.press("Enter");
      await page.waitForFunction(
        () => location.pathname.startsWith("/runs/") && location.search.includes("with="),
      );
    }));

  test("filter, status, sort by a summary, columns", () =>
    on("/projects/default/A", async (page) => {
      await page.waitForSelector(".row a");
      await page.getByRole("button", { name: "eval/accuracy", exact: true }).click();
      await expect.poll(() => page.locator(".row").first().innerText()).toContain("0.01");
      const best = (await page.locator(".row").first().innerText()).split("\n");
      expect(best.some((t) => /^★0\.9[5-9]/.test(t))).toBe(true);
      await shot(page, "best-run");
      await page.getByLabel("Filter runs").fill("lr=0.3");
      await expect.poll(() => page.locator(".total").innerText()).toBe("10 runs");
      await page.getByLabel("Status", { exact: true }).selectOption("failed");
      await expect
        .poll(() => page.locator(".row .status").allInnerTexts())
        .toSatisfy((all: string[]) => all.every((t) => t.includes("failed")));
      await page.getByLabel("Filter runs").fill("no-such-run");
      await page.getByText("No run matches").waitFor();
      await page.getByRole("button", { name: "clear" }).click();
      await page.waitForSelector(".row a");
      await page.getByRole("button", { name: "columns" }).click();
      await page.getByLabel("Find a column").fill("batch");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "batch_size", exact: true }).waitFor();
      await shot(page, "columns");
    }));

  test("an empty project shows the command that fills it", () =>
    on("/projects/default/empty", async (page) => {
      await page.getByText("No runs yet").waitFor();
      const text = () => page.locator(".command code").innerText();
      expect((await text()).split("\n")).toHaveLength(5);
      expect(await text()).toContain('project_name="empty"');
      await page.getByRole("button", { name: "fill a key in" }).click();
      await page.getByText("It is shown only now").waitFor();
      expect(await text()).toMatch(/api_key="[0-9a-f]{40}"/);
    }));
});

describe("live", () => {
  test("a new point is drawn within a second, by one stream for two tabs, and a hidden card asks for nothing", async () => {
    const here = await host();
    const { standin } = here.handler;
    const run = standin.world.runs.get(ulid("A/2"))!;
    run.status = "running";
    const context = await browser.newContext();
    const [one, two] = [await context.newPage(), await context.newPage()];
    const path = `${here.url}/runs/${run.id}?q=^train/loss$`;
    await one.goto(path);
    await two.goto(path);
    await one.bringToFront();
    await one.waitForSelector(".card[data-drawn]");
    await expect.poll(() => standin.listeners.size).toBe(1);
    await one.waitForTimeout(800);
    const asked: string[] = [];
    one.on("request", (r) => r.url().endsWith("/buckets") && asked.push(r.postData() ?? ""));
    const start = Date.now();
    standin.append({ run, points: 40_000 }, () => 0.123);
    await one.waitForFunction(() => document.querySelector(".card .last")?.textContent === "0.123");
    expect(Date.now() - start).toBeLessThan(1000);
    await one.waitForFunction(() => document.querySelector<HTMLElement>(".card")?.dataset.points === "2001");
    expect(asked.every((q) => q.includes("train/loss") && !q.includes("layers"))).toBe(true);
    // The leader goes; the other tab takes the stream over.
    await one.close();
    await expect.poll(() => standin.listeners.size, { timeout: 5000 }).toBe(1);
    standin.append({ run, points: 40_020 }, () => 0.456);
    await two.waitForFunction(() => document.querySelector(".card .last")?.textContent === "0.456");
    await context.close();
    here.close();
  });
});

describe("keys of the server", () => {
  const key = "0123456789abcdef0123456789abcdef01234567";
  test("without a key the page asks for one; a wrong one is asked for again", async () => {
    const closed = await host({ key });
    const tab = await open(browser);
    await tab.page.goto(closed.url + a0);
    await tab.page.getByLabel("This server wants a key.").fill(key.replace("0", "f"));
    await tab.page.getByRole("button", { name: "Sign in" }).click();
    await tab.page.getByLabel("This server wants a key.").waitFor();
    await shot(tab.page, "key");
    await tab.page.getByLabel("This server wants a key.").fill(key);
    await tab.page.getByRole("button", { name: "Sign in" }).click();
    await settled(tab.page, 8);
    await tab.context.close();
    closed.close();
  });
  test("the one-time link signs in and leaves no token in the history", async () => {
    const closed = await host({ key });
    const tab = await open(browser);
    await tab.page.goto(`${closed.url}/login#good`);
    await tab.page.getByRole("link", { name: "huge" }).waitFor();
    expect(tab.page.url()).not.toContain("good");
    await tab.page.goto(`${closed.url}/login#used`);
    await tab.page.getByText("this link was used or is too old").waitFor();
    await tab.context.close();
    closed.close();
  });

  test("signing out ends the session, of a link and of a key", async () => {
    const closed = await host({ key });
    const tab = await open(browser);
    await tab.page.goto(`${closed.url}/login#good`);
    await tab.page.getByRole("link", { name: "huge" }).waitFor();
    await tab.page.getByRole("button", { name: "Sign out" }).click();
    await tab.page.getByLabel("This server wants a key.").fill(key);
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("link", { name: "huge" }).waitFor();
    await tab.page.getByRole("button", { name: "Sign out" }).click();
    await tab.page.getByLabel("This server wants a key.").waitFor();
    expect(await tab.page.evaluate(() => sessionStorage.length)).toBe(0);
    await tab.context.close();
    closed.close();
  });
});

describe("what goes wrong is said", () => {
  test("an unknown run and an unknown page", async () => {
    const { page, context } = await open(browser);
    await page.goto(`${at.url}/runs/${ulid("nobody")}`);
    await page.getByText("there is no run").waitFor();
    await page.goto(`${at.url}/nowhere`);
    await page.getByText("There is no page").waitFor();
    await context.close();
  });
});

describe("accessible", () => {
  const views = [
    "/",
    "/projects/default/A",
    a0,
    c,
    `${a0}?with=${ulid("A/1")}&tab=attributes`,
    `/runs/${ulid("rl")}?tab=writers`,
    `${c}?chart=train/loss`,
  ];
  for (const [i, path] of views.entries())
    test(`contrast, names and roles of ${path}`, () =>
      on(path, async (page) => {
        await page.waitForTimeout(900);
        await inBothThemes(page, `accessible-${i}`, ["wcag2a", "wcag2aa", "best-practice"]);
      }));
});
