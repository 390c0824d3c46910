import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = join(import.meta.dirname, "../../../bin/kymogram");

export interface Real {
  url: string;
  /** A new key with these rights. */
  key(scope: string): string;
  /** Rows of CSV, each with its run, become runs of a project of the workspace default. */
  add(project: string, csv: string): void;
  close(): Promise<void>;
}

/** A server of the real binary on a folder of its own. */
export async function real(): Promise<Real> {
  const folder = mkdtempSync(join(tmpdir(), "kymogram-web-"));
  const data = join(folder, "data");
  const env = { ...process.env, KYMOGRAM_SPOOL_DIR: join(folder, "spool"), HOME: folder };
  const server = spawn(binary, ["serve", "--data", data, "--http", "127.0.0.1:0", "--log-level", "error"], {
    env,
  });
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
    close: async () => {
      const ended = new Promise((done) => server.once("exit", done));
      server.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
