/** Generated data for the stand-in: the sets A, B and C of docs/design/targets.md and the states that are hard to reach. */

export interface Curve {
  metric: string;
  scale: string;
  labels: Record<string, string>;
  axes: string[];
  /** Axis columns, time_ns among them; all as long as value. */
  columns: Record<string, Float64Array>;
  value: Float64Array;
  attempt: number;
  /** 1 for each point of an ancestor. */
  inherited?: Float64Array;
}

export interface StandinRun {
  id: string;
  workspace: string;
  project: string;
  name: string;
  status: string;
  tags: string[];
  /** In the trash. */
  deleted?: boolean;
  createdNs: number;
  durationMs: number;
  attempts: number;
  config: Record<string, unknown>;
  summary: Record<string, { step: number; value: number | string }>;
  series: SeriesSpec[];
  /** The run that this one is forked from, and the last step that it inherits. */
  parent?: { id: string; step: number };
  /** Parts of the ledger that are not 0, and what else the document says. */
  ledger?: Record<string, unknown>;
  shared?: { env_id: string; time_ns: number; writers: [string, string] }[];
}

export interface SeriesSpec {
  metric: string;
  scale: string;
  labels: Record<string, string>;
  axes: string[];
  count: number;
  make: (attempt: number) => Curve;
}

/** mulberry32: a small seeded generator, so that every start draws the same pictures. */
export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

const gauss = (r: () => number) => Math.sqrt(-2 * Math.log(1 - r())) * Math.cos(6.283185307 * r());

export const startNs = 1_790_000_000e9;

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
export function ulid(seed: string): string {
  const r = random(hash(seed));
  let out = "01";
  while (out.length < 26) out += crockford[Math.floor(r() * 32)];
  return out;
}

interface Shape {
  from: number;
  to: number;
  rate: number;
  noise: number;
}

function curve(
  spec: Omit<SeriesSpec, "make" | "count">,
  n: number,
  shape: Shape,
  seed: string,
  attempt = 1,
): Curve {
  const r = random(hash(seed + attempt));
  const step = new Float64Array(n);
  const time = new Float64Array(n);
  const value = new Float64Array(n);
  let drift = 0;
  for (let i = 0; i < n; i++) {
    step[i] = i;
    time[i] = startNs + i * 0.5e9;
    drift = drift * 0.97 + gauss(r) * 0.25;
    const t = (i / n) * shape.rate;
    value[i] =
      shape.to +
      (shape.from - shape.to) * Math.exp(-t) +
      (drift + gauss(r) * 0.5) * shape.noise * (0.3 + Math.exp(-t));
  }
  return { ...spec, columns: { step, time_ns: time }, value, attempt };
}

function spec(
  metric: string,
  n: number,
  shape: Shape,
  seed: string,
  labels: Record<string, string> = {},
): SeriesSpec {
  const base = { metric, scale: "ML_STEP", labels, axes: ["step"] };
  return {
    ...base,
    count: n,
    make: (attempt) => curve(base, n, shape, `${seed}/${metric}/${JSON.stringify(labels)}`, attempt),
  };
}

const metricsA = [
  "train/loss",
  "train/accuracy",
  "eval/loss",
  "eval/accuracy",
  "optim/lr",
  "optim/grad_norm",
  ...Array.from({ length: 6 }, (_, i) => `layers/${i}/grad_norm`),
  ...Array.from({ length: 6 }, (_, i) => `layers/${i}/weight_norm`),
  "time/step_ms",
  "time/data_ms",
];

function shapeOf(metric: string, lr: number): Shape {
  const good = 1 / (1 + 4 * Math.abs(Math.log10(lr) + 2));
  if (metric.endsWith("loss")) return { from: 2.4, to: 0.9 - 0.8 * good, rate: 3 + 4 * good, noise: 0.12 };
  if (metric.endsWith("accuracy"))
    return { from: 0.1, to: 0.6 + 0.37 * good, rate: 3 + 5 * good, noise: 0.02 };
  if (metric.endsWith("lr")) return { from: lr, to: lr / 10, rate: 4, noise: 0 };
  if (metric.startsWith("time")) return { from: 14, to: 12, rate: 9, noise: 1.4 };
  return { from: 8, to: 1.2, rate: 6, noise: 0.4 };
}

