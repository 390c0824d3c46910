import { createHash } from "node:crypto";
import type { Endpoint, Entry, Miner, Network, Validator, Verdict } from "../../src/api/network.ts";
import { random, startNs, ulid } from "./data.ts";

const startMs = startNs / 1e6;
const genesisBlock = 4_000_000;

export interface NetworkOptions {
  miners: number;
  validators: number;
  /** The verdict of each validator, by its place; verified where there is none. */
  culprits: Record<number, Verdict>;
}

const reasons: Record<Verdict, string> = {
  verified: "the signature, the place and the block hold",
  legacy: "only the id of the run is signed; the content could be anyone's",
  broken: "the signature does not fit the record",
  stale: "the record is 412 blocks old; 300 are allowed",
  shared_key: "two machines signed sequence 1700000000123 with one key; their contents agree",
  equivocated: "two records with sequence 1700000000123 contradict each other",
  unregistered: "the hotkey is not on the subnet",
};

const letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

function hotkey(next: () => number): string {
  return `5${Array.from({ length: 47 }, () => letters[Math.floor(next() * letters.length)]).join("")}`;
}

/** A network in which every miner has a true score; the first culprits lie about it. */
export function makeNetwork(o: NetworkOptions, seed = 7): Network {
  const next = random(seed);
  const gpus: [string, number][] = [
    ["NVIDIA H100 80GB HBM3", 8],
    ["NVIDIA A100-SXM4-80GB", 4],
    ["NVIDIA GeForce RTX 4090", 1],
  ];
  const truth = Array.from({ length: o.miners }, () => ({
    score: Math.round(next() ** 0.4 * 10_000) / 100,
    gpu: Math.floor(next() * gpus.length),
    allocated: next() < 0.7,
  }));
  const validators = Array.from({ length: o.validators }, (_, i) => validator(o, i, truth, next));
  const miners: Miner[] = truth.map((t, row) => {
    const carried = validators.flatMap((v, i) =>
      v.counted && t.allocated && says(v, row, t.score) ? [i] : [],
    );
    const voters = validators.filter((v) => v.counted && v.flags[row]! & 2 && v.scores[row]).length;
    return {
      ...node(`m${row}`, row + 64, hotkey(next), "verified", next),
      allocated: t.allocated ? validators[0]!.hotkey : "",
      port_open: next() < 0.9,
      result: carried.length
        ? { hotkey: "", score: t.score, gpu: t.gpu, carried, against: voters - carried.length }
        : null,
    };
  });
  for (const v of validators) judge(v, miners);
  const findings = validators
    .filter((v) => v.verdict !== "verified" || v.differs > 3)
    .map((v) => ({
      kind: v.verdict === "verified" ? "dissent" : v.verdict,
      role: "validator",
      hotkey: v.hotkey,
      run_id: v.run_id,
      text: v.verdict === "verified" ? `differs from ${v.differs} results` : v.reason,
    }));
  return {
    ...{ workspace: "default", project: "network", netuid: 27, netuids: [15, 27], index: 100 },
    ...{ time_ms: startMs, chain: { block: genesisBlock + 500 }, gpus, miners, validators, findings },
    left_out: { miners: 0, validators: 0 },
  };
}

const says = (v: Validator, row: number, score: number): boolean => v.scores[row] === score;

function judge(v: Validator, miners: Miner[]): void {
  v.flags = v.flags.map((f, row) => {
    const result = miners[row]!.result;
    if (!v.counted || v.scores[row] === null || !(f & 2) || !result) return f;
    const same = says(v, row, result.score);
    if (same) v.agrees++;
    else v.differs++;
    return same ? f : f | 8;
  });
}

