import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { buckets } from "./bucket.ts";
import { type Curve, type SeriesSpec, type StandinRun, startNs, type World, world } from "./data.ts";
import { picture } from "./kymograph.ts";
import { documentPoints, documents, renderings, sendVideo } from "./media.ts";
import { NetworkStandin } from "./network.ts";
import { csvOf, edited, groupsOf, keyOfRun } from "./table.ts";

export interface StandinOptions {
  /** Answer 401 until this key comes. */
  key?: string;
  /** Delay of bucket answers, to see the loading state. */
  delayMs?: number;
}

interface Live {
  run: StandinRun;
  points: number;
}

class Standin {
  readonly world: World = world();
  readonly curves = new Map<SeriesSpec, Map<number, Curve>>();
  /** Readers of events, each with the test of what it asked for. */
  readonly listeners = new Map<ServerResponse, (run: StandinRun) => boolean>();
  readonly options: StandinOptions;
  readonly network = new NetworkStandin();
  sequence = 0;

  constructor(options: StandinOptions) {
    this.options = options;
  }

  curve(spec: SeriesSpec, attempt: number): Curve {
    let byAttempt = this.curves.get(spec);
    if (!byAttempt) {
      byAttempt = new Map();
      this.curves.set(spec, byAttempt);
    }
    let curve = byAttempt.get(attempt);
    if (!curve) {
      curve = spec.make(attempt);
      byAttempt.set(attempt, curve);
    }
    return curve;
  }

  /** The series of a run, with those that it inherits when they are asked for. */
  series(run: StandinRun, inherited: boolean): (SeriesSpec & { inherited?: number })[] {
    const parent = inherited && run.parent ? this.world.runs.get(run.parent.id) : undefined;
    if (!parent) return run.series;
    const { step } = run.parent!;
    const known = new Map<string, SeriesSpec>(run.series.map((x) => [x.metric, x]));
    const specs = [...parent.series.filter((x) => !known.has(x.metric)), ...run.series];
    return specs.map((own) => {
      const of = parent.series.find((x) => x.metric === own.metric);
      if (!of) return own;
      const mine = known.has(own.metric);
      const upTo = Math.min(step + 1, this.curve(of, 1).value.length);
      const make = (attempt: number) =>
        continued(this.curve(of, 1), step, mine ? this.curve(own, attempt) : undefined);
      return { ...own, make, count: upTo + (mine ? own.count : 0), inherited: upTo };
    });
  }

  /** Appends a point to every series of a run and tells the listeners. */
  append(live: Live, value: (metric: string, i: number) => number): void {
    for (const spec of live.run.series) {
      const curve = this.curve(spec, 1);
      const i = curve.value.length;
      curve.value = grow(curve.value, value(spec.metric, i));
      for (const axis of Object.keys(curve.columns))
        curve.columns[axis] = grow(curve.columns[axis]!, axis === "time_ns" ? startNs + i * 0.5e9 : i);
      spec.count = i + 1;
    }
    live.points += live.run.series.length;
    const data = {
      run: live.run.id,
      points: live.points,
      series: live.run.series.length,
      last_ns: Date.now() * 1e6,
      status: live.run.status,
    };
    for (const [res, wants] of this.listeners)
      if (wants(live.run)) res.write(`id: ${++this.sequence}\nevent: run\ndata: ${JSON.stringify(data)}\n\n`);
  }
}

/** A parent's points up to a step, then the fork's. */
function continued(parent: Curve, step: number, fork: Curve | undefined): Curve {
  const columns: Record<string, Float64Array> = {};
  const join = (a: Float64Array, b: Float64Array | undefined) => {
    const head = a.slice(0, step + 1);
    const out = new Float64Array(head.length + (b?.length ?? 0));
    out.set(head);
    if (b) out.set(b, head.length);
    return out;
  };
  for (const axis of Object.keys(parent.columns))
    columns[axis] = join(parent.columns[axis]!, fork?.columns[axis]);
  const value = join(parent.value, fork?.value);
  const inherited = new Float64Array(value.length).fill(1, 0, Math.min(step + 1, parent.value.length));
  return { ...parent, columns, value, inherited };
}

function grow(column: Float64Array, value: number): Float64Array {
  const out = new Float64Array(column.length + 1);
  out.set(column);
  out[column.length] = value;
  return out;
}

export type Handler = ((req: IncomingMessage, res: ServerResponse) => boolean) & { standin: Standin };

