import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { inBothThemes, open, settled, shot } from "./host.ts";
import { at, browser, on } from "./stage.ts";

const fifty = Array.from({ length: 49 }, (_, i) => ulid(`A/${i + 1}`)).join();
const over = `/runs/${ulid("A/0")}?with=${fifty}`;
const sweep = "/compare/default/sweep";

const search = (page: Page) => new URL(page.url()).searchParams;
const layers = (page: Page, metric: string) =>
  page.locator(`.card[data-metric="${metric}"]`).first().getAttribute("data-layers");
const picture = (page: Page) =>
  page
    .locator(".card canvas")
    .first()
    .evaluate((c) => (c as HTMLCanvasElement).toDataURL());

/** Waits until a picture stays as it is, and gives it. */
async function still(page: Page): Promise<string> {
  let before = "";
  await expect
    .poll(
      async () => {
        const now = await picture(page);
        const same = now === before;
        before = now;
        return same && (await page.locator(".progress").count()) === 0;
      },
      { timeout: 20_000, interval: 400 },
    )
    .toBe(true);
  return before;
}

describe("groups of runs", () => {
  test("the offer names the key that separates the runs, and one click takes it", () =>
    on(`${over}&q=eval/accuracy`, async (page) => {
      await settled(page, 1);
      const offer = page.locator(".offer");
      await offer.waitFor();
      expect(await offer.innerText()).toMatch(/^colour by lr – separates best \(0\.\d\d\)$/);
      expect(search(page).get("by")).toBeNull(); // nothing is taken silently
      expect(await layers(page, "eval/accuracy")).toBe("1");
      await offer.click();
      await expect.poll(() => search(page).get("by")).toBe("config/lr");
      await expect.poll(() => layers(page, "eval/accuracy")).toBe("5");
      expect(
        (await page.locator(".legend-entry").allInnerTexts()).map((t) => t.replace(/\s+/g, " ")),
      ).toEqual(["0.003 (10)", "0.01 (10)", "0.03 (10)", "0.1 (10)", "0.3 (10)"]);
    }));

  test("a new start of the server's news is a few requests, however many runs are shown", () =>
    on(`${sweep}?tab=charts`, async (page) => {
      await settled(page, 1);
      await expect.poll(() => page.locator(".compare-runs .panel-item").count()).toBeGreaterThan(190);
      const asked: string[] = [];
      page.on("request", (r) => /\/runs\/|overviews/.test(r.url()) && asked.push(new URL(r.url()).pathname));
      for (let n = -1; n < asked.length; await page.waitForTimeout(2500)) n = asked.length; // and details rest for 2 s
      asked.length = 0;
      await page.evaluate(() =>
        new BroadcastChannel("kymogram-live").postMessage({ type: "event", event: "reset", data: null }),
      );
      await expect.poll(() => asked.length).toBeGreaterThan(0);
      await page.waitForTimeout(4000); // the look after the last event of a burst, too
      expect(asked.length).toBeLessThan(12);
    }));

  test("a legend entry hides, shows and isolates its group, by pointer and by keys; the address keeps it", () =>
    on(`${over}&q=eval/accuracy&by=config/lr`, async (page) => {
      await settled(page, 1);
      const entry = page.getByRole("button", { name: "0.01 (10)" });
      await entry.click();
      await expect.poll(() => search(page).get("off")).toBe("0.01");
      expect(await entry.getAttribute("aria-pressed")).toBe("false");
      await page.getByText("40 of 50 runs").waitFor();
      await expect.poll(() => layers(page, "eval/accuracy")).toBe("4");
      await page.reload();
      await settled(page, 1);
      await page.getByText("40 of 50 runs").waitFor();
      await expect.poll(() => layers(page, "eval/accuracy")).toBe("4");
      await page.getByRole("button", { name: "0.01 (10)" }).dblclick();
      await page.getByText("10 of 50 runs").waitFor();
      await expect.poll(() => layers(page, "eval/accuracy")).toBe("1");
      await page.getByRole("button", { name: "0.01 (10)" }).dblclick();
      await expect.poll(() => search(page).get("off")).toBeNull();
      await page.getByRole("button", { name: "0.3 (10)" }).focus();
      await page.keyboard.press("Space");
      await expect.poll(() => search(page).get("off")).toBe("0.3");
      await page.keyboard.press("Space");
      await page.keyboard.press("Shift+Enter");
      await page.getByText("10 of 50 runs").waitFor();
      expect(search(page).get("off")).toBe("0.003,0.01,0.03,0.1");
    }));

  test("pointing at a legend entry brings its group forward", () =>
    on(`${over}&q=eval/accuracy&by=config/lr`, async (page) => {
      await settled(page, 1);
      await page.mouse.move(5, 5);
      const before = await still(page);
      await page.getByRole("button", { name: "0.3 (10)" }).hover();
      await expect.poll(() => picture(page)).not.toBe(before);
      await shot(page, "group-forward");
      await page.mouse.move(5, 5);
      await expect.poll(() => picture(page)).toBe(before);
    }));

  test("the tooltip has line, band, N and sum of every group, which are those of the runs", () =>
    on(`${over}&q=^eval/accuracy$&by=config/lr&stat=range&zoom=step:1990:1999`, async (page) => {
      await settled(page, 1);
      await expect.poll(() => layers(page, "eval/accuracy")).toBe("5");
      const box = (await page.locator(".card .u-over").boundingBox())!;
      await page.mouse.move(box.x + box.width - 3, box.y + 60);
      await page.mouse.move(box.x + box.width - 2, box.y + 60);
      await page.waitForSelector(".tip-groups");
      const rows = await page
        .locator(".tip-groups tbody tr")
        .evaluateAll((all) => all.map((r) => [...r.querySelectorAll("td")].map((d) => d.textContent ?? "")));
      expect(rows.map((r) => [r[1], r[4]])).toEqual(
        ["0.003", "0.01", "0.03", "0.1", "0.3"].map((l) => [l, "10"]),
      );
      const { world } = at.handler.standin;
      const last = (lr: number) =>
        [...world.runs.values()]
          .filter((r) => r.project === "A" && r.config.lr === lr)
          .map(
            (r) =>
              r.series
                .find((s) => s.metric === "eval/accuracy")!
                .make(r.attempts)
                .value.at(-1)!,
          );
      for (const [, label, mean, band, , sum] of rows) {
        const values = last(Number(label));
        const total = values.reduce((a, b) => a + b);
        expect(Math.abs(Number(mean) - total / 10)).toBeLessThan(2e-3);
        expect(Math.abs(Number(sum) - total)).toBeLessThan(2e-2);
        const [low, high] = band!.split(" … ").map(Number) as [number, number];
        expect(Math.abs(low - Math.min(...values))).toBeLessThan(2e-3);
        expect(Math.abs(high - Math.max(...values))).toBeLessThan(2e-3);
      }
    }));

  test("members are lines, a density or none; every statistic draws", () =>
    on(`${over}&q=^eval/loss$&by=config/optimizer`, async (page) => {
      await settled(page, 1);
      await page.waitForTimeout(1000);
      const seen = new Set<string>();
      for (const draw of ["", "lines", "none"]) {
        await page.getByLabel("Members").selectOption(draw);
        await page.waitForTimeout(400);
        seen.add(await picture(page));
      }
      expect(seen.size).toBe(3);
      for (const stat of ["deciles", "std", "stderr", "range", "iqm"]) {
        await page.getByLabel("Line and band of a group").selectOption(stat);
        await page.waitForTimeout(400);
        seen.add(await picture(page));
      }
      expect(seen.size).toBe(8);
      expect(search(page).get("stat")).toBe("iqm");
    }));

  test("splits a chart by a key: a card for each value, all with one y range", () =>
    on(`${over}&q=^eval/accuracy$&split=config/lr`, async (page) => {
      await settled(page, 5);
      expect((await page.locator(".card h3 .part").allInnerTexts()).map((t) => t.trim())).toEqual([
        ...["0.003", "0.01", "0.03", "0.1", "0.3"],
      ]);
      await page.waitForTimeout(1500);
      // One scale: the five cards have the same grid and the same labels, which are left of the curves.
      const scales = await page.locator(".card canvas").evaluateAll((all) =>
        all.map((c) => {
          const canvas = c as HTMLCanvasElement;
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d")!;
          copy.drawImage(canvas, 0, 0);
          return [...copy.getImageData(0, 0, 30, canvas.height).data].join();
        }),
      );
      expect(new Set(scales).size).toBe(1);
      await shot(page, "split");
    }));

  test("above 24 values the page asks before it splits into all", async () => {
    const runs = at.handler.standin.world.projects.get("default/A")!;
    for (const run of runs) run.config.host = `host-${run.name}`;
    await on("/compare/default/A?tab=charts&q=^eval/accuracy$&split=config/host", async (page) => {
      const ask = page.getByText("24 of 50 values of host have a chart");
      await ask.waitFor();
      await page.getByRole("button", { name: "show all" }).click();
      await ask.waitFor({ state: "detached" });
      expect(search(page).get("splitall")).toBe("1");
      const charts = () => page.locator(".group-head .muted").first().innerText();
      await expect.poll(charts, { timeout: 20_000 }).toBe("50"); // as the runs come
    });
    for (const run of runs) delete run.config.host;
  });
});

