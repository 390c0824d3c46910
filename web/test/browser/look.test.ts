import { expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { darken, open, settled, shot } from "./host.ts";
import { at, browser, on } from "./stage.ts";

const others = [1, 2, 3, 4].map((i) => ulid(`A/${i}`)).join();
const views: [string, string, number][] = [
  ["runs", "/projects/default/A", 0],
  ["run-a", `/runs/${ulid("A/0")}`, 12],
  ["run-a-over", `/runs/${ulid("A/0")}?with=${others}`, 12],
  [
    "run-a-50",
    `/runs/${ulid("A/0")}?with=${Array.from({ length: 49 }, (_, i) => ulid(`A/${i + 1}`)).join()}`,
    8,
  ],
  ["run-b", `/runs/${ulid("B")}`, 12],
  ["run-c", `/runs/${ulid("C")}`, 1],
  ["run-c-full", `/runs/${ulid("C")}?chart=train/loss`, 1],
  ["run-rl", `/runs/${ulid("rl")}`, 3],
  ["run-rl-wall", `/runs/${ulid("rl")}?x=wall`, 3],
  ["run-lines", `/runs/${ulid("lines")}`, 1],
  ["run-empty", `/runs/${ulid("empty")}`, 0],
  ["attributes", `/runs/${ulid("A/0")}?with=${others}&tab=attributes`, 0],
  ["writers", `/runs/${ulid("rl")}?tab=writers`, 0],
  ["run-fork", `/runs/${ulid("fork/child")}?with=${ulid("fork/parent")}`, 2],
  ["run-lost", `/runs/${ulid("lost")}?tab=writers`, 0],
  ["home", "/", 0],
];

for (const [name, path, charts] of views)
  test(`${name} in both themes`, () =>
    on(path, async (page) => {
      if (charts) await settled(page, charts);
      else await page.waitForTimeout(600);
      await shot(page, `${name}-light`);
      await darken(page);
      await shot(page, `${name}-dark`);
    }));

/** Whether something sticks out of the screen that cannot be scrolled to. */
const fits = () => {
  const { clientWidth, scrollWidth } = document.documentElement;
  const beyond = [...document.querySelectorAll(".top *, .run-head *, .tabs, .card, .panel")].filter((e) => {
    if (!e.getClientRects().length || e.getBoundingClientRect().right <= clientWidth + 1) return false;
    // The tools and the facts of a run scroll sideways.
    const line = e.closest(".top, .run-head");
    return !line || line === e || getComputedStyle(line).overflowX !== "auto";
  });
  return scrollWidth <= clientWidth && beyond.length === 0;
};

const phone = { width: 390, height: 844 };

// What fits does not depend on the theme: these load in the dark one, the large screens in the light one.
for (const [name, path, charts] of views)
  test(`${name} on a phone`, async () => {
    const tab = await open(browser, "dark", phone);
    await tab.page.goto(at.url + path);
    if (charts) await settled(tab.page, 1);
    else await tab.page.waitForTimeout(600);
    await shot(tab.page, `phone-${name}`);
    expect(await tab.page.evaluate(fits)).toBe(true);
    expect(tab.complaints).toEqual([]);
    await tab.context.close();
  });

test("on a phone the runs cover the charts when asked for", async () => {
  const tab = await open(browser, "light", phone);
  await tab.page.goto(`${at.url}/runs/${ulid("A/0")}`);
  await settled(tab.page, 1);
  const panel = tab.page.locator(".panel");
  expect(await panel.count()).toBe(0);
  await tab.page.getByRole("button", { name: "runs" }).click();
  await panel.waitFor();
  await shot(tab.page, "phone-panel");
  await panel.getByRole("button", { name: /^Draw/ }).first().click();
  await tab.page.waitForURL((url) => url.searchParams.has("with"));
  await tab.page.getByRole("button", { name: "runs" }).click();
  expect(await panel.count()).toBe(0);
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
});