/** standin answers the routes of api/http.md from generated data; false = not one of them. */
export function standin(options: StandinOptions = {}): Handler {
  const s = new Standin(options);
  const handle = (req: IncomingMessage, res: ServerResponse): boolean => {
    const url = new URL(req.url ?? "/", "http://standin");
    if (!url.pathname.startsWith("/api/")) return false;
    route(s, req, res, url).catch((error) => fail(req, res, 500, "internal", String(error)));
    return true;
  };
  return Object.assign(handle, { standin: s });
}

async function route(s: Standin, req: IncomingMessage, res: ServerResponse, url: URL): Promise<void> {
  const path = url.pathname.replace("/api/v1", "");
  if (path === "/server")
    return send(req, res, {
      name: "kymogram",
      version: "0.0.0-standin",
      api: 1,
      http: "",
      grpc: "",
      auth: !!s.options.key,
      time_ns: Date.now() * 1e6,
    });
  if (path === "/session" && req.method === "DELETE") {
    res.setHeader("Set-Cookie", "kymogram_session=; Max-Age=0; SameSite=Strict; HttpOnly; Path=/");
    return void res.writeHead(204).end();
  }
  if (path === "/session") {
    const { token } = JSON.parse(await body(req)) as { token: string };
    if (token !== "good" && !s.network.links.has(token))
      return fail(
        req,
        res,
        401,
        "bad_token",
        "this link was used or is too old",
        "start the server again for a new one",
      );
    res.setHeader("Set-Cookie", `kymogram_session=${token}; SameSite=Strict; HttpOnly; Path=/`);
    return send(req, res, {});
  }
  const session = /kymogram_session=(\w+)/.exec(req.headers.cookie ?? "")?.[1] ?? "";
  if (
    s.options.key &&
    req.headers.authorization !== `Bearer ${s.options.key}` &&
    session !== "good" &&
    !s.network.links.has(session)
  )
    return fail(req, res, 401, "unauthenticated", "no key", "send Authorization: Bearer KEY");
  const state = await s.network.answer(req.method ?? "GET", path, url.searchParams, () => body(req));
  if (state) return send(req, res, state.body, state.status);
  if (path === "/projects") return send(req, res, { projects: projects(s), next: "" });
  if (path === "/live") return live(s, res, url.searchParams);
  if (path === "/buckets") return batch(s, req, res);
  if (path === "/kymograph") return kymograph(s, req, res);
  if (path === "/overviews") return overviews(s, req, res);
  const view = /^\/projects\/[^/]+\/[^/]+\/views(?:\/(.+))?$/.exec(path);
  if (view) return answerView(req, res, view[1]);
  const runs = /^\/projects\/([^/]+)\/([^/]+)\/(runs|groups)$/.exec(path);
  if (runs?.[3] === "groups") {
    const list = selectRuns(s, `${runs[1]}/${runs[2]}`, url.searchParams) ?? [];
    return send(req, res, groupsOf(list.map(row), url.searchParams));
  }
  if (runs) return listRuns(s, req, res, `${runs[1]}/${runs[2]}`, url.searchParams);
  if (/^\/(edits|deletions|restorations)$/.test(path))
    return send(req, res, edited(s.world.runs, path.slice(1), JSON.parse(await body(req))));
  const media = /^\/runs\/([^/]+)\/(renderings|points)(\/[^/]+\/video)?$/.exec(path);
  if (media) return answerMedia(s, req, res, media, url.searchParams);
  const run = /^\/runs\/([^/]+)(\/series|\/restore)?$/.exec(path);
  const found = run && s.world.runs.get(run[1]!);
  if (!found)
    return fail(
      req,
      res,
      404,
      "not_found",
      `there is no run ${run?.[1] ?? path}`,
      "look in the list of runs",
    );
  if (req.method === "DELETE" || run?.[2] === "/restore") {
    found.deleted = req.method === "DELETE";
    return send(req, res, { id: found.id, freed: false });
  }
  if (run?.[2]) return send(req, res, listSeries(s, found, url.searchParams));
  if (req.method === "PATCH") {
    Object.assign(found, JSON.parse(await body(req)));
    return send(req, res, row(found));
  }
  return send(req, res, detail(s, found));
}

/** Panels of every kind over the set A, and two that find nothing. */
const panels = {
  format: 1,
  title: "All kinds",
  description: "lines, numbers, tables",
  panels: [
    { title: "lines", kind: "line", query: { metrics: ["train/loss"] }, axis: "step" },
    { title: "top", kind: "line", query: { metrics: ["train/*"] }, order: "asc", top: 5 },
    { title: "no axis", kind: "line", query: { metrics: ["train/loss"] }, axis: "window" },
    { title: "numbers", kind: "stat", query: { metrics: ["train/loss"] }, by: ["run"], order: "asc", top: 3 },
    { title: "one", kind: "stat", query: { metrics: ["train/loss"] }, by: [], reduce: "count" },
    { title: "table", kind: "table", query: { metrics: ["train/loss", "train/*"] }, reduce: "max" },
    { title: "typo", kind: "line", query: { metrics: ["train/los"] } },
    { title: "no run", kind: "stat", query: { metrics: ["train/loss"], runs: "nobody-*" } },
    { title: "label", kind: "stat", query: { metrics: ["train/loss"], labels: { rank: "0" } } },
  ],
};

