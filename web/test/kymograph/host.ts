import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pages } from "../browser/host.ts";
import { passOn, serve } from "../browser/real.ts";

const python = process.env.PYTHON ?? join(import.meta.dirname, "../../../.venv/bin/python");

/** Real is `kymogram serve` with the page as it was built last in front of it. */
export interface Real {
  url: string;
  /** Bytes of answers to kymographs, as they came over the wire, since it was set to 0. */
  bytes: { kymograph: number };
  /** Logs a set of load.py and returns the run's id. */
  load(set: string): Promise<string>;
  /** Logs the live set: call next for one more episode; it resolves with the run's id. */
  live(): { next(): Promise<string>; end(): void };
  close(): Promise<void>;
}

export async function real(): Promise<Real> {
  if (!existsSync(python)) throw new Error(`there is no ${python}: run make setup`);
  const server = await serve("--no-auth");
  const env = { ...server.env, KYMOGRAM_SERVER: server.url };
  const loader = (set: string) => spawn(python, [join(import.meta.dirname, "load.py"), set], { env });
  const bytes = { kymograph: 0 };
  const front = await pages(
    passOn(server.url, (path, n) => {
      if (path.startsWith("/api/v1/kymograph")) bytes.kymograph += n;
    }),
  );
  return {
    ...{ url: front.url, bytes },
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
    async close() {
      front.close();
      await server.close();
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
