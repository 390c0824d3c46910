import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { type Host, host, launch, open, type Tab } from "./host.ts";

/** What most files of tests share: a browser, and the page over generated data. A file that imports them has its own. */
export let browser: Browser;
export let at: Host;

beforeAll(async () => {
  at = await host();
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  at.close();
});

/** Opens a view, runs the test, and fails when the page complained about anything. */
export async function on(
  path: string,
  body: (page: Page, tab: Tab) => Promise<void>,
  theme: "light" | "dark" = "light",
): Promise<void> {
  const tab = await open(browser, theme);
  await tab.page.goto(at.url + path);
  await body(tab.page, tab);
  expect(tab.complaints).toEqual([]);
  await tab.context.close();
}
