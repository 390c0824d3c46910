import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { colorOf } from "../../src/chart/heat.ts";
import { type Real, real } from "../kymograph/host.ts";
import { inBothThemes, launch, open, shot } from "./host.ts";

let browser: Browser;
let at: Real;
let runs: { rl: string; layers: string; resumed: string };
beforeAll(async () => {
  [at, browser] = await Promise.all([real(), launch()]);
  runs = { rl: await at.load("rl"), layers: await at.load("layers"), resumed: await at.load("resumed") };
}, 300_000);
afterAll(async () => {
  await browser?.close();
  await at?.close();
});

const rl = () => `/runs/${runs.rl}/kymograph?metric=return&x=episode`;
const layers = () => `/runs/${runs.layers}/kymograph?metric=layers/*/grad_norm`;
const status = (page: Page) => page.locator(".ky-status");

/** Every row in sight has its cells. */
const painted = (page: Page) =>
  page.waitForFunction(() => {
    const el = document.querySelector<HTMLElement>(".ky-cells");
    const rows = Number(el?.dataset.rows);
    return rows > 0 && Number(el?.dataset.painted) === rows;
  });

async function on(
  path: string,
  body: (page: Page) => Promise<void>,
  size?: { width: number; height: number },
) {
  const tab = await open(browser, "light", size);
  await tab.page.goto(at.url + path);
  await painted(tab.page);
  await body(tab.page);
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
}

/** The plot's place, and the colours of its pixels. */
async function pixels(page: Page, places: [number, number][]): Promise<number[][]> {
  return page.evaluate((all) => {
    const canvas = document.querySelector<HTMLCanvasElement>(".ky-cells")!;
    const area = document.querySelector(".ky-area")!.getBoundingClientRect();
    const box = canvas.getBoundingClientRect();
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {
      willReadFrequently: true,
    })!;
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    return all.map(([x, y]) => {
      const i =
        4 * (Math.round(y! + area.top - box.top) * canvas.width + Math.round(x! + area.left - box.left));
      return [...data.slice(i, i + 4)];
    });
  }, places);
}

interface Answer {
  columns: { step: number[]; value: (number | string)[] };
}
const points = async (run: string, query: string): Promise<Map<number, number>> => {
  const answer = (await (await fetch(`${at.url}/api/v1/runs/${run}/points?${query}`)).json()) as Answer;
  return new Map(answer.columns.step.map((s, i) => [s, Number(answer.columns.value[i])]));
};

const area = async (page: Page) => (await page.locator(".ky-area").boundingBox())!;

/** Compares the middle of each cell of a row with its points, where every cell is one step. */
async function compareRow(
  page: Page,
  row: number,
  height: number,
  from: number,
  to: number,
  values: Map<number, number>,
) {
  const { width } = await area(page);
  const [lo, hi] = await page
    .locator(".ky-handle")
    .evaluateAll((all) => all.map((e) => Number(e.getAttribute("aria-valuenow"))));
  const steps = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const middle = (s: number) => Math.floor(((s - from + 0.5) * width) / steps.length);
  const found = await pixels(
    page,
    steps.map((s) => [middle(s), row * height + 2]),
  );
  steps.forEach((s, i) => {
    const value = values.get(s);
    const got = found[i]!;
    if (value === undefined) expect(got[3], `step ${s} has no point`).toBe(0);
    else if (Number.isNaN(value))
      expect(Math.max(...got.slice(0, 3)) - Math.min(...got.slice(0, 3)), `NaN at ${s}`).toBeLessThan(40);
    else {
      const want = colorOf(Math.min(hi!, Math.max(lo!, value)), [lo!, hi!], false);
      const far = Math.max(...want.map((v, c) => Math.abs(v - got[c]!)));
      if (far > 16)
        throw new Error(`step ${s} of row ${row}: ${value} in ${lo}…${hi} is ${want}, drawn is ${got}`);
    }
  });
}

