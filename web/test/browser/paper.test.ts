import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { open, pictures, settled, shot } from "./host.ts";
import { at, browser } from "./stage.ts";

const others = [1, 2, 3].map((i) => ulid(`A/${i}`)).join();
const pages: [string, string, string][] = [
  ["charts", `/runs/${ulid("A/0")}?with=${others}`, ".card[data-drawn]"],
  ["attributes", `/runs/${ulid("A/0")}?with=${others}&tab=attributes`, ".attributes td"],
  ["runs", "/projects/default/A", ".row a"],
  ["compare", "/compare/default/A", ".answer"],
  ["view", "/p/default/A/views/kinds", "canvas"],
  ["network", "/network/default/demo", ".net-cells"],
];
const a4 = { width: 718, height: 1047 }; // at 96 dots an inch, within margins of 1 cm

for (const [name, path, there] of pages)
  test(`${name} on paper: white, without tools, whole cards`, async () => {
    const tab = await open(browser, "dark");
    await tab.page.goto(at.url + path);
    await tab.page.locator(there).first().waitFor();
    if (name === "charts") await settled(tab.page, 4);
    await tab.page.waitForTimeout(600);
    writeFileSync(
      join(pictures, `paper-${name}.pdf`),
      await tab.page.pdf({
        format: "A4",
        printBackground: true,
        margin: { top: "1cm", bottom: "1cm", left: "1cm", right: "1cm" },
      }),
    );
    await tab.page.emulateMedia({ media: "print" });
    await tab.page.setViewportSize(a4);
    await tab.page.waitForTimeout(400);
    await tab.page.screenshot({ path: join(pictures, `paper-${name}.png`), fullPage: true });
    const seen = await tab.page.evaluate(() => {
      const shown = (s: string) =>
        [...document.querySelectorAll<HTMLElement>(s)].filter((e) => e.checkVisibility()).length;
      const cards = [...document.querySelectorAll(".card")].map((e) => e.getBoundingClientRect());
      return {
        tools: shown(".rail, .top > :not(.crumbs), .tabs, .tools button"),
        dark: document.documentElement.dataset.theme,
        ground: getComputedStyle(document.body).backgroundColor,
        overlap: cards.some((a, i) =>
          cards.some(
            (b, j) =>
              i < j &&
              a.left < b.right - 1 &&
              b.left < a.right - 1 &&
              a.top < b.bottom - 1 &&
              b.top < a.bottom - 1,
          ),
        ),
        breaks: [...document.querySelectorAll(".card")].every(
          (e) => getComputedStyle(e).breakInside === "avoid",
        ),
        cut: [...document.querySelectorAll(".net-plane")].some(
          (e) => e.getBoundingClientRect().right > e.parentElement!.getBoundingClientRect().right + 1,
        ),
        legend: shown(".panel-item.shown"),
      };
    });
    expect(seen).toMatchObject({
      tools: 0,
      dark: "light",
      ground: "rgb(255, 255, 255)",
      overlap: false,
      cut: false,
      breaks: true,
    });
    if (name === "charts") {
      expect(seen.legend).toBe(4);
      // The middle of a chart's corner is white: the picture itself is light, not only what is around it.
      const light = await tab.page
        .locator(".card canvas")
        .first()
        .evaluate((c: HTMLCanvasElement) => {
          const copy = new OffscreenCanvas(c.width, c.height).getContext("2d")!; // c shows a picture that was made elsewhere
          copy.drawImage(c, 0, 0);
          const data = copy.getImageData(0, 0, c.width, c.height).data;
          let bright = 0;
          let inked = 0;
          for (let i = 0; i < data.length; i += 4)
            if (data[i + 3]! > 200) {
              inked++;
              bright += data[i]! + data[i + 1]! + data[i + 2]! > 600 ? 1 : 0;
            }
          return bright / inked;
        });
      expect(light).toBeLessThan(0.5); // ink on white is dark; on the dark theme it was light
    }
    await tab.page.emulateMedia({ media: "screen" });
    await tab.page.setViewportSize({ width: 1440, height: 900 });
    await expect.poll(() => tab.page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
    expect(tab.complaints).toEqual([]);
    await shot(tab.page, `paper-${name}-after`);
    await tab.context.close();
  });
