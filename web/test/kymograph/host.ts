import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as ask, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../../..");
const dist = join(root, "web/dist");
const binary = process.env.KYMOGRAM_BINARY ?? join(root, "bin/kymogram");
const python = process.env.PYTHON ?? join(root, ".venv/bin/python");

// What server/internal/server sets.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const types: Record<string, string> = {
  ...{ html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" },
};

/** Real is `kymogram serve` with the page as it was built last in front of it. */
export interface Real {
  url: string;
  /** Bytes of answers to kymographs, as they came over the wire, since it was set to 0. */
  bytes: { kymograph: number };
  /** Logs a set of load.py and returns the run's id. */
  load(set: string): Promise<string>;
  /** Logs the live set: call next for one more episode; it resolves with the run's id. */
  live(): { next(): Promise<string>; end(): void };
  close(): void;
}

export async function real(): Promise<Real> {
  for (const path of [binary, python])
    if (!existsSync(path)) throw new Error(`there is no ${path}: run make setup`);
  const dir = mkdtempSync(join(tmpdir(), "kymograph-"));
  const server = spawn(binary, ["serve", "--no-auth", "--data", join(dir, "data"), "--http", "127.0.0.1:0"]);
  const api = `http://${/http=(\S+)/.exec(await line(server))![1]}`;
  const env = { ...process.env, KYMOGRAM_SERVER: api, KYMOGRAM_SPOOL_DIR: join(dir, "spool") };
  const loader = (set: string) => spawn(python, [join(import.meta.dirname, "load.py"), set], { env });
  const bytes = { kymograph: 0 };
  const front = createServer((req, res) => {
    if (req.url!.startsWith("/api/")) {
      const to = ask(api + req.url, { method: req.method, headers: req.headers }, (from) => {
        res.writeHead(from.statusCode!, from.headers);
        if (req.url!.startsWith("/api/v1/kymograph"))
          from.on("data", (chunk: Buffer) => {
            bytes.kymograph += chunk.length;
          });
        from.pipe(res);
      });
      to.on("error", () => res.destroy());
      res.on("close", () => to.destroy());
      req.pipe(to);
      return;
    }
    const path = new URL(req.url!, "http://page").pathname;
    const file = /\.\w+$/.test(path) ? path : "/index.html";
    res.setHeader("Content-Security-Policy", policy);
    res.setHeader("Content-Type", types[file.split(".").pop()!] ?? "application/octet-stream");
    res.end(readFileSync(join(dist, file)));
  });
  await new Promise<void>((done) => front.listen(0, "127.0.0.1", done));
  return {
    ...{ url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`, bytes },
    async load(set) {
      const child = loader(set);
      const [id] = await Promise.all([line(child), ended(child)]);
      return id;
    },
    live() {
      const child = loader("live");
      return {
        next() {
          const id = line(child);
          child.stdin!.write("\n");
          return id;
        },
        end: () => child.stdin!.end(),
      };
    },
    close() {
      front.closeAllConnections();
      front.close();
      server.once("exit", () => rmSync(dir, { recursive: true, force: true }));
      server.kill();
    },
  };
}

/** The next line that a process says. */
function line(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let [text, errors] = ["", ""];
    child.stderr!.on("data", (chunk) => {
      errors += chunk;
    });
    const said = (chunk: Buffer) => {
      text += chunk;
      if (!text.includes("\n")) return;
      child.stdout!.off("data", said);
      resolve(text.split("\n")[0]!);
    };
    child.stdout!.on("data", said);
    child.once("exit", (rc) => reject(new Error(`ended with ${rc}: ${errors.slice(-2000)}`)));
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once("exit", () => resolve()));
}