describe("what is drawn is what was logged", () => {
  test("layers × steps: NaN, an infinite value, a spike and a gap", () =>
    on(`${layers()}&zoom=step:380:460&rows=18-32`, async (page) => {
      const rows = [17, 18, 19, 20, 21, 30];
      for (const layer of rows) {
        const values = await points(runs.layers, `metric=layers/${layer}/grad_norm&limit=5000`);
        await compareRow(page, layer - 17, 18, 380, 460, values);
      }
      await shot(page, "kymograph-nan");
      await page.goto(`${at.url}${layers()}&zoom=step:650:760&rows=31-31`);
      await painted(page);
      await compareRow(
        page,
        0,
        18,
        650,
        760,
        await points(runs.layers, "metric=layers/30/grad_norm&limit=5000"),
      );
      await page.goto(`${at.url}${layers()}&zoom=step:1180:1280&rows=18-18`);
      await painted(page);
      await compareRow(
        page,
        0,
        18,
        1180,
        1280,
        await points(runs.layers, "metric=layers/17/grad_norm&limit=5000"),
      );
      await page.getByText("1 above").waitFor();
    }));

  test("a restart: the later points win", () =>
    on(`/runs/${runs.resumed}/kymograph?metric=loss&height=18`, async (page) => {
      for (const rank of [0, 5]) {
        const values = await points(runs.resumed, `metric=loss&label.rank=${rank}&limit=5000`);
        expect(values.get(70)!).toBeGreaterThan(5);
        await compareRow(page, rank, 18, 0, 159, values);
      }
    }));
});

describe("moving in it", () => {
  test("hover tells the exact value, a click opens the curve, and Back closes it", () =>
    on(`${rl()}&height=18`, async (page) => {
      const box = await area(page);
      await page.mouse.move(box.x + (20.5 * box.width) / 64, box.y + 2.5 * 18);
      const values = await points(
        runs.rl,
        "metric=return&scale=EPISODE&label.env_id=env-0002&label.map=forest&limit=100",
      );
      await expect.poll(() => status(page).innerText()).toContain(String(values.get(20)));
      expect(await status(page).innerText()).toMatch(/env-0002 · forest\s+episode 20/);
      await page.mouse.click(box.x + 300, box.y + 40);
      await page.locator(".ky-row .card[data-drawn]").waitFor();
      expect(new URL(page.url()).searchParams.get("row")).toContain("env-0002");
      await page.goBack();
      await page.locator(".ky-row").waitFor({ state: "detached" });
    }));

  test("the video of the episode under the crosshair plays, or the nearest one", () =>
    on(`${rl()}&rows=1-40&row=env_id=env-0000+map=cave`, async (page) => {
      const box = await area(page);
      await page.mouse.move(box.x + (3.5 * box.width) / 64, box.y + 30);
      await page.locator(".ky-video video").waitFor();
      await page.getByText("env-0000, episode 3").waitFor();
      expect(await page.getByText("has no video").count()).toBe(0);
      await page.mouse.move(box.x + (20.5 * box.width) / 64, box.y + 30);
      await page.getByText("Episode 20 has no video; the nearest with one is 7.").waitFor();
      await shot(page, "kymograph-video");
    }));

  test("a brush zooms both ways and asks anew; z and Back take it back", () =>
    on(layers(), async (page) => {
      const box = await area(page);
      await page.mouse.move(box.x + box.width * 0.25, box.y + 100);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.5, box.y + 300, { steps: 4 });
      await page.mouse.up();
      await page.getByText(/rows \d+–\d+ of 48/).waitFor();
      const { searchParams } = new URL(page.url());
      const [, from, to] = searchParams.get("zoom")!.split(":").map(Number);
      expect(Math.abs(from! - 500)).toBeLessThan(6);
      expect(Math.abs(to! - 1000)).toBeLessThan(6);
      await painted(page);
      await page.waitForTimeout(1600); // what follows sooner is the same step back
      await page.keyboard.press("z");
      await page.getByText("48 rows", { exact: true }).waitFor();
      await page.goBack();
      await page.getByText(/rows \d+–\d+ of 48/).waitFor();
    }));

  test("keys: arrows move, Shift marks, Enter zooms or opens, the legend's handles too", () =>
    on(`${rl()}&height=18`, async (page) => {
      for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
      await expect.poll(() => status(page).innerText()).toMatch(/env-0001 · desert\s+episode 1\s/);
      await page.keyboard.press("Enter");
      await page.locator(".ky-row").waitFor();
      await page.keyboard.press("Shift+ArrowRight");
      await page.keyboard.press("Shift+ArrowDown");
      await page.keyboard.press("Enter");
      await page.getByText("rows 2–3 of 4,096").waitFor();
      expect(new URL(page.url()).searchParams.get("zoom")).toBe("episode:1:2");
      const upper = page.getByRole("slider", { name: "Upper" });
      await upper.focus();
      const before = Number(await upper.getAttribute("aria-valuenow"));
      await page.keyboard.press("ArrowLeft");
      await expect.poll(async () => Number(await upper.getAttribute("aria-valuenow"))).toBeLessThan(before);
      expect(new URL(page.url()).searchParams.get("limits")).toMatch(/^-?[\d.]+,-?[\d.]+$/);
      await page.keyboard.press("Home");
      await expect.poll(() => new URL(page.url()).searchParams.has("limits")).toBe(false);
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).getByText("move the crosshair").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "detached" });
      expect(new URL(page.url()).searchParams.get("row")).not.toBeNull();
    }));

  test("rows come in the order that is asked for", () =>
    on(`${rl()}&height=18&order=last`, async (page) => {
      const first = async () => {
        const box = await area(page);
        await page.mouse.move(box.x + box.width - 3, box.y + 5);
        await page.mouse.move(box.x + box.width - 4, box.y + 5);
        await expect.poll(() => status(page).innerText()).toMatch(/\d\.\d/);
        const values: number[] = [];
        for (const row of [0, 1, 2, 20]) {
          await page.mouse.move(box.x + box.width - 4, box.y + row * 18 + 5);
          await page.waitForTimeout(300);
          values.push(Number((await status(page).innerText()).trim().split(/\s+/).at(-1)));
        }
        return values;
      };
      const values = await first();
      expect([...values].sort((a, b) => b - a)).toEqual(values);
      await page.getByLabel("Order of rows").selectOption("similar");
      await page.getByText("sorting 4,096 rows").waitFor({ state: "detached", timeout: 30_000 });
      await painted(page);
      await shot(page, "kymograph-similar");
    }));
});

