import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { findings, host, open, shot } from "./host.ts";
import { at, browser } from "./stage.ts";

const phone = { width: 360, height: 740 };
const leastTarget = 24; // CSS pixels: WCAG 2.5.8

const others = [1, 2, 3].map((i) => ulid(`A/${i}`)).join();
/** Each page, what it shows when it is there, and what people come for: it gets most of the height. */
const pages: [string, string, string, string][] = [
  ["home", "/", ".projects a", ".main"],
  ["runs", "/projects/default/A", ".row a", ".table-scroll"],
  ["charts", `/runs/${ulid("A/0")}?with=${others}`, ".card[data-drawn]", ".grid-scroll"],
  ["attributes", `/runs/${ulid("A/0")}?tab=attributes`, ".attributes td", ".pad"],
  ["writers", `/runs/${ulid("rl")}?tab=writers`, ".pad td", ".pad"],
  ["media", `/runs/${ulid("rl")}?tab=media`, ".media", ".pad"],
  ["compare", "/compare/default/A", ".answer", ".run-body"],
  ["compare-charts", "/compare/default/A?tab=charts", ".card[data-drawn]", ".grid-scroll"],
  ["views", "/p/default/A/views", ".main a", ".main"],
  ["view", "/p/default/A/views/kinds", ".card-note, canvas", ".main"],
  ["network", "/network/default/demo", ".net-cells", ".net-body"],
];

/** What a finger cannot hit: targets that are smaller, as "TAG.class name w×h". */
function small(least: number): string[] {
  const targets =
    "a[href], button, input, select, textarea, summary, [role=button], [role=checkbox], [role=tab], [role=option]";
  const out = new Set<string>();
  for (const one of document.querySelectorAll<HTMLElement>(targets)) {
    if (!one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const boxes = [one, one.closest("label")].map((e) => e?.getBoundingClientRect());
    const width = Math.max(...boxes.map((b) => b?.width ?? 0));
    const height = Math.max(...boxes.map((b) => b?.height ?? 0));
    const name = (one.getAttribute("aria-label") ?? one.textContent ?? "").slice(0, 20);
    if (width && Math.min(width, height) < least - 0.5)
      out.add(`${one.tagName}.${one.className} ${name} ${width.toFixed(0)}×${height.toFixed(0)}`);
  }
  return [...out];
}

/** The part of the screen that the largest of the elements takes. */
const share = (page: Page, selector: string) =>
  page.evaluate((s) => {
    const heights = [...document.querySelectorAll(s)].map((e) => {
      const box = e.getBoundingClientRect();
      return Math.min(box.bottom, innerHeight) - Math.max(box.top, 0);
    });
    return Math.max(...heights) / innerHeight;
  }, selector);

for (const [name, path, there, body] of pages)
  test(`${name}: targets for fingers, nothing beyond the screen, the height for what people come for`, async () => {
    const tab = await open(browser, "light", phone);
    await tab.page.goto(at.url + path);
    await tab.page.locator(there).first().waitFor();
    await tab.page.waitForTimeout(600);
    await shot(tab.page, `narrow-${name}`);
    expect.soft(await tab.page.evaluate(small, leastTarget)).toEqual([]);
    expect.soft(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(phone.width);
    expect.soft(await share(tab.page, body)).toBeGreaterThanOrEqual(0.6);
    expect.soft(await findings(tab.page)).toEqual([]);
    expect.soft(tab.complaints).toEqual([]);
    await tab.context.close();
  });

test("tooltips of charts stay on the screen", async () => {
  const tab = await open(browser, "light", phone);
  await tab.page.goto(`${at.url}/runs/${ulid("A/0")}?with=${others}`);
  const plot = tab.page.locator(".card[data-drawn] .u-over").first();
  await plot.waitFor();
  const box = (await plot.boundingBox())!;
  for (const x of [0.02, 0.5, 0.98])
    for (const y of [0.05, 0.95]) {
      const at = { x: box.x + box.width * x, y: box.y + box.height * y };
      await tab.page.mouse.move(at.x, at.y, { steps: 3 });
      const tip = tab.page.locator(".tip");
      await tip.waitFor();
      await tab.page.waitForTimeout(100);
      const seen = (await tip.boundingBox())!;
      expect(seen.x).toBeGreaterThanOrEqual(0);
      expect(seen.y).toBeGreaterThanOrEqual(0);
      expect(seen.x + seen.width).toBeLessThanOrEqual(phone.width);
      expect(seen.y + seen.height).toBeLessThanOrEqual(phone.height);
      const over =
        at.x > seen.x && at.x < seen.x + seen.width && at.y > seen.y && at.y < seen.y + seen.height;
      expect(over, "the tip lies over the pointer").toBe(false);
    }
  await shot(tab.page, "narrow-tip");
  await tab.context.close();
});

test("login: a key can be typed on a phone", async () => {
  const closed = await host({ key: "0".repeat(40) });
  const tab = await open(browser, "light", phone);
  await tab.page.goto(`${closed.url}/`);
  await tab.page.locator("input, button, a").first().waitFor();
  await shot(tab.page, "narrow-login");
  expect.soft(await tab.page.evaluate(small, leastTarget)).toEqual([]);
  expect.soft(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(phone.width);
  await tab.context.close();
  closed.close();
});
