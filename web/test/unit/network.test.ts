import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import type { Network } from "../../src/api/network.ts";
import { level, range } from "../../src/chart/matrix.ts";
import { changes, payloadOf, readRecord } from "../../src/chart/record.ts";
import { paths } from "../../src/part/spark.tsx";
import { age, columnsOf, disputes, gpuText, NetworkFeed, rowsOf } from "../../src/state/network.ts";
import { makeHistory, makeNetwork } from "../standin/network.ts";

const all = { q: "", hidden: new Set<string>(), sort: "" };
const doc: Network = makeNetwork({ miners: 40, validators: 6, culprits: { 2: "stale", 4: "broken" } });

describe("what of a network is shown", () => {
  test("every row and column without a choice, in order", () => {
    expect(rowsOf(doc, all)).toEqual(doc.miners.map((_, i) => i));
    expect(columnsOf(doc, all)).toEqual([0, 1, 2, 3, 4, 5]);
  });
  test("a hidden verdict takes its columns away", () => {
    expect(columnsOf(doc, { ...all, hidden: new Set(["stale", "broken"]) })).toEqual([0, 1, 3, 5]);
    expect(rowsOf(doc, { ...all, hidden: new Set(["verified"]) })).toEqual([]);
  });
  test("words match hotkey and hardware, a number only the uid", () => {
    expect(rowsOf(doc, { ...all, q: "70" })).toEqual([6]);
    expect(rowsOf(doc, { ...all, q: doc.miners[3]!.hotkey.slice(2, 12) })).toEqual([3]);
    const h100 = rowsOf(doc, { ...all, q: "h100" });
    expect(h100).toEqual(
      doc.miners.flatMap((m, i) => (m.result && gpuText(doc, m.result.gpu).includes("H100") ? [i] : [])),
    );
  });
  test("most disputed first", () => {
    const rows = rowsOf(doc, { ...all, sort: "disputed" });
    const counts = rows.map((r) => disputes(doc, r));
    expect(counts).toEqual([...counts].sort((a, b) => b - a));
    expect(counts[0]).toBeGreaterThan(0);
  });
  test("age is in blocks where the record has one, else in time", () => {
    const v = doc.validators[2]!;
    expect(age(doc, v)).toEqual({ blocks: doc.chain!.block - v.block, ms: 60_000 });
    expect(age(doc, { ...v, block: 0 }).blocks).toBeNull();
  });
});

test("a network that is still being judged is asked for again at once, until it is whole", async () => {
  const asked: string[] = [];
  const left = [{ done: 10, of: 30 }, { done: 20, of: 30 }, undefined];
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(String(url));
    const judging = left[asked.length - 1];
    if (asked.length > 3) return new Promise(() => {}); // it waits for news
    return Promise.resolve(Response.json({ ...doc, index: 30, judging }));
  });
  const feed = new NetworkFeed("w", "p", "");
  const stop = feed.follow("");
  await vi.waitFor(() => expect(asked).toHaveLength(4), 5000);
  stop();
  vi.unstubAllGlobals();
  expect(asked.slice(0, 3).some((url) => url.includes("wait="))).toBe(false);
  expect(asked[3]).toContain("since=30");
  expect(feed.doc.value?.judging).toBeUndefined();
});

describe("the matrix", () => {
  test.each([
    [0, 120, 12, 256, 0, 10],
    [6, 120, 12, 256, 0, 11],
    [3000, 120, 12, 256, 250, 256],
    [9000, 120, 12, 256, 256, 256],
    [0, 0, 12, 0, 0, 0],
  ])("at %d, %d px of cells of %d px of %d: from %d to %d", (at, length, size, n, from, to) => {
    expect(range(at, length, size, n)).toEqual([from, to]);
  });
  test("a score's level stays between 0 and 1", () => {
    expect([level(50, 100), level(-5, 100), level(200, 100), level(5, 0)]).toEqual([0.5, 0, 1, 0]);
  });
});

describe("records", () => {
  const entries = makeHistory({ ...doc.validators[0]!, verdict: "equivocated" });
  test("canonical bytes are read field by field", () => {
    const last = readRecord(entries.at(-1)!.record)!;
    expect(last).toMatchObject({ netuid: 27, sequence: 1_700_000_000_123, payloadType: "config/v1" });
    expect(last.previous).toBe(entries[2]!.hash);
    expect(last.machine).toBe("02".repeat(16));
  });
  test("bytes of another form are none", () => {
    expect(readRecord("")).toBeNull();
    expect(readRecord("%")).toBeNull();
    expect(readRecord(entries[0]!.record.slice(0, 80))).toBeNull();
    expect(readRecord(btoa("kymogram/state/v2\0 and more"))).toBeNull();
  });
  test("what a record changed, in words", () => {
    const [a, b] = [payloadOf(entries[0]!), payloadOf(entries[1]!)];
    expect(changes(null, a)).toEqual(["the first record"]);
    expect(changes(a, b)).toEqual(["stats: 1 of 1 entries"]);
    expect(changes(a, a)).toEqual([]);
    expect(changes({ allocated: null, old: 1, list: [1] }, { allocated: "5F", list: [1, 2] })).toEqual([
      "allocated → 5F",
      "old removed",
      "list: 2 entries",
    ]);
  });
});

test("a curve's gaps are left out of its picture", () => {
  expect(paths([0, 1], [null, "NaN"], [null, 1], [null, 1])).toBeNull();
  const drawn = paths([0, 1, 2], [1, null, 3], [1, null, 3], [1, null, 3])!;
  expect(drawn.line.split("L")).toHaveLength(2);
  expect(drawn.line).not.toContain("NaN");
});

test("the run's page stays below 150 kB, and loads no code of pages that come on demand", () => {
  const dist = join(import.meta.dirname, "../../dist");
  const index = readFileSync(join(dist, "index.html"), "utf8");
  const files = readdirSync(join(dist, "assets"));
  const first = files.filter((f) => index.includes(f));
  expect(first.filter((f) => /^(network|view|compare|kymograph|console)-/.test(f))).toEqual([]);
  expect(first.some((f) => f.endsWith(".js")) && first.some((f) => f.endsWith(".css"))).toBe(true);
  const size = (names: string[]) =>
    names.reduce((n, f) => n + gzipSync(readFileSync(join(dist, "assets", f))).length, 0);
  expect(size(first)).toBeLessThan(150_000);
  const later = files.filter((f) => f.startsWith("network-"));
  expect(later.length).toBe(2);
  expect(size(later)).toBeLessThan(30_000);
});
