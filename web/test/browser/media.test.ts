import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { renderings } from "../standin/media.ts";
import { findings, host, open, shot } from "./host.ts";
import { browser, on } from "./stage.ts";

const rl = `/runs/${ulid("rl")}?tab=media`;

interface VideoState {
  ready: number;
  seconds: number;
  at: number;
  seeking: boolean;
  bar: number;
}

/** What the player is at; bar = the share of the middle row that the picture's bar covers. */
const state = (page: Page): Promise<VideoState> =>
  page.locator("video").evaluate((el) => {
    const video = el as HTMLVideoElement;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [video.videoWidth || 1, video.videoHeight || 1];
    const pen = canvas.getContext("2d")!;
    pen.drawImage(video, 0, 0);
    const row = pen.getImageData(0, Math.floor(canvas.height / 2), canvas.width, 1).data;
    let lit = 0;
    for (let i = 0; i < row.length; i += 4) if (row[i]! > 100) lit++;
    return {
      ready: video.readyState,
      seconds: video.duration,
      at: video.currentTime,
      seeking: video.seeking,
      bar: lit / canvas.width,
    };
  });

async function settledAt(page: Page, seconds: number): Promise<VideoState> {
  await expect
    .poll(async () => {
      const s = await state(page);
      return s.ready >= 2 && !s.seeking && Math.abs(s.at - seconds) < 0.06;
    })
    .toBe(true);
  return state(page);
}

test("a video made by PyAV plays, and a seek shows the frame that was logged there", () =>
  on(rl, async (page) => {
    await expect.poll(async () => (await state(page)).ready).toBeGreaterThanOrEqual(2);
    expect((await state(page)).seconds).toBeCloseTo(4, 1);
    for (const frame of [30, 5, 38]) {
      const seconds = (frame + 0.5) / 10;
      await page.locator("video").evaluate((el, to) => {
        (el as HTMLVideoElement).currentTime = to;
      }, seconds);
      const shown = await settledAt(page, seconds);
      expect(Math.abs(shown.bar - (frame + 1) / 40)).toBeLessThan(0.03);
    }
    await page.getByRole("button", { name: "half @ 20" }).click();
    await settledAt(page, 2.05);
    await shot(page, "media-light");
  }));

test("videos are chosen by environment and episode, in the address; lost ones are told", () =>
  on(rl, async (page) => {
    const list = page.locator(".video-list tbody tr");
    await expect.poll(() => list.count()).toBe(4);
    expect(await list.nth(3).innerText()).toContain("lost");
    expect(await list.nth(3).locator("button").count()).toBe(0);
    await list.nth(1).locator("button").click();
    await page.waitForFunction(() => location.search.includes("video=w-1"));
    expect(await page.locator("figcaption").innerText()).toContain("env-1, episode 1");
    await page.getByLabel("Environment").selectOption("env-0");
    await expect.poll(() => list.count()).toBe(2);
    await page.reload();
    await expect.poll(() => list.count()).toBe(2);
  }));

test("a live run's list keeps what was read and does not come with every tick", async () => {
  const mine = await host(); // its data change
  const tab = await open(browser);
  const asked: string[] = [];
  let made = 5;
  await tab.page.route("**/renderings?*", (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    asked.push(`${from}`);
    const page = Array.from({ length: Math.min(3, made - from) }, (_, i) => {
      const id = `v-${from + i}`;
      return { ...renderings[3]!, id, env_id: "env-0", episode: from + i };
    });
    return route.fulfill({ json: { renderings: page, next: from + 3 < made ? `${from + 3}` : null } });
  });
  await tab.page.goto(mine.url + rl);
  const list = tab.page.locator(".video-list tbody tr");
  await expect.poll(() => list.count()).toBe(3);
  await tab.page.getByRole("button", { name: "more" }).click();
  await expect.poll(() => list.count()).toBe(5);
  asked.length = 0;
  made = 6;
  const { standin } = mine.handler;
  const run = standin.world.runs.get(ulid("rl"))!;
  for (let i = 0; i < 12; i++) {
    standin.append({ run, points: 5000 + i }, () => 0.5);
    await tab.page.waitForTimeout(400);
    expect(await list.count()).toBeGreaterThan(4);
  }
  await expect.poll(() => list.count()).toBe(6);
  expect(asked.filter((from) => from === "0").length).toBeLessThan(4); // in 5 s, of 12 ticks
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
  mine.close();
});

test("histograms and scatters show every step and the one that the slider is at", () =>
  on(
    rl,
    async (page) => {
      const card = page.locator('.document[data-metric="weights/w"]');
      await expect.poll(() => card.locator("canvas").count()).toBe(2);
      expect(await card.locator(".slider").innerText()).toContain("490");
      await card.getByLabel("Step of weights/w").fill("0");
      expect(await card.locator(".slider").innerText()).toMatch(/^step\s+0\s/);
      const scatter = page.locator('.document[data-metric="embedding"]');
      await expect.poll(() => scatter.locator("canvas").getAttribute("aria-label")).toBe("scatter of 3 dots");
      await shot(page, "media-dark");
      await page.getByLabel("Search histograms and scatters").fill("weights");
      await expect.poll(() => page.locator(".document").count()).toBe(1);
    },
    "dark",
  ));

test("the page of media can be read by everyone", () =>
  on(rl, async (page) => {
    await expect.poll(() => page.locator(".document canvas").count()).toBe(3);
    expect(await findings(page)).toEqual([]);
  }));