function node(name: string, uid: number, key: string, verdict: Verdict, next: () => number) {
  const endpoint: Endpoint = {
    address: `8.8.8.${uid % 250}:9101`,
    block: genesisBlock + uid,
    answers: next() < 0.85,
    ...(next() < 0.5 && { error: "connection refused" }),
  };
  return {
    ...{ hotkey: key, uid, run_id: ulid(`network/${name}`), run: name.padEnd(8, "0"), verdict },
    ...{
      reason: reasons[verdict],
      sequence: 1_700_000_000_123,
      block: genesisBlock + 490 - (verdict === "stale" ? 412 : 0),
    },
    ...{
      time_ms: startMs - 60_000,
      expires_ms: startMs + 3_600_000,
      version: next() < 0.9 ? 183 : 182,
      endpoint,
    },
  };
}

interface Truth {
  score: number;
  gpu: number;
  allocated: boolean;
}

function validator(o: NetworkOptions, i: number, truth: Truth[], next: () => number): Validator {
  const verdict = o.culprits[i] ?? "verified";
  const lies = i === 1 && o.validators > 3;
  const base = node(`v${i}`, i, hotkey(next), verdict, next);
  const counted = verdict === "verified" || verdict === "shared_key";
  const silent = truth.map(() => next() < 0.06);
  return {
    ...base,
    ...{ stake: Math.round(1e6 * next() ** 3), counted, notes: counted ? [] : [reasons[verdict]] },
    ...{ agrees: 0, differs: 0, index: i },
    scores: truth.map((t, row) =>
      silent[row] ? null : lies ? Math.round((100 - t.score) * 100) / 100 : t.score,
    ),
    flags: truth.map((t, row) => (silent[row] ? 0 : 1 | (t.allocated ? 2 : 0))),
    gpus: truth.map((t, row) => (silent[row] ? -1 : t.gpu)),
  };
}

/** A record in its canonical bytes; nothing here is signed. */
function record(sequence: number, previous: Buffer, payload: string): Buffer {
  const text = (s: string) => Buffer.concat([u16(s.length), Buffer.from(s)]);
  const u16 = (n: number) => Buffer.from([n >> 8, n & 255]);
  const u64 = (n: number) => {
    const b = Buffer.alloc(8);
    b.writeBigUInt64BE(BigInt(n));
    return b;
  };
  return Buffer.concat([
    Buffer.from("kymogram/state/v1\0"),
    Buffer.alloc(32),
    u16(27),
    text("validator"),
    Buffer.alloc(32, 1),
    ...["default", "network", "abcd1234"].map(text),
    ...[u64(sequence), previous, u64(genesisBlock + 490), u64(startMs), u64(startMs + 3_600_000)],
    Buffer.alloc(16, 2),
    text("config/v1"),
    createHash("sha256").update(payload).digest(),
  ]);
}

/** The history of a node: a few records, and for one that equivocates a fork. */
export function makeHistory(of: {
  hotkey: string;
  run_id: string;
  run: string;
  sequence: number;
  verdict: Verdict | "";
}): Entry[] {
  const states = [60, 70, 80, 90].map((score) => ({
    version: 183,
    allocated: null,
    stats: { "64": { score, allocated: true } },
  }));
  let previous: Buffer = Buffer.alloc(32);
  const entries: Entry[] = [];
  states.forEach((state, i) => {
    const sequence = of.sequence - (states.length - 1 - i) * 10;
    const last = i === states.length - 1;
    const kinds =
      last && of.verdict === "equivocated"
        ? [state, { ...state, stats: { "64": { score: 5, allocated: false } } }]
        : [state];
    const before = previous;
    kinds.forEach((kind, n) => {
      const payload = JSON.stringify(kind);
      const bytes = record(sequence, before, payload);
      const hash = createHash("sha256").update(bytes).digest();
      if (n === 0) previous = hash;
      entries.push({
        ...{
          record: bytes.toString("base64"),
          signature: "ab".repeat(64),
          payload: Buffer.from(payload).toString("base64"),
        },
        ...{ index: entries.length, received_ns: startNs, run_id: of.run_id, run: of.run, sequence },
        ...{ hash: hash.toString("hex"), hotkey: of.hotkey, role: "validator", ...(n > 0 && { fork: true }) },
        ...(kinds.length > 1
          ? { verdict: "equivocated" as const, reason: "the hotkey signed two records with one sequence" }
          : { verdict: "verified" as const, reason: "it follows the record before" }),
      });
    });
  });
  return entries;
}