/** The same with a range of time and a part of an axis. */
const narrowed = { ...panels, last: "1h", axes: { step: [1000, 1200] } };

function answerView(req: IncomingMessage, res: ServerResponse, name: string | undefined): void {
  const info = {
    name: "kinds",
    title: panels.title,
    panels: panels.panels.length,
    etag: "0",
    changed_ns: startNs,
  };
  if (name === undefined) send(req, res, { views: [info] });
  else if (name === "kinds") send(req, res, panels);
  else if (name === "narrowed") send(req, res, narrowed);
  else
    fail(
      req,
      res,
      404,
      "not_found",
      `there is no view "${name}"`,
      "`kymogram view list` shows those there are",
    );
}

const hasMedia = (r: StandinRun | undefined): boolean => r?.name === "cartpole-pg";

function answerMedia(
  s: Standin,
  req: IncomingMessage,
  res: ServerResponse,
  [, id, what, video]: RegExpExecArray,
  q: URLSearchParams,
): void {
  if (video) {
    sendVideo(req, res);
    return;
  }
  if (what === "points") {
    send(req, res, documentPoints(q.get("metric")!, Number(q.get("from") ?? 0)));
    return;
  }
  const all = hasMedia(s.world.runs.get(id!)) ? renderings : [];
  const found = all.filter((r) => !q.get("env_id") || r.env_id === q.get("env_id"));
  send(req, res, {
    renderings: found.map((r) => ({ ...r, url: r.url?.replace("RUN", id!) })),
    next: null,
  });
}

function projects(s: Standin) {
  return [...s.world.projects].map(([key, runs]) => {
    const [workspace, project] = key.split("/");
    return { workspace, project, runs: runs.length, last_ns: runs[0]?.createdNs ?? 0 };
  });
}

function row(r: StandinRun) {
  const { series: _, createdNs, durationMs, attempts, parent: _p, ledger: _l, shared: _s, ...rest } = r;
  return {
    ...rest,
    display_name: "",
    description: "",
    created_ns: createdNs,
    last_ns: createdNs + durationMs * 1e6,
    attempt: attempts,
    duration_ms: durationMs,
    writers: 1,
  };
}

function lineage(s: Standin, r: StandinRun) {
  const name = (of: StandinRun) => ({ id: of.id, name: of.name, display_name: "" });
  const parent = r.parent && s.world.runs.get(r.parent.id);
  const forks = [...s.world.runs.values()].filter((f) => f.parent?.id === r.id);
  return {
    ancestors: parent ? [{ ...name(parent), up_to: r.parent!.step }] : [],
    broken: null,
    forks: forks.map((f) => ({ ...name(f), fork_step: f.parent!.step })),
  };
}

function detail(s: Standin, r: StandinRun) {
  const attributes: Record<string, unknown> = {
    "sys/git/commit": "b434c17d03aa",
    "sys/host": "node-1",
    "sys/python": "3.12.4",
  };
  for (const [k, v] of Object.entries(r.config)) attributes[`config/${k}`] = v;
  if (r.name === "unlucky") for (let i = 0; i < 100_000; i++) attributes[`config/table/${i}/value`] = i;
  const points = r.series.reduce((n, x) => n + x.count, 0);
  return {
    ...row(r),
    attributes,
    env_attributes:
      r.name === "cartpole-pg" ? [{ env: "env-0", episode: null, path: "gravity", value: 9.8 }] : [],
    attempts: Array.from({ length: r.attempts }, (_, i) => ({
      number: i + 1,
      precedence: i,
      opened_ns: r.createdNs + i * 60e9,
      resume_from_step: i ? 120 : undefined,
    })),
    writers: Array.from({ length: r.attempts }, (_, i) => ({
      id: `${i}`.repeat(32),
      attempt: i + 1,
      state: r.status === "running" && i === r.attempts - 1 ? "open" : "finished",
      host: "node-1",
      pid: 4242 + i,
      rank: i,
      sdk: "python/0.1.0",
      opened_ns: r.createdNs + i * 60e9,
      seen_ns: r.createdNs + r.durationMs * 1e6,
    })),
    ledger: {
      logged: points + (r.status === "lost" ? 12 : 0),
      stored: points,
      superseded: 0,
      refused: 0,
      dropped: r.status === "lost" ? 12 : 0,
      spooled: 0,
      skipped: [],
      damaged: [],
      ...r.ledger,
    },
    lineage: lineage(s, r),
    shared_environments: r.shared ?? [],
    series: r.series.length,
  };
}

