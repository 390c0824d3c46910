// Looks at the page in Chromium as a person does, and says as JSON lines what is
// drawn. The Go tests compare that with the API.
//
//   node page.mjs look LINK FOLDER PATH[=>NAME[=>HEIGHT]]…   open the link, then each path; a picture and a line each
//   node page.mjs watch LINK PATH METRIC           a line for each new last value of a chart, with the time it was seen
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const [mode, link, ...rest] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** What a card shows: its title, last value, marks, and how many pixels of its canvas carry a hue. */
function readCards() {
  return [...document.querySelectorAll("article.card[data-drawn]")].map((card) => {
    const last = card.querySelector(".last");
    const canvases = [...card.querySelectorAll("canvas")];
    let ink = 0;
    for (const canvas of canvases) {
      if (!canvas.width || !canvas.height) continue;
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d"); // canvas shows a picture that was made elsewhere
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) {
        const hue = Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]);
        if (data[i + 3] > 40 && hue > 40) ink++; // the grid and the text are neutral, data owns the colour
      }
    }
    return {
      metric: card.dataset.metric,
      title: card.querySelector("h3")?.title ?? "",
      last: last?.title || last?.textContent || "",
      points: Number(card.dataset.points ?? 0),
      marks: [...card.querySelectorAll(".special")].map((e) => e.textContent.trim()),
      ink,
    };
  });
}

/** What a panel of a view shows: how many lines and points, or each number by its place. */
function readPanels() {
  return [...document.querySelectorAll("[data-panel]")].map((panel) => {
    const lines = panel.querySelector(".view-lines");
    const cells = {};
    for (const e of panel.querySelectorAll(".view-stats > div")) cells[e.dataset.key] = e.dataset.value;
    for (const row of panel.querySelectorAll("tbody tr"))
      for (const cell of row.querySelectorAll("td")) cells[`${row.dataset.key} | ${cell.dataset.column}`] = cell.title;
    return {
      title: panel.dataset.panel,
      lines: Number(lines?.dataset.lines ?? 0),
      points: Number(lines?.dataset.points ?? 0),
      axis: lines?.dataset.axis ?? "",
      cells,
      order: [...panel.querySelectorAll("[data-key]")].map((e) => e.dataset.key),
      note: [...panel.querySelectorAll(".card-note, .view-note")].map((e) => e.textContent).join(" "),
    };
  });
}

/** Waits until the page has been still for a moment: as many cards drawn, as many rows. */
async function settled(page) {
  let before = "";
  for (let still = 0; still < 3; ) {
    await page.waitForTimeout(150);
    const now = await page.evaluate(
      () =>
        `${document.querySelectorAll("article.card[data-drawn]").length}/${document.querySelectorAll("article.card").length} ` +
        `${document.querySelectorAll("[role=row], tr").length} ${document.body.innerText.length} ` +
        `${[...document.querySelectorAll("[data-lines]")].map((e) => `${e.dataset.lines}/${e.dataset.points}`)}` +
        `${document.querySelector(".view-grid[data-loading]") ? performance.now() : ""}`,
    );
    still = now === before && !now.startsWith("0/1") ? still + 1 : 0;
    before = now;
  }
}

async function look(page, folder, paths) {
  for (const [i, entry] of paths.entries()) {
    const [path, name = `page-${i}`, height = "900"] = entry.split("=>");
    await page.setViewportSize({ width: 1440, height: Number(height) });
    const start = Date.now();
    await page.goto(new URL(path, page.url()).href);
    await settled(page);
    const picture = join(folder, `${name}.png`);
    await page.screenshot({ path: picture });
    say({ path, picture, ms: Date.now() - start, text: await page.evaluate(() => document.body.innerText), cards: await page.evaluate(readCards), panels: await page.evaluate(readPanels) });
  }
}

async function watch(page, path, metric) {
  await page.exposeFunction("seen", (value, at) => say({ value, at }));
  await page.goto(new URL(path, page.url()).href);
  await page.waitForSelector(`article.card[data-metric="${metric}"]`);
  await page.evaluate((name) => {
    let before;
    const read = () => {
      const last = document.querySelector(`article.card[data-metric="${name}"][data-drawn] .last`);
      const value = last?.title || last?.textContent;
      if (value && value !== before) window.seen((before = value), Date.now());
      requestAnimationFrame(read);
    };
    read();
  }, metric);
  say({ watching: metric });
  await new Promise((resolve) => process.stdin.on("end", resolve).resume());
}

// Without these, Chromium looks for its makers' services at every start.
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const profile = mkdtempSync(join(tmpdir(), "kymogram-e2e-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: quiet,
  viewport: { width: 1440, height: 900 },
});
try {
  const page = browser.pages()[0] ?? (await browser.newPage());
  page.on("console", (m) => m.type() === "error" && say({ error: m.text() }));
  page.on("pageerror", (e) => say({ error: String(e) }));
  await page.goto(link);
  await page.waitForURL((url) => !url.pathname.startsWith("/login"));
  if (mode === "look") await look(page, rest[0], rest.slice(1));
  else await watch(page, rest[0], rest[1]);
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
}
