import { execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inBothThemes, launch, open, pages } from "./host.ts";
import { passOn, type Served, serve } from "./real.ts";

/** Programs that print with the real package, and the tab that shows it. */
const python = join(import.meta.dirname, "../../../.venv/bin/python");
const many = 15_000; // below what a console takes at once
const program = `
import sys, kymogram
kymogram.init(run_name="printed", capture_console=True, capture_system_metrics=False)
for i in range(${many}):
    print("line", i)
    if i % 10_000 == 5:
        sys.stderr.write(f"warning {i} <img src=x onerror=alert(1)> \\u202e\\n")
kymogram.close()
kymogram.init(run_name="quiet", capture_system_metrics=False)
kymogram.log("loss", 1.0)
kymogram.close()
`;
const slow = `
import time, kymogram
kymogram.init(run_name="slow", capture_console=True, capture_system_metrics=False)
print("begun")
input()
for n in range(100):
    print(f"\\r{n + 1} %", end="", flush=True)
    time.sleep(0.01)
print("\\nended")
time.sleep(20)
`;
let server: Served;
let browser: Browser;
let front: Awaited<ReturnType<typeof pages>>;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  server = await serve("--no-auth");
  env = { ...server.env, KYMOGRAM_SERVER: server.url };
  const file = join(server.folder, "program.py");
  writeFileSync(file, program);
  execFileSync(python, [file], { env, stdio: ["ignore", "pipe", "pipe"] });
  browser = await launch();
  front = await pages(passOn(server.url));
}, 90_000);
afterAll(async () => {
  await browser?.close();
  front?.close();
  await server?.close();
});

async function runID(name: string): Promise<string> {
  const answer = await fetch(`${server.url}/api/v1/resolve?run=default/default/${name}`);
  return ((await answer.json()) as { id: string }).id;
}

async function show(name: string, more = "", width = 1440): Promise<Page> {
  const { page } = await open(browser, "light", { width, height: 800 });
  await page.goto(`${front.url}/runs/${await runID(name)}?tab=console${more}`);
  return page;
}

const texts = (page: Page) => page.locator(".console-row .text").allInnerTexts();

test("the newest lines are in view, few elements, earlier ones as one scrolls", async () => {
  const page = await show("printed");
  await page.getByText(`line ${many - 1}`, { exact: true }).waitFor();
  expect(await page.locator(".console-row").count()).toBeLessThan(120);
  await page.getByText(/lines, .* before them/).waitFor();
  for (let i = 0; i < 60 && !(await page.getByText("line 0", { exact: true }).isVisible()); i++) {
    await page.locator(".console-rows").evaluate((el) => el.scrollTo(0, 0));
    await page.waitForTimeout(150);
  }
  expect((await texts(page)).slice(0, 3)).toContain("line 0"); // stderr has a pipe of its own
  await page.getByRole("button", { name: "newest ↓" }).click();
  await page.getByText(`line ${many - 1}`, { exact: true }).waitFor();
  await page.context().close();
});

test("a search goes through all lines, steps through what it found, and the address keeps it", async () => {
  const page = await show("printed");
  await page.getByLabel("Find in the output").fill("WARNING");
  await page.getByText("2 lines", { exact: true }).waitFor({ timeout: 20_000 });
  for (const n of [10_005, 5]) {
    await page.keyboard.press("Enter");
    await page.locator(".console-row.front", { hasText: `warning ${n} ` }).waitFor();
  }
  await page.getByText("1 of 2").waitFor();
  expect(await page.locator(".console-row.front .text").innerText()).toBe(
    "warning 5 <img src=x onerror=alert(1)> ⟨202E⟩",
  );
  expect(await page.locator(".console-row.front .stream").innerText()).toBe("stderr");
  expect(await page.locator(".console-row.front mark").innerText()).toBe("warning");
  expect(await page.locator(".console-rows img").count()).toBe(0);
  await page.reload();
  await page.getByText("2 lines", { exact: true }).waitFor({ timeout: 20_000 });
  await page.context().close();
});

test("a stream is left out, times are shown", async () => {
  const page = await show("printed", "&times=1");
  await page.getByLabel("stdout").uncheck();
  await page.getByText("warning 10005").waitFor();
  for (const row of await page.locator(".console-row").allInnerTexts())
    expect(row).toMatch(/^\d{4}-\d\d-\d\d .*warning/);
  expect(page.url()).toContain("streams-off=stdout");
  await page.context().close();
});

test("new lines come by themselves, and a progress bar stays one line", async () => {
  const file = join(server.folder, "slow.py");
  writeFileSync(file, slow);
  const child = spawn(python, [file], { env, stdio: ["pipe", "ignore", "ignore"] });
  try {
    await expect.poll(() => runID("slow"), { timeout: 20_000 }).toBeTruthy();
    const page = await show("slow");
    await page.getByText("begun").waitFor({ timeout: 20_000 });
    child.stdin.write("\n");
    await page.getByText("ended").waitFor({ timeout: 20_000 });
    await expect.poll(() => texts(page), { timeout: 10_000 }).toEqual(["begun", "100 %", "ended"]);
    await page.context().close();
  } finally {
    child.kill();
  }
});

test("a run without a console says how to keep one", async () => {
  const page = await show("quiet");
  await page.getByText("capture_console=True").waitFor();
  await page.context().close();
});

for (const width of [1440, 360])
  test(`${width} px: axe finds nothing, nothing sticks out`, async () => {
    const page = await show("printed", "&find=warning&times=1", width);
    await page.getByText("2 lines", { exact: true }).waitFor({ timeout: 20_000 });
    await inBothThemes(page, `console-${width}`);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    await page.context().close();
  });