describe("cells without a finite value", () => {
  const colours = async (page: Page, metric: string, x: number): Promise<string[]> => {
    await page.goto(`${at.url}/runs/${runs.layers}/kymograph?metric=${metric}&height=18`);
    await painted(page);
    const { width } = await area(page);
    const block = Array.from({ length: 64 }, (_, i): [number, number] => [
      Math.floor((x * width) / 9) + (i % 8) + 12,
      Math.floor(i / 8) + 5,
    ]);
    return [...new Set((await pixels(page, block)).map(String))];
  };

  test("NaN alone is hatched, and infinite values have the ends of the scale", () =>
    on(layers(), async (page) => {
      expect(await colours(page, "nan", 4)).toHaveLength(2);
      await page.getByText("▨ 36 NaN").waitFor();
      const [above, below] = [await colours(page, "infinite", 0), await colours(page, "infinite", 1)];
      expect([above, below].map((c) => c.length)).toEqual([1, 1]);
      expect(above[0]).not.toBe(below[0]);
      expect([above[0], below[0]]).not.toContain("0,0,0,0");
      await page.getByText("◣ 12 below · ◥ 24 above").waitFor();
    }));

  test("the row under the pointer keeps its colours", () =>
    on(layers(), async (page) => {
      const box = await area(page);
      await page.mouse.move(box.x + 50, box.y + 20);
      const line = page.locator(".ky-y.here");
      await line.waitFor();
      expect(await line.evaluate((el) => getComputedStyle(el).backgroundColor)).toBe("rgba(0, 0, 0, 0)");
    }));
});