function runA(i: number, project: string, steps: number): StandinRun {
  const lr = [0.3, 0.1, 0.03, 0.01, 0.003][i % 5]!;
  const name = `${["brisk", "calm", "deep", "early", "fair", "keen", "mild", "pale", "swift", "warm"][i % 10]}-${["heron", "larch", "otter", "pike", "wren"][Math.floor(i / 10) % 5]}-${i}`;
  const series = metricsA.map((m) => spec(m, steps, shapeOf(m, lr), `${project}${i}`));
  const summary: StandinRun["summary"] = {};
  for (const m of ["eval/accuracy", "eval/loss", "train/loss"]) {
    const r = random(hash(m + i));
    summary[m] = { step: steps - 1, value: shapeOf(m, lr).to + gauss(r) * 0.01 };
  }
  return {
    id: ulid(`${project}/${i}`),
    workspace: "default",
    project,
    name,
    status: ["finished", "finished", "running", "failed", "lost"][i % 7 > 4 ? 0 : i % 7]!,
    tags: i % 3 === 0 ? ["baseline"] : i % 4 === 0 ? ["sweep", "lr"] : [],
    createdNs: startNs + i * 3600e9,
    durationMs: 1000 * steps * 0.5,
    attempts: 1 + (i % 6 === 1 ? 1 : 0),
    config: {
      lr,
      seed: i % 10,
      batch_size: 64,
      "model/width": 32 * (1 + (i % 3)),
      optimizer: i % 2 ? "adamw" : "sgd",
    },
    summary,
    series,
  };
}

function runB(): StandinRun {
  const series: SeriesSpec[] = [];
  for (let i = 0; i < 1250; i++)
    for (const what of ["grad_norm", "weight_norm", "act_mean", "act_std"])
      series.push(
        spec(`layers/${i}/${what}`, 100, { from: 6, to: 1 + (i % 7), rate: 4, noise: 0.5 }, `b${i}`),
      );
  return { ...runA(3, "B", 100), id: ulid("B"), name: "wide-5000", status: "finished", attempts: 1, series };
}

function runC(): StandinRun {
  const base = spec("train/loss", 1_000_000, { from: 1.9, to: 0.6, rate: 5, noise: 0.2 }, "c");
  let made: Curve | undefined;
  const make = () => {
    if (made) return made;
    made = base.make(1);
    made.value[618_033] = 1000;
    for (const i of [250_000, 250_001, 700_000]) made.value[i] = Number.NaN;
    made.value[800_000] = Number.POSITIVE_INFINITY;
    made.value[850_000] = Number.NEGATIVE_INFINITY;
    return made;
  };
  return { ...runA(0, "C", 10), id: ulid("C"), name: "long-1m", attempts: 1, series: [{ ...base, make }] };
}

/** An RL run: three axes, eight environments, two attempts of which the later starts at step 120. */
function runRL(): StandinRun {
  const series: SeriesSpec[] = [];
  for (let env = 0; env < 8; env++) {
    const base = {
      metric: "episode/return",
      scale: "EPISODE",
      labels: { env_id: `env-${env}` },
      axes: ["step", "rl_step", "episode"],
    };
    const make = (attempt: number) => {
      const c = curve(base, 240, { from: 12, to: 180 + env * 8, rate: 3, noise: 22 }, `rl${env}`, attempt);
      c.columns.rl_step = c.columns.step!.map((s) => Math.floor(s / 2));
      c.columns.episode = c.columns.step!.slice();
      return c;
    };
    series.push({ ...base, count: 240, make });
  }
  series.push(spec("update/policy_loss", 400, { from: 0.6, to: 0.02, rate: 3, noise: 0.08 }, "rl"));
  series.push(spec("update/entropy", 400, { from: 0.69, to: 0.2, rate: 2, noise: 0.02 }, "rl"));
  return { ...runA(1, "rl", 400), id: ulid("rl"), name: "cartpole-pg", attempts: 2, series };
}

function runEmpty(): StandinRun {
  return {
    ...runA(2, "rl", 1),
    id: ulid("empty"),
    name: "just-started",
    attempts: 1,
    series: [],
    summary: {},
  };
}

function runLines(): StandinRun {
  const series = Array.from({ length: 300 }, (_, i) =>
    spec("miner/score", 200, { from: 0, to: 0.4 + (i % 50) / 100, rate: 3, noise: 0.05 }, `m${i}`, {
      uid: String(i),
    }),
  );
  return { ...runA(5, "rl", 200), id: ulid("lines"), name: "many-miners", attempts: 1, series };
}