describe("the compare page", () => {
  test("says the best run, what matters, and draws scatter, axes and curves of 200 runs", () =>
    on(sweep, async (page) => {
      await page.waitForSelector(".answer");
      const runs = at.handler.standin.world.projects.get("default/sweep")!;
      const best = [...runs].sort(
        (a, b) => (a.summary["eval/loss"]!.value as number) - (b.summary["eval/loss"]!.value as number),
      )[0]!;
      const answer = await page.locator(".answer").innerText();
      expect(answer).toContain(`· ${best.name}`);
      expect(answer).toMatch(/ with lr [0-9.e−]+/);
      expect(answer).not.toContain("seed"); // which explains nothing
      expect(await page.locator(".importance tbody .name").first().innerText()).toBe("lr");
      expect(await page.locator(".scatter circle").count()).toBeGreaterThanOrEqual(200);
      expect(await page.locator(".parallel path[data-run]").count()).toBe(200);
      await settled(page, 1);
      await expect.poll(() => layers(page, "eval/loss"), { timeout: 15_000 }).toBe("1");
      await shot(page, "compare-sweep");
    }));

  test("the panel shows each run in the colour of its line, and a crowd in grey until one is in front", () =>
    on(`/compare/default/A?runs=${[1, 2, 3].map((i) => ulid(`A/${i}`)).join()}&tab=charts`, async (page) => {
      await settled(page, 4);
      const strokes = await page
        .locator(".compare-runs .line-swatch line")
        .evaluateAll((all) => all.map((e) => getComputedStyle(e).stroke));
      expect(new Set(strokes).size).toBe(3);
      const painted = await page
        .locator(".card canvas")
        .first()
        .evaluate((el) => {
          const { width, height } = el as HTMLCanvasElement;
          const copy = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d")!;
          copy.drawImage(el as HTMLCanvasElement, 0, 0);
          const { data } = copy.getImageData(0, 0, width, height);
          const seen: Record<string, number> = {};
          for (let i = 0; i < data.length; i += 4) {
            const color = `rgb(${data.slice(i, i + 3).join(", ")})`;
            seen[color] = (seen[color] ?? 0) + 1;
          }
          return seen;
        });
      for (const stroke of strokes) expect(painted[stroke] ?? 0, stroke).toBeGreaterThan(20);
      await page.goto(`${at.url}/compare/default/A?tab=charts`);
      await page.locator(".compare-runs .swatch").nth(40).waitFor();
      const dot = (nth: number) =>
        page
          .locator(".compare-runs .swatch")
          .nth(nth)
          .evaluate((e) => getComputedStyle(e).backgroundColor);
      expect(await dot(2)).toBe(await dot(9));
      await page.locator(".compare-runs .panel-item").nth(9).hover();
      await expect.poll(async () => (await dot(2)) === (await dot(9))).toBe(false);
    }));

  test("full screen has the legend of the groups, which hides and shows them", () =>
    on(`${sweep}?tab=charts&by=config/lr&chart=eval/loss`, async (page) => {
      const entries = page.getByRole("dialog").locator(".legend-entry");
      await entries.first().waitFor();
      const strip = await page.locator(".group-strip .legend-entry").allInnerTexts();
      expect(await entries.allInnerTexts()).toEqual(strip);
      await entries.first().click();
      await expect.poll(() => search(page).get("off")).not.toBeNull();
      expect(await entries.first().getAttribute("aria-pressed")).toBe("false");
    }));

  test("the best value of a parameter is never cut on a screen of a desk", () =>
    on(sweep, async (page) => {
      for (const width of [1024, 1100, 1280, 1399, 1400, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        await page.waitForSelector(".importance .best strong");
        const cut = await page.evaluate(() => {
          const inside = document.querySelector(".importance")!.closest(".block")!.getBoundingClientRect();
          return [...document.querySelectorAll(".importance tr > *")].filter(
            (e) => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > inside.right,
          ).length;
        });
        expect(cut, `${width} px`).toBe(0);
      }
    }));

  test("a direction that is changed turns the answer round, and stays in this project", () =>
    on(sweep, async (page) => {
      await page.waitForSelector(".answer");
      const before = await page.locator(".answer").innerText();
      await page.getByLabel("What is better for eval/loss").selectOption("up");
      await expect.poll(() => page.locator(".answer").innerText()).not.toBe(before);
      const value = async () =>
        Number(await page.locator(".compare-runs .panel-item .number").first().innerText());
      expect(await value()).toBeGreaterThan(0.8);
      await page.reload();
      await page.waitForSelector(".answer");
      expect(await page.getByLabel("What is better for eval/loss").inputValue()).toBe("up");
    }));

  test("windows on axes keep runs, by keys and by drag, in the address", () =>
    on(sweep, async (page) => {
      await page.waitForSelector(".parallel-axis");
      const top = page.getByRole("slider", { name: "Highest lr that is kept" });
      await top.focus();
      for (let i = 0; i < 8; i++) await page.keyboard.press("ArrowDown");
      await expect.poll(() => search(page).get("brush")).toBe("config/lr~0~0.6");
      const text = await page.getByText("runs kept · clear").innerText();
      const kept = Number(text.split(" ")[0]);
      const highest = Number((await top.getAttribute("aria-valuetext"))!);
      const want = at.handler.standin.world.projects
        .get("default/sweep")!
        .filter((r) => (r.config.lr as number) <= highest).length;
      expect(Math.abs(kept - want)).toBeLessThanOrEqual(1); // the text has four digits
      await page.reload();
      await page.getByText(text).waitFor();
      const box = (await top.boundingBox())!;
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2 + 60, { steps: 4 });
      await page.mouse.up();
      await expect.poll(() => search(page).get("brush")).not.toBe("config/lr~0~0.6");
      await page.getByText("runs kept · clear").click();
      await expect.poll(() => search(page).get("brush")).toBeNull();
    }));

  test("one run of 200 comes forward everywhere within 50 ms of being pointed at", () =>
    on(sweep, async (page) => {
      await page.waitForSelector(".answer");
      const points = () => page.locator(".card").first().getAttribute("data-points");
      await expect.poll(points, { timeout: 40_000 }).toBe(String(200 * 300)); // every run is there
      await still(page);
      const [hovers, cdp] = [20, await page.context().newCDPSession(page)];
      // What a busy machine does meanwhile is not counted.
      await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
      const busyMs = async () => {
        const { metrics } = await cdp.send("Performance.getMetrics");
        return 1000 * metrics.find((m) => m.name === "TaskDuration")!.value;
      };
      const point = (from: number, to: number) =>
        page.evaluate(
          async ([first, last]) => {
            const items = [...document.querySelectorAll(".compare-runs .panel-item")].slice(first, last);
            for (const item of items) {
              item.dispatchEvent(new MouseEvent("mouseenter"));
              await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            }
          },
          [from, to],
        );
      await point(0, 5);
      const before = await busyMs();
      await point(5, 5 + hovers);
      const per = ((await busyMs()) - before) / hovers;
      expect(per).toBeLessThan(50);
      // Each of them is another picture.
      const seen = new Set<string>();
      for (let i = 30; i < 34; i++) {
        await point(i, i + 1);
        seen.add(await picture(page));
      }
      expect(seen.size).toBe(4);
    }));

  test("keys: g c from the runs and from a run, arrows in the scatter, p pins", () =>
    on("/projects/default/sweep", async (page) => {
      await page.waitForSelector(".row");
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await page.waitForSelector(".scatter circle");
      expect(new URL(page.url()).pathname).toBe(sweep);
      await page.locator(".scatter svg").focus();
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      const caption = await page.locator(".scatter .note").innerText();
      expect(caption).toMatch(/^r\d+ · lr 0\.0001\d* · eval\/loss/);
      await page.keyboard.press("p");
      await expect.poll(() => search(page).get("pin")).not.toBeNull();
      expect(await page.locator(".compare-runs .pin[aria-pressed=true]").count()).toBe(1);
    }));

  test("a run that trains and becomes the best is named within seconds", () =>
    on(sweep, async (page) => {
      await page.waitForSelector(".answer");
      const run = at.handler.standin.world.projects.get("default/sweep")![123]!;
      const before = run.summary;
      run.summary = { ...before, "eval/loss": { step: 300, value: 0.001 } };
      at.handler.standin.append({ run, points: 0 }, () => 0.001);
      await expect.poll(() => page.locator(".answer").innerText(), { timeout: 15_000 }).toContain("r123");
      run.summary = before;
    }));

  test("from the runs' table: those that are selected, or those that the filter finds", () =>
    on("/projects/default/A", async (page) => {
      await page.waitForSelector(".row");
      for (const i of [0, 1, 2]) await page.locator(".row input[type=checkbox]").nth(i).click();
      await page.getByRole("button", { name: "compare", exact: true }).click();
      await page.getByText("best of 3 runs").waitFor();
      await page.goto(`${at.url}/projects/default/A?q=optimizer=sgd`);
      await page.waitForSelector(".row");
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await page.getByText("best of 25 runs").waitFor();
    }));

  test("an eye hides a run from every picture; the tabs have curves and differences", () =>
    on("/compare/default/A", async (page) => {
      await page.waitForSelector(".answer");
      const best = (await page.locator(".answer a").innerText()).trim();
      await page.getByRole("button", { name: `Hide ${best}` }).click();
      await expect.poll(() => page.locator(".answer").innerText()).not.toContain(best);
      await page.getByText("best of 49 runs").waitFor();
      await page.getByRole("tab", { name: "Differences" }).click();
      await page.locator(".attributes td", { hasText: "optimizer" }).waitFor();
      expect(await page.locator(".attributes thead th").count()).toBe(50);
      await expect.poll(() => page.locator(".attributes td", { hasText: "batch_size" }).count()).toBe(0);
      await page.getByRole("tab", { name: "Charts" }).click();
      await settled(page, 4);
      expect(search(page).get("tab")).toBe("charts");
    }));

  test("some runs of a project, and a filter that finds none", () =>
    on(`/compare/default/A?runs=${ulid("A/1")},${ulid("A/2")},${ulid("A/6")}`, async (page) => {
      await page.getByText("best of 3 runs").waitFor();
      await page.getByLabel("Filter runs").fill("nothing-like-it");
      await page.getByText("No run matches: 3 left out by the filter.").waitFor();
      await page.getByRole("button", { name: "compare all runs" }).click();
      await page.getByText("best of 50 runs").waitFor();
    }));

  test("names that are HTML are shown as they are", async () => {
    const evil = '<img src=x onerror="window.hit=1">';
    const run = at.handler.standin.world.projects.get("default/fork")![0]!;
    const before = { name: run.name, config: run.config };
    Object.assign(run, { name: evil, config: { ...run.config, [evil]: evil, __proto__x: 1 } });
    await on(`/compare/default/fork?by=${encodeURIComponent(`config/${evil}`)}`, async (page) => {
      await page.waitForSelector(".compare-runs .panel-item");
      expect(await page.locator(".compare-runs").innerText()).toContain(evil);
      await page.waitForTimeout(500);
      expect(await page.evaluate(() => (window as unknown as { hit?: number }).hit)).toBeUndefined();
    });
    Object.assign(run, before);
  });
});

const sizes = { 360: 740, 1024: 800, 1440: 900 } as const;
const looks: [string, string][] = [
  ["compare", sweep],
  ["compare-by", "/compare/default/A?by=config/lr&brush=config/lr~0.2~0.8"],
  ["compare-charts", "/compare/default/A?tab=charts&by=config/optimizer"],
  ["compare-differences", "/compare/default/A?tab=attributes"],
  ["groups", `${over}&by=config/lr`],
];

for (const [name, path] of looks)
  test(`${name}: contrast, names and roles, and nothing beyond the screen`, async () => {
    for (const [width, height] of Object.entries(sizes)) {
      const tab = await open(browser, "light", { width: Number(width), height });
      await tab.page.goto(at.url + path);
      await tab.page.waitForSelector(".card, .answer, .attributes tbody tr");
      await tab.page.waitForTimeout(1200);
      await inBothThemes(tab.page, `${name}-${width}`);
      const wide = await tab.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      expect(wide, `${name} at ${width}`).toBe(false);
      expect(tab.complaints).toEqual([]);
      await tab.context.close();
    }
  });
