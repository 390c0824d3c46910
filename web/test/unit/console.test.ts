import { expect, test, vi } from "vitest";
import { type Line, lines, type Stream, streams } from "../../src/api/console.ts";
import type { Series } from "../../src/api/types.ts";
import { Console, merged, pageLines, placesOf, visible } from "../../src/state/console.ts";
import { random } from "../standin/data.ts";

const line = (stream: string, step: number, timeNs: number, text = `${stream} ${step}`): Line => ({
  stream,
  step,
  timeNs: BigInt(timeNs),
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
    return [...this.all.values()].flat().sort((a, b) => Number(a.timeNs - b.timeNs));
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
  expect(out.map((l) => `${l.stream}${l.step}`)).toEqual(["a0", "a1", "b0"]);
});

/** The screen of a program: rows of a stream, each with the time of its last change. */
interface Screen {
  rows: Map<number, Line>;
  next: number;
  changes: number;
}

/** What a terminal would hold: a row stands where the row after it was printed, or before. */
function terminal(screens: Map<string, Screen>): Line[] {
  const placed: { line: Line; at: number; step: number }[] = [];
  for (const { rows } of screens.values()) {
    let at = Number.POSITIVE_INFINITY;
    for (const step of [...rows.keys()].sort((a, b) => b - a)) {
      const line = rows.get(step)!;
      at = Math.min(at, Number(line.timeNs));
      placed.push({ line, at, step });
    }
  }
  const first = (a: (typeof placed)[0], b: (typeof placed)[0]) => a.at - b.at || a.step - b.step;
  return placed.sort(first).map((p) => p.line);
}

test("whatever is printed, replaced, dropped and read: the newest lines without a hole", async () => {
  for (let seed = 1; seed <= 500; seed++) {
    const r = random(seed);
    const upTo = (n: number) => Math.floor(r() * n);
    const screens = new Map<string, Screen>();
    const most = seed % 4 ? 1_000_000 : 150 + upTo(200);
    let [now, away] = [0, false];
    const print = (name: string, screen: Screen, step: number, text: string) => {
      screen.changes++;
      screen.rows.set(step, line(name, step, ++now, text));
    };
    const source = {
      streams: async (): Promise<Stream[]> => {
        if (away) throw new Error("away");
        return [...screens].map(([name, s]) => {
          const last = Math.max(...s.rows.keys());
          const version = [s.rows.size, s.changes, last].join();
          return { name, series: {} as Series, last, version };
        });
      },
      lines: async (s: Stream, [from, to]: [number, number], limit: number) => {
        if (r() < 0.05) throw new Error("cut");
        const rows = [...screens.get(s.name)!.rows.values()].sort((a, b) => a.step - b.step);
        return rows.filter((l) => l.step >= from && l.step <= to).slice(0, limit);
      },
    };
    const held = new Console(source, 5 + upTo(60), most);
    const settled = async (work: () => Promise<void>) => {
      do await work();
      while (held.failure.value);
    };
    const compare = (what: string) => {
      const [all, shown] = [terminal(screens), held.shown.value];
      const said = (of: Line[]) => of.map((l) => `${l.stream} ${l.step} ${l.timeNs} ${l.text}`).join("\n");
      expect(said(shown), `seed ${seed}, ${what}`).toBe(said(all.slice(all.length - shown.length)));
      expect(shown.length, `seed ${seed}, ${what}`).toBeGreaterThan(0);
      expect(shown.length).toBeLessThanOrEqual(most);
      return all.length - shown.length;
    };
    for (let turn = 0; turn < 8; turn++) {
      for (let n = 1 + upTo(4); n > 0; n--) {
        const name = ["stdout", "stderr", "stdout 1"][upTo(3)]!;
        const screen = screens.get(name) ?? { rows: new Map(), next: 0, changes: 0 };
        screens.set(name, screen);
        const lines = screen.next === 0 ? 1 : r() < 0.3 ? 0 : upTo(90);
        for (let i = 0; i < lines; i++) print(name, screen, screen.next++, `line ${i}`);
        const bars = [...screen.rows.keys()].filter((step) => step >= screen.next - 128);
        for (let i = bars.length && upTo(6); i > 0; i--)
          print(name, screen, bars[r() < 0.3 ? 0 : upTo(bars.length)]!, `bar ${i}`);
        if (r() < 0.2) {
          const missing = screen.next; // one line counts those that came too fast
          for (const n of [100, 900]) print(name, screen, missing, `${n} lines are missing`);
          screen.next += 1_000;
        }
      }
      away = r() < 0.2;
      await held.refresh();
      if (away) expect(held.failure.value).toBe("away");
      away = false;
      if (r() < 0.3) await held.earlier();
      await settled(() => held.refresh());
      compare(`turn ${turn}`);
      if (r() < 0.3) {
        await settled(() => held.earlier());
        compare(`earlier, turn ${turn}`);
      }
    }
    for (let i = 0; held.earlierCount() > 0 && !held.isFull(); i++) {
      await settled(() => held.earlier());
      expect(i, `seed ${seed}`).toBeLessThan(10_000);
    }
    const left = compare("all");
    if (!held.isFull()) expect(left, `seed ${seed}`).toBe(0);
  }
});

test("a tab holds no more than it says, however much is printed", async () => {
  const source = new Printed();
  const held = new Console(source, 10, 100);
  for (let i = 0; i < 1_000; i++) {
    source.put(line("stdout", i, i + 1));
    if (i % 50 === 49) await held.refresh();
  }
  expect([held.shown.value.length, held.earlierCount(), held.isFull()]).toEqual([100, 900, true]);
  await held.earlier();
  expect(held.shown.value).toEqual(source.naive().slice(-100));
  for (let i = 1_000; i < 3_000; i++) source.put(line("stdout", i, i + 1));
  source.asked = 0;
  await held.refresh();
  expect(source.asked).toBeLessThan(3); // not the 200 pages since
  expect(held.shown.value).toEqual(source.naive().slice(-10));
});

test("lines 1 ns apart keep their order, and short pages are read to their end", async () => {
  const asked: string[] = [];
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async (url: string) => {
    const at = new URL(url, "http://x");
    asked.push(at.search);
    const second = at.searchParams.has("cursor");
    const time = (n: number) => `179000000000000000${n}`;
    if (at.pathname.endsWith("/series")) {
      const [stream, last] = second ? ["stderr", 5] : ["stdout", 2];
      const one = { metric: "console", scale: "step", kind: "text", labels: { stream }, count: 2 };
      return Response.json({
        series: [{ ...one, last: { step: last, time_ns: time(last), value: 0 } }],
        next: second ? null : "more",
      });
    }
    const steps = second ? [2] : [0, 1];
    return Response.json({
      columns: { step: steps, time_ns: steps.map((n) => time(2 - n)), value: steps.map(String) },
      next: second ? null : "more",
    });
  });
  try {
    const found = await streams("r");
    expect(found.map((s) => s.name)).toEqual(["stdout", "stderr"]);
    expect(asked[0]).toContain("include_inherited=0");
    const got = await lines("r", found[0]!, [0, 2], 10);
    expect(asked.at(-1)).toContain("int64=string");
    expect(got.map((l) => [l.step, l.text])).toEqual([0, 1, 2].map((n) => [n, `${n}`]));
    const other = { ...got[2]!, stream: "stderr", timeNs: got[1]!.timeNs };
    expect(merged([[got[0]!], [other]])).toEqual([other, got[0]]);
  } finally {
    vi.unstubAllGlobals();
  }
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