describe("more rows than one answer has", () => {
  test("each is there: scrolled to, sorted, zoomed into", async () => {
    const wide = `/runs/${await at.load("wide")}/kymograph?metric=return&x=episode&height=18`;
    const rows = Array.from({ length: 9000 }, (_, env) => ({
      name: `env-${env}`,
      last: ((env * 7919) % 9001) + 2,
    }));
    await on(wide, async (page) => {
      await page.getByText("9,000 rows").waitFor();
      const at = async (row: number) => {
        const scroller = page.locator(".ky-scroll");
        await scroller.evaluate((el, top) => el.scrollTo(0, top), (row - 5) * 18);
        await painted(page);
        const [box, top] = [await area(page), await scroller.evaluate((el) => el.scrollTop)];
        for (const dx of [4, 5]) await page.mouse.move(box.x + box.width - dx, box.y + row * 18 + 5 - top);
        await expect.poll(() => status(page).innerText()).toMatch(/\d$/);
        return (await status(page).innerText()).trim().split(/\s+/);
      };
      for (const row of [0, 4096, 8191, 8999]) {
        const told = await at(row);
        expect([told[0], Number(told.at(-1))]).toEqual([rows[row]!.name, rows[row]!.last]);
      }
      await page.getByLabel("Order of rows").selectOption("last");
      await page.getByText("sorting 9,000 rows").waitFor({ state: "detached" });
      await painted(page);
      const sorted = rows.toSorted((a, b) => b.last - a.last);
      for (const row of [0, 5000, 8999]) expect((await at(row))[0]).toBe(sorted[row]!.name);
      const offered = await page.getByLabel("Order of rows").locator("option").allInnerTexts();
      expect(offered).not.toContain("by similarity");
      await page.goto(`${page.url()}&rows=2001-8000`);
      await page.getByText("rows 2,001–8,000 of 9,000").waitFor();
      await painted(page);
      expect((await at(5999))[0]).toBe(sorted[7999]!.name);
    });
  });
});

describe("size and speed", () => {
  test("4,096 rows: little on the wire, wheels scroll, each frame takes a few milliseconds", () =>
    on(rl(), async (page) => {
      at.bytes.kymograph = 0;
      await page.goto(`${at.url}${rl()}`);
      await painted(page);
      await page.waitForTimeout(500);
      console.info(`the first screen of 4,096 × 64: ${at.bytes.kymograph} bytes`);
      expect(at.bytes.kymograph).toBeLessThan(300_000);
      const box = await area(page);
      await page.mouse.move(box.x + 300, box.y + 300);
      await page.mouse.wheel(0, 900);
      await expect.poll(() => page.locator(".ky-scroll").evaluate((el) => el.scrollTop)).toBe(900);
      const frames = await page.locator(".ky-scroll").evaluate(async (el) => {
        const paints: number[] = [];
        const gaps: number[] = [];
        let last = await new Promise(requestAnimationFrame);
        for (let i = 0; i < 120; i++) {
          el.scrollTop += 60;
          const now = await new Promise(requestAnimationFrame);
          gaps.push(now - last);
          last = now;
          paints.push(Number(document.querySelector<HTMLElement>(".ky-cells")!.dataset.ms));
        }
        const mid = (v: number[]) => v.sort((a, b) => a - b)[Math.floor(v.length / 2)]!;
        return { paint: mid(paints), worst: Math.max(...paints), gap: mid(gaps) };
      });
      console.info(
        `scrolling 4,096 rows: ${(1000 / frames.gap).toFixed(0)} frames a second, a paint ${frames.paint} ms, at most ${frames.worst} ms`,
      );
      expect(frames.paint).toBeLessThan(16);
    }));

  test("4,096 rows at once are painted in one go", () =>
    on(
      rl(),
      async (page) => {
        const el = page.locator(".ky-cells");
        expect(await el.getAttribute("data-rows")).toBe("4096");
        console.info(
          `painting 4,096 rows × ${(await area(page)).width} pixels: ${await el.getAttribute("data-ms")} ms`,
        );
      },
      { width: 1440, height: 12_600 },
    ));

  test("new columns are drawn within a second", async () => {
    const live = at.live();
    let run = "";
    for (let i = 0; i < 5; i++) run = await live.next();
    const tab = await open(browser);
    await tab.page.goto(`${at.url}/runs/${run}/kymograph?metric=return&x=episode`);
    await painted(tab.page);
    await tab.page.waitForTimeout(1500);
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await tab.page.keyboard.press(key);
    const seen: number[] = [];
    for (let i = 5; i < 9; i++) {
      await live.next();
      const start = Date.now();
      await tab.page.waitForFunction(
        (n) => Number(document.querySelector<HTMLElement>(".ky-cells")?.dataset.to) >= n,
        i,
      );
      seen.push(Date.now() - start);
      await tab.page.waitForTimeout(700);
    }
    console.info(`from log() to a drawn column: ${seen.join(", ")} ms`);
    expect(await status(tab.page).innerText()).toMatch(/^env-01\s+episode 1\s/);
    expect(Math.min(...seen)).toBeLessThan(1000);
    live.end();
    expect(tab.complaints).toEqual([]);
    // What was deleted meanwhile is no cell without points.
    expect((await fetch(`${at.url}/api/v1/runs/${run}`, { method: "DELETE" })).ok).toBe(true);
    await tab.page.keyboard.press("ArrowRight");
    await status(tab.page).getByText("is in the trash").waitFor();
    await tab.context.close();
  });
});

