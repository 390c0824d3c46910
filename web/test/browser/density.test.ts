import { expect, test } from "vitest";
import { ulid } from "../standin/data.ts";
import { open, settled, shot } from "./host.ts";
import { at, browser } from "./stage.ts";

/** A run whose metrics are in groups of these sizes. */
function grouped(sizes: number[]): string {
  const run = at.handler.standin.world.runs.get(ulid("A/3"))!;
  const [spec] = run.series;
  run.series = sizes.flatMap((size, g) =>
    Array.from({ length: size }, (_, i) => ({ ...spec!, metric: `group${g}/metric${i}` })),
  );
  return `/runs/${run.id}`;
}

/** Cards that are whole on the screen: not cut by its foot, nor by the head of the grid. */
const whole = () => {
  const { top, bottom } = document.querySelector(".grid-scroll")!.getBoundingClientRect();
  return [...document.querySelectorAll(".card[data-drawn]")].filter((card) => {
    const box = card.getBoundingClientRect();
    return box.top >= top && box.bottom <= Math.min(bottom, innerHeight) && box.right <= innerWidth;
  }).length;
};

const mixed = [1, 2, 3, 4, 5, 6, 7];
const alike = mixed.map((n) => Array.from({ length: Math.ceil(28 / n) }, () => n));

// Beside the list of runs there is room for two, four and six cards in a row.
test.each([
  [1024, 768, 4, [mixed]],
  [1440, 900, 12, [mixed, mixed.toReversed(), ...alike]],
  [1920, 1080, 20, [mixed]],
])(
  "groups of one to seven metrics leave no row half empty at %i × %i",
  async (width, height, least, shapes) => {
    for (const sizes of shapes) {
      const { page, context, complaints } = await open(browser, "light", { width, height });
      await page.goto(at.url + grouped(sizes));
      await settled(page, least);
      expect(await page.evaluate(whole), `groups of ${sizes.join()}`).toBeGreaterThanOrEqual(least);
      if (sizes === mixed) await shot(page, `density-${width}`);
      expect(complaints).toEqual([]);
      await context.close();
    }
  },
);