/** Answers …/network, the state's routes and the keys behind public links. */
export class NetworkStandin {
  readonly nets = new Map<string, Network>([
    [
      "demo",
      makeNetwork({
        miners: 50,
        validators: 6,
        culprits: { 2: "stale", 3: "equivocated", 4: "legacy", 5: "broken" },
      }),
    ],
    [
      "large",
      makeNetwork(
        {
          miners: 256,
          validators: 64,
          culprits: {
            5: "stale",
            9: "equivocated",
            20: "legacy",
            33: "shared_key",
            40: "unregistered",
            63: "broken",
          },
        },
        11,
      ),
    ],
    ["nothing", makeNetwork({ miners: 0, validators: 0, culprits: {} })],
  ]);
  readonly links = new Map<string, string>();
  readonly #waiting = new Set<() => void>();

  /** Changes a network and wakes who waits for it. */
  change(name: string, edit: (doc: Network) => void): void {
    const doc = this.nets.get(name)!;
    edit(doc);
    doc.index++;
    this.wake();
  }

  wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  async answer(
    method: string,
    path: string,
    q: URLSearchParams,
    body: () => Promise<string>,
  ): Promise<{ status: number; body: unknown } | null> {
    const ok = (value: unknown, status = 200) => ({ status, body: value });
    const [, project, what] = /^\/projects\/default\/([^/]+)\/(network|state)$/.exec(path) ?? [];
    const doc = this.nets.get(project ?? "");
    if (what === "state") return ok({ entries: doc?.validators.slice(0, 1) ?? [], next: 0, size: 0 });
    if (what && doc) {
      if (q.has("wait") && Number(q.get("since")) >= doc.index)
        await new Promise<void>((done) => {
          this.#waiting.add(done);
          setTimeout(done, Number(q.get("wait")) * 1000).unref();
        });
      return ok({ ...doc, project });
    }
    const run = /^\/runs\/([^/]+)\/(state\/history|series)$/.exec(path);
    const node =
      run &&
      [...this.nets.values()].flatMap((d) => [...d.miners, ...d.validators]).find((n) => n.run_id === run[1]);
    if (node)
      return ok(
        run[2] === "series"
          ? { series: chainSeries(), next: "" }
          : { entries: makeHistory(node), next: null },
      );
    if (path === "/keys" && method === "POST") return this.#makeKey(JSON.parse(await body()));
    if (path === "/keys")
      return ok({ keys: [...this.links].map(([token, project]) => keyDocument(token, project)) });
    if (path.startsWith("/keys/") && method === "DELETE") {
      for (const token of this.links.keys()) if (path.endsWith(token.slice(0, 12))) this.links.delete(token);
      this.wake();
      return ok({});
    }
    return null;
  }

  #makeKey(spec: { project: string }) {
    const token = createHash("sha256").update(`${this.links.size}`).digest("hex").slice(0, 40);
    this.links.set(token, spec.project);
    return { status: 201, body: { ...keyDocument(token, spec.project), key: token } };
  }
}

const keyDocument = (token: string, project: string) => ({
  ...{ id: token.slice(0, 12), name: "public link", scopes: ["read"], workspace: "default", project },
  ...{ state: "valid", created_ns: startNs },
});

function chainSeries() {
  return ["Block", "Stake", "vTrust", "Emission"].map((metric, k) => {
    const x = Array.from({ length: 64 }, (_, i) => i);
    const mean = x.map((i) => k * 10 + i * 0.5 + Math.sin(i / 5 + k));
    const columns = {
      lo: x,
      hi: x,
      min: mean.map((v) => v - 0.4),
      max: mean.map((v) => v + 0.4),
      mean,
      count: x.map(() => 1),
    };
    return {
      ...{ metric, scale: "ML_STEP", labels: {}, kind: "float64", axes: ["step"], count: 64 },
      ...{ last: { step: 63, time_ns: startNs, value: mean.at(-1) }, preview: { x: "step", columns } },
    };
  });
}
