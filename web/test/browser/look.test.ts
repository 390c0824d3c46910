import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { type Host, host, launch, open, settled, shot } from "./host.ts";

let browser: Browser;
let at: Host;
beforeAll(async () => {
  at = await host();
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  at.close();
});

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

for (const theme of ["light", "dark"] as const)
  for (const [name, path, charts] of views)
    test(`${name} in ${theme}`, async () => {
      const tab = await open(browser, theme);
      await tab.page.goto(at.url + path);
      if (charts) await settled(tab.page, charts);
      else await tab.page.waitForTimeout(600);
      await shot(tab.page, `${name}-${theme}`);
      expect(tab.complaints).toEqual([]);
      await tab.context.close();
    });
