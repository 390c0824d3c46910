import { expect, test } from "vitest";
import type { Line, Stream } from "../../src/api/console.ts";
import type { Series } from "../../src/api/types.ts";
import { Console, merged, pageLines, placesOf, visible } from "../../src/state/console.ts";

const line = (stream: string, step: number, timeNs: number, text = `${stream} ${step}`): Line => ({
  stream,
  step,
  timeNs,
  text,
});

/** A server with the lines that a test puts there. */
class Printed {
  readonly all = new Map<string, Line[]>();
  asked = 0;
  fails = false;

  put(l: Line): void {
    const list = this.all.get(l.stream) ?? [];
    const at = list.findIndex((o) => o.step === l.step);
    if (at >= 0) list[at] = l;
    else list.push(l);
    this.all.set(l.stream, list);
  }

  streams = async (): Promise<Stream[]> => {
    if (this.fails) throw new Error("away");
    return [...this.all].map(([name, list]) => ({
      name,
      series: {} as Series,
      last: list.at(-1)!.step,
      version: `${list.length} ${list.map((l) => l.text).join().length} ${list.at(-1)!.text}`,
    }));
  };

  lines = async (stream: Stream, [from, to]: [number, number], limit: number): Promise<Line[]> => {
    this.asked++;
    return this.all
      .get(stream.name)!
      .filter((l) => l.step >= from && l.step <= to)
      .slice(0, limit);
  };

  /** What a reader of everything would see. */
  naive(): Line[] {
    return [...this.all.values()].flat().sort((a, b) => a.timeNs - b.timeNs);
  }
}

test("the newest lines come first, the others page by page, in the order of time", async () => {
  const source = new Printed();
  let t = 0;
  for (let i = 0; i < 9_000; i++)
    source.put(line(i % 3 ? "stdout" : "stderr", Math.floor(i / (i % 3 ? 1 : 3)), ++t));
  const held = new Console(source);
  await held.refresh();
  const all = source.naive();
  const newest = held.shown.value;
  expect(newest.length).toBeGreaterThan(1_000);
  expect(newest).toEqual(all.slice(-newest.length));
  while (held.earlierCount() > 0) {
    await held.earlier();
    expect(held.shown.value).toEqual(all.slice(-held.shown.value.length || all.length));
  }
  expect(held.shown.value).toEqual(all);
});

test("a line that is replaced changes in its place; new ones come behind", async () => {
  const source = new Printed();
  for (let i = 0; i < 300; i++) source.put(line("stdout", i, i + 1));
  const held = new Console(source);
  await held.refresh();
  source.put(line("stdout", 299, 400, "100 %"));
  source.put(line("stdout", 300, 401));
  await held.refresh();
  expect(held.shown.value.slice(-2).map((l) => l.text)).toEqual(["100 %", "stdout 300"]);
  expect(held.shown.value).toEqual(source.naive());
  const asked = source.asked;
  await held.refresh();
  expect(source.asked).toBe(asked); // nothing new, nothing read
});

test("after a long while everything new is read, in pages", async () => {
  const source = new Printed();
  source.put(line("stdout", 0, 1));
  const held = new Console(source);
  await held.refresh();
  for (let i = 1; i < 3 * pageLines + 7; i++) source.put(line("stdout", i, i + 1));
  await held.refresh();
  expect(held.shown.value).toEqual(source.naive());
});

test("a server that is away is said, and what is held stays", async () => {
  const source = new Printed();
  source.put(line("stdout", 0, 1));
  const held = new Console(source);
  await held.refresh();
  source.fails = true;
  await held.refresh();
  expect([held.failure.value, held.shown.value.length]).toEqual(["away", 1]);
  source.fails = false;
  await held.refresh();
  expect(held.failure.value).toBe("");
});

test("streams keep their own order where clocks do not", () => {
  const out = merged([[line("a", 0, 5), line("a", 1, 3)], [line("b", 0, 4)]]);
  expect(out.map((l) => `${l.stream}${l.step}`)).toEqual(["b0", "a0", "a1"]);
});

test("what cannot be seen is shown by its number", () => {
  expect(visible("a\u0000b\u202ec\u200bd\te\u{e0001}")).toBe("a⟨0000⟩b⟨202E⟩c⟨200B⟩d\te⟨E0001⟩");
  expect(visible("<b>👩‍🚀</b>")).toBe("<b>👩‍🚀</b>");
});

test("a word is found without regard to case, every time", () => {
  expect(placesOf("Loss loss LOSS", "loss")).toEqual([0, 5, 10]);
  expect(placesOf("aaaa", "aa")).toEqual([0, 2]);
  expect(placesOf("a.b", ".")).toEqual([1]);
  expect(placesOf("İx", "x")).toEqual([1]); // whose small letters are longer
  expect(placesOf("abc", "")).toEqual([]);
});
