import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { later, scrolled } from "../../src/state/turn.ts";

let now = 0;
let frames: (() => void)[] = [];
const task = () => new Promise<void>((done) => setTimeout(done, 5)); // the messages before it have come

beforeEach(() => {
  now += 1000;
  frames = [];
  vi.stubGlobal("document", { hidden: false });
  vi.spyOn(performance, "now").mockImplementation(() => now);
  vi.stubGlobal("requestAnimationFrame", (run: () => void) => frames.push(run));
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Ten jobs of so many ms each; what has been done, in order. */
function tenJobs(ms: number): number[] {
  const done: number[] = [];
  for (let i = 0; i < 10; i++)
    later(() => {
      now += ms;
      done.push(i);
    });
  return done;
}

test("a page that stands still does all of its jobs at once, the first one first", async () => {
  const done = tenJobs(5);
  await task();
  expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(frames).toHaveLength(0);
});

test("while it scrolls, jobs of 5 ms take 4 ms a frame, and what came last is first", async () => {
  const done = tenJobs(5);
  let count = 0;
  for (; done.length < 10 && count < 40; count++) {
    scrolled();
    await task();
    const due = frames;
    frames = [];
    now += 16;
    for (const run of due) run();
  }
  await task();
  expect(done).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  // Never more than a job begun too early.
  expect(count).toBeGreaterThanOrEqual((10 * 5) / 4 - 2);
  expect(count).toBeLessThan(20);
});

test("a job that is taken back is not done, and those after it are", async () => {
  const done: string[] = [];
  const back = later(() => done.push("gone"));
  back();
  later(() => done.push("kept"));
  await task();
  later(() => done.push("later"));
  await task();
  expect(done).toEqual(["kept", "later"]);
});