describe("looks", () => {
  const sizes = [
    { width: 1440, height: 900 },
    { width: 1024, height: 768 },
    { width: 360, height: 740 },
  ];
  for (const size of sizes)
    test(`${size.width} px: nothing sticks out, axe finds nothing`, async () => {
      const views: [string, string][] = [
        ["rl", rl()],
        ["row", `${rl()}&rows=1-40&row=env_id=env-0000+map=cave`],
        ["layers", layers()],
        ["hostile", `/runs/${runs.layers}/kymograph?metric=hostile`],
        ["none", `/runs/${runs.layers}/kymograph`],
        ["nan", `/runs/${runs.layers}/kymograph?metric=nan`],
        ["huge", `/runs/${runs.layers}/kymograph?metric=huge`],
      ];
      for (const [name, path] of views) {
        const tab = await open(browser, "light", size);
        await tab.page.goto(at.url + path);
        if (name === "none") await tab.page.waitForSelector(".ky-list a");
        else await painted(tab.page);
        await tab.page.waitForTimeout(400);
        await inBothThemes(tab.page, `kymograph-${name}-${size.width}`);
        expect(await tab.page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
        expect(tab.complaints).toEqual([]);
        await tab.context.close();
      }
    });

  test("on paper the picture has its size, and no tools", () =>
    on(`${layers()}&row=layers/3/grad_norm`, async (page) => {
      await page.locator(".ky-row").waitFor();
      await page.emulateMedia({ media: "print" });
      for (const tool of ["Order of rows", "Close the curve"])
        expect(await page.getByLabel(tool).isVisible()).toBe(false);
      expect(await status(page).isVisible()).toBe(false);
      await expect
        .poll(async () => (await page.locator(".ky-cells").boundingBox())!.height)
        .toBeGreaterThan(48 * 6);
    }));

  test("a run that is gone holds up neither the others nor their news", async () => {
    const tab = await open(browser);
    const streams: string[] = [];
    tab.page.on("response", (r) => {
      if (r.url().includes("/api/v1/live") && r.status() === 200) streams.push(r.url());
    });
    const gone = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    await tab.page.goto(`${at.url}${layers()}&with=${gone},${runs.resumed}`);
    await painted(tab.page);
    await tab.page.getByText("and 1 run that cannot be read").waitFor();
    await expect.poll(() => streams.at(-1) ?? "", { timeout: 10_000 }).toContain(`run=${runs.layers}`);
    expect(streams.at(-1)).not.toContain(gone);
    expect(tab.complaints.filter((c) => !c.includes("status of 404"))).toEqual([]);
    await tab.context.close();
  });

  test("a card of many labelled series is their mean and band, and leads to lines and the kymograph", async () => {
    const tab = await open(browser);
    await tab.page.goto(`${at.url}/runs/${runs.rl}`);
    await tab.page.getByText("mean, min–max of 4,096 series").waitFor();
    const card = tab.page.locator('.card[data-metric="return"]');
    await expect.poll(() => card.getAttribute("data-points"), { timeout: 10_000 }).toBe(String(4096 * 64));
    await shot(tab.page, "kymograph-card");
    await tab.page.getByRole("button", { name: "lines", exact: true }).click();
    await tab.page.getByText("200 of 4096 lines drawn").waitFor();
    await tab.page.getByRole("button", { name: "mean", exact: true }).click();
    await tab.page.locator(".card-foot").getByRole("link", { name: "kymograph" }).click();
    await painted(tab.page);
    await tab.page.goBack();
    await tab.page.getByText("mean, min–max of 4,096 series").waitFor();
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
  });
});
