import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, request, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = process.env.KYMOGRAM_BINARY ?? join(import.meta.dirname, "../../../bin/kymogram");

export interface Real {
  url: string;
  /** A new key with these rights. */
  key(scope: string): string;
  /** Rows of CSV, each with its run, become runs of a project of the workspace default. */
  add(project: string, csv: string): void;
  close(): Promise<void>;
}

export interface Served {
  url: string;
  /** Its own, removed when it closes: data in `data`, and a home and a spool of the programs that log into it. */
  folder: string;
  env: NodeJS.ProcessEnv;
  close(): Promise<void>;
}

/** A server of the real binary on a folder of its own. */
export async function serve(...options: string[]): Promise<Served> {
  if (!existsSync(binary)) throw new Error(`there is no ${binary}: run make setup`);
  const folder = mkdtempSync(join(tmpdir(), "kymogram-web-"));
  const env = {
    ...process.env,
    ...{ KYMOGRAM_SPOOL_DIR: join(folder, "spool"), HOME: folder, XDG_CONFIG_HOME: folder },
  };
  const args = ["serve", "--data", join(folder, "data"), "--http", "127.0.0.1:0", ...options];
  const server = spawn(binary, args, { env });
  let said = "";
  const url = await new Promise<string>((done, fail) => {
    const read = (chunk: Buffer) => {
      said += chunk;
      const ready = /ready http=(\S+)/.exec(said);
      if (ready) done(`http://${ready[1]}`);
    };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
    server.on("exit", (code) => fail(new Error(`the server ended with ${code}: ${said}`)));
  });
  const close = async () => {
    const ended = new Promise((done) => server.once("exit", done));
    server.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, folder, env, close };
}

/** Hands what is asked of the API on to a server, for a page that is newer than the binary's; heard has the sizes of answers. */
export const passOn =
  (api: string, heard: (path: string, bytes: number) => void = () => {}) =>
  (req: IncomingMessage, res: ServerResponse): boolean => {
    const path = req.url!;
    if (!path.startsWith("/api/")) return false;
    const to = request(api + path, { method: req.method, headers: req.headers }, (from) => {
      res.writeHead(from.statusCode!, from.headers);
      from.on("data", (chunk: Buffer) => heard(path, chunk.length));
      from.pipe(res);
    });
    to.on("error", () => res.destroy());
    res.on("close", () => to.destroy());
    req.pipe(to);
    return true;
  };

/** A server with keys, and runs from CSV. */
export async function real(): Promise<Real> {
  const { url, folder, env, close } = await serve("--log-level", "error");
  const data = join(folder, "data");
  const run = (...args: string[]) => execFileSync(binary, args, { env, encoding: "utf8" });
  const key = (scope: string): string => {
    const text = run("key", "create", "--name", scope, "--scope", scope, "--data", data, "--json");
    return JSON.parse(text).key;
  };
  const writer = key("ingest,read");
  return {
    url,
    key,
    add: (project, csv) => {
      const file = join(folder, `${project}.csv`);
      writeFileSync(file, csv);
      run(
        "import",
        "csv",
        file,
        "--project",
        project,
        "--run-column",
        "run",
        "--server",
        url,
        "--key",
        writer,
      );
    },
    close,
  };
}