/** A run, and a fork of it at step 499 that went better; the second loss is the parent's alone. */
function runFork(): StandinRun[] {
  const bad: Shape = { from: 2.4, to: 1.1, rate: 5, noise: 0.12 };
  const parent: StandinRun = {
    ...runA(0, "fork", 1000),
    ...{ id: ulid("fork/parent"), name: "base", attempts: 1 },
    series: [spec("train/loss", 1000, bad, "base"), spec("eval/loss", 1000, bad, "base")],
  };
  const base = spec("train/loss", 400, { from: 1.1, to: 0.4, rate: 4, noise: 0.06 }, "fork");
  const make = (attempt: number) => {
    const c = base.make(attempt);
    c.columns.step = c.columns.step!.map((s) => s + 500);
    c.columns.time_ns = c.columns.time_ns!.map((t) => t + 7200e9);
    return c;
  };
  const fork: StandinRun = {
    ...runA(1, "fork", 400),
    ...{ id: ulid("fork/child"), name: "lower-lr", attempts: 1, status: "finished" },
    series: [{ ...base, make }],
    parent: { id: parent.id, step: 499 },
  };
  return [parent, fork];
}

/** A run of which parts were lost in every way that there is. */
function runLost(): StandinRun {
  const run = runA(2, "lost", 200);
  return {
    ...run,
    ...{ id: ulid("lost"), name: "unlucky", attempts: 2, status: "failed" },
    ledger: {
      ...{ logged: 4000, stored: 3900, superseded: 40, refused: 7, dropped: 12 },
      skipped: [
        { first: 31, last: 31, reason: "torn" },
        { first: 40, last: 44, reason: "quarantined", points: 21 },
        { first: 60, last: 70, reason: "restored", points: 11 },
        { first: 90, last: 91, reason: "damaged", points: 2 },
      ],
      damaged: [{ file: "segments/17.seg", points: 47, min_time_ns: startNs, max_time_ns: startNs + 60e9 }],
    },
    shared: [{ env_id: "env-3", time_ns: startNs + 5e9, writers: ["0".repeat(32), "1".repeat(32)] }],
  };
}

/** A sweep of 200 runs of which the learning rate decides, among parameters that do not. */
function runSweep(i: number): StandinRun {
  const r = random(hash(`sweep${i}`));
  const lr = Number((10 ** (-4 + 3.5 * r())).toPrecision(4));
  const final = 0.3 + 0.4 * Math.abs(Math.log10(lr) + 2.3) + 0.05 * gauss(r);
  const shape: Shape = { from: 2.4, to: final, rate: 4, noise: 0.06 };
  const series = ["eval/loss", "train/loss"].map((m) => spec(m, 300, shape, `sweep${i}`));
  return {
    ...runA(i, "sweep", 300),
    ...{ name: `r${i}`, status: "finished", attempts: 1, tags: [], series },
    config: {
      ...{ lr, seed: Math.floor(r() * 1000), batch_size: [16, 32, 64][Math.floor(r() * 3)]! },
      ...{ dropout: [0, 0.1, 0.3][Math.floor(r() * 3)]!, optimizer: r() < 0.5 ? "adam" : "sgd" },
    },
    summary: { "eval/loss": { step: 299, value: final }, "train/loss": { step: 299, value: final - 0.02 } },
  };
}

/** Many runs, which share the series of fifty. */
function many(n: number): StandinRun[] {
  const base = Array.from({ length: 50 }, (_, i) => runA(i, "A", 1));
  return Array.from({ length: n }, (_, i) => ({
    ...base[i % 50]!,
    id: `01H${String(i).padStart(23, "0")}`,
    project: "huge",
    name: `run-${i}`,
  }));
}

export interface World {
  projects: Map<string, StandinRun[]>;
  runs: Map<string, StandinRun>;
}

export function world(): World {
  const projects = new Map<string, StandinRun[]>([
    ["default/A", Array.from({ length: 50 }, (_, i) => runA(i, "A", 2000))],
    ["default/sweep", Array.from({ length: 200 }, (_, i) => runSweep(i))],
    ["default/B", [runB()]],
    ["default/C", [runC()]],
    ["default/rl", [runRL(), runEmpty(), runLines()]],
    ["default/fork", runFork()],
    ["default/lost", [runLost()]],
    ["default/empty", []],
    ["default/huge", many(100_000)],
  ]);
  const runs = new Map<string, StandinRun>();
  for (const list of projects.values()) for (const run of list) runs.set(run.id, run);
  return { projects, runs };
}