function selectRuns(s: Standin, key: string, q: URLSearchParams): StandinRun[] | null {
  const all = s.world.projects.get(key);
  if (!all) return null;
  // Of joins it knows the one that the page makes: not tag=archived (…).
  const line = q.get("q") ?? "";
  const hides = line.startsWith("not tag=archived");
  const words = (
    hides
      ? line
          .slice(16)
          .trim()
          .replace(/^\((.*)\)$/, "$1")
      : line
  )
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean);
  let list = all.filter((r) => !q.get("status") || r.status === q.get("status"));
  list = list.filter((r) => !hides || !r.tags.includes("archived"));
  list = list.filter((r) => !!r.deleted === (q.get("deleted") === "1"));
  list = list.filter((r) => words.every((w) => matches(r, w)));
  const group = q.get("group");
  if (group) {
    const [by, values] = JSON.parse(group) as [string, unknown][][];
    list = list.filter((r) => by!.every((key, i) => keyOfRun(row(r), String(key)) === values![i]));
  }
  const sort = q.get("sort") || "-created";
  const by = sort.replace(/^-/, "");
  const keyOf = (r: StandinRun) =>
    (by === "created"
      ? r.createdNs
      : by === "name"
        ? r.name
        : by === "status"
          ? r.status
          : by.includes("(")
            ? (row(r).summary[/\("?(.*?)"?\)/.exec(by)![1]!]?.value ?? 0)
            : (r.config[by.replace(/^config\//, "")] ?? "")) as string | number;
  if (list.length < 5000)
    list = [...list].sort(
      (a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0) * (sort[0] === "-" ? -1 : 1),
    );
  return list;
}

function listRuns(s: Standin, req: IncomingMessage, res: ServerResponse, key: string, q: URLSearchParams) {
  const list = selectRuns(s, key, q);
  if (!list) return fail(req, res, 404, "not_found", `there is no project ${key}`);
  if (q.get("format") === "csv") {
    res.setHeader("Content-Type", "text/csv");
    return void res.end(csvOf(list.map(row), q.getAll("column")));
  }
  const limit = Number(q.get("limit") ?? 100);
  const at = Number(q.get("cursor") || 0);
  send(req, res, {
    runs: list.slice(at, at + limit).map(row),
    next: at + limit < list.length ? String(at + limit) : "",
  });
}

function matches(r: StandinRun, word: string): boolean {
  const m = /^([^=<>]+)(=|<|>)(.*)$/.exec(word);
  if (!m) return r.name.includes(word) || r.tags.some((t) => t.includes(word));
  const v = r.config[m[1]!.replace(/^config\//, "")];
  if (m[2] === "=") return String(v) === m[3];
  return m[2] === "<" ? Number(v) < Number(m[3]) : Number(v) > Number(m[3]);
}

function listSeries(s: Standin, run: StandinRun, q: URLSearchParams) {
  const re = new RegExp(q.get("q") ?? "");
  const all = s
    .series(run, q.get("include_inherited") === "1")
    .filter((x) => re.test(x.metric))
    .sort((a, b) => (a.metric < b.metric ? -1 : a.metric > b.metric ? 1 : 0));
  const limit = Number(q.get("limit") ?? 1000);
  const at = Number(q.get("cursor") || 0);
  const preview = Number(q.get("preview") || 0);
  const series = all.slice(at, at + limit).map((x) => {
    // Five thousand curves are not made for a list of their names.
    const c = preview || x.inherited || s.curves.has(x) ? s.curve(x, run.attempts) : undefined;
    const i = x.count - 1;
    const value = c ? c.value[i]! : Number(run.summary[x.metric]?.value ?? Number.NaN);
    return {
      metric: x.metric,
      scale: x.scale,
      labels: x.labels,
      kind: "float64",
      axes: x.axes,
      count: x.count,
      ...(q.get("include_inherited") === "1" && { inherited: x.inherited ?? 0 }),
      last:
        c || run.summary[x.metric]
          ? { step: i, time_ns: startNs + i * 0.5e9, value: Number.isFinite(value) ? value : String(value) }
          : null,
      ...(c && preview && { preview: { x: "step", columns: buckets(c, "step", preview) } }),
    };
  });
  if (hasMedia(run) && at === 0) series.push(...(documents.filter((d) => re.test(d.metric)) as never[]));
  return { series, next: at + limit < all.length ? String(at + limit) : "" };
}

/** The metrics with numbers of runs, each once. */
function metricsOf(s: Standin, runs: string[]) {
  const all = runs.flatMap((id) => {
    const run = s.world.runs.get(id);
    return run ? listSeries(s, run, new URLSearchParams({ limit: "10000" })).series : [];
  });
  const numbers = all.filter((m) => m.kind === "float64" || m.kind === "int64");
  return [...new Map(numbers.map(({ metric, scale }) => [`${metric} ${scale}`, { metric, scale }])).values()];
}

async function overviews(s: Standin, req: IncomingMessage, res: ServerResponse) {
  const { runs, ...asked } = JSON.parse(await body(req)) as { runs: string[]; [name: string]: unknown };
  const q = new URLSearchParams(Object.entries(asked).map(([k, v]) => [k, String(v === true ? 1 : v)]));
  const list = runs.map((id) => {
    const run = s.world.runs.get(id);
    if (!run) return { error: { code: "not_found", message: `there is no run ${id}`, hint: "" } };
    return { ...(asked.detail !== false && { run: detail(s, run) }), ...listSeries(s, run, q) };
  });
  send(req, res, { overviews: list, ...(asked.metrics === true && { metrics: metricsOf(s, runs) }) });
}

interface Query {
  run: string;
  metric: string;
  scale: string;
  labels?: Record<string, string>;
  x: string;
  n: number;
  from?: number;
  to?: number;
  attempt?: number;
  include_inherited?: boolean;
}

async function batch(s: Standin, req: IncomingMessage, res: ServerResponse) {
  const { queries } = JSON.parse(await body(req)) as { queries: Query[] };
  const results = queries.map((q) => {
    const run = s.world.runs.get(q.run);
    const list = run ? s.series(run, q.include_inherited ?? false) : [];
    const spec = list.find((x) => isOf(x, q));
    if (!run || !spec)
      return { error: { code: "not_found", message: `there is no series ${q.metric}`, hint: "" } };
    const columns = buckets(s.curve(spec, q.attempt ?? run.attempts), q.x, q.n, q.from, q.to);
    return { x: q.x, range: [columns.lo[0] ?? 0, columns.hi.at(-1) ?? 0], columns };
  });
  if (s.options.delayMs) await new Promise((done) => setTimeout(done, s.options.delayMs));
  send(req, res, { results });
}

async function kymograph(s: Standin, req: IncomingMessage, res: ServerResponse) {
  const q = JSON.parse(await body(req)) as Query & { rows: Partial<Query>[]; columns: number };
  const curves = q.rows.map((row) => {
    const one = { ...q, ...row };
    const run = s.world.runs.get(one.run);
    const spec = run && s.series(run, q.include_inherited ?? false).find((x) => isOf(x, one));
    return spec && s.curve(spec, run.attempts);
  });
  if (s.options.delayMs) await new Promise((done) => setTimeout(done, s.options.delayMs));
  res.setHeader("Content-Type", "application/vnd.kymogram.kymograph");
  res.end(picture(curves, q));
}

const isOf = (
  x: SeriesSpec,
  q: { metric: string; scale: string; labels?: Record<string, string> },
): boolean =>
  x.metric === q.metric && x.scale === q.scale && JSON.stringify(x.labels) === JSON.stringify(q.labels ?? {});

function live(s: Standin, res: ServerResponse, q: URLSearchParams) {
  const runs = q.getAll("run");
  const parents =
    q.get("include_inherited") === "1" ? runs.map((id) => s.world.runs.get(id)?.parent?.id) : [];
  res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  res.write(": hello\n\n");
  s.listeners.set(res, (run) => runs.length === 0 || [...runs, ...parents].includes(run.id));
  const beat = setInterval(() => res.write(":\n\n"), 2_000);
  res.on("close", () => {
    clearInterval(beat);
    s.listeners.delete(res);
  });
}

async function body(req: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of req) text += chunk;
  return text;
}

function send(req: IncomingMessage, res: ServerResponse, value: unknown, status = 200): void {
  const text = JSON.stringify(value);
  res.statusCode = status;
  res.setHeader("Content-Type", "application/json");
  if (!req.headers["accept-encoding"]?.includes("gzip") || text.length < 1024) return void res.end(text);
  res.setHeader("Content-Encoding", "gzip");
  res.end(gzipSync(text, { level: 1 }));
}

function fail(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  code: string,
  message: string,
  hint = "",
): void {
  send(req, res, { error: { code, message, hint } }, status);
}
