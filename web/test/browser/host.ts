import { mkdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import { type Handler, type StandinOptions, standin } from "../standin/server.ts";

const dist = join(import.meta.dirname, "../../dist");
export const pictures = join(import.meta.dirname, "../../test-results");
mkdirSync(pictures, { recursive: true });

// What server/internal/server sets.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const mostHeader = 64 << 10; // as the server's

const types: Record<string, string> = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};

export interface Host {
  url: string;
  handler: Handler;
  /** Bytes of API answers on the wire since the last reset. */
  bytes: { api: number };
  close(): void;
}

/** Serves the built page under the policy that the server sets. What `api` answers is not the page's. */
export async function pages(
  api: (req: IncomingMessage, res: ServerResponse) => boolean,
  port = 0,
): Promise<{ url: string; close(): void }> {
  const server = createServer({ maxHeaderSize: mostHeader }, (req, res) => {
    if (api(req, res)) return;
    const path = new URL(req.url ?? "/", "http://page").pathname;
    const file = /\.\w+$/.test(path) ? path : "/index.html";
    res.setHeader("Content-Security-Policy", policy);
    res.setHeader("Content-Type", types[file.split(".").pop()!] ?? "application/octet-stream");
    try {
      res.end(readFileSync(join(dist, file)));
    } catch {
      res.statusCode = 404;
      res.end("no such file");
    }
  });
  await new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The page over generated data. */
export async function host(options: StandinOptions = {}, port = 0): Promise<Host> {
  const handler = standin(options);
  const bytes = { api: 0 };
  const front = await pages((req, res) => {
    const end = res.end.bind(res);
    res.end = ((chunk?: string | Buffer) => {
      if (chunk && req.url?.startsWith("/api/")) bytes.api += chunk.length;
      return end(chunk);
    }) as typeof res.end;
    return handler(req, res);
  }, port);
  return { ...front, handler, bytes };
}

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export interface Tab {
  page: Page;
  context: BrowserContext;
  /** What the page should never say: errors of scripts, refused by the policy, failed requests. */
  complaints: string[];
}

export async function open(
  browser: Browser,
  theme: "light" | "dark" = "light",
  size = { width: 1440, height: 900 },
): Promise<Tab> {
  const context = await browser.newContext({ viewport: size, colorScheme: theme, acceptDownloads: true });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (e) => complaints.push(e.stack ?? e.message));
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") complaints.push(m.text());
  });
  return { page, context, complaints };
}

export const shot = (page: Page, name: string) => page.screenshot({ path: join(pictures, `${name}.png`) });

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

type Axe = { run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };

/** What axe-core finds wrong with contrast, names and roles, with the elements; all of its rules, or some by tag or by name. */
export async function findings(page: Page, rules?: string[]): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async (runOnly) => {
    const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run(runOnly ? { runOnly } : {});
    return violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 140)).join(" | ")}`);
  }, rules);
}

/**
 * Takes a picture of the page in each theme, and expects that axe-core finds nothing. Names and roles are the same
 * in both, so that the second is asked for its colours alone.
 */
export async function inBothThemes(page: Page, name: string, rules?: string[]): Promise<void> {
  await shot(page, `${name}-light`);
  expect(await findings(page, rules), `${name} in light`).toEqual([]);
  await darken(page);
  await shot(page, `${name}-dark`);
  expect(await findings(page, ["color-contrast", "link-in-text-block"]), `${name} in dark`).toEqual([]);
}

/** Switches the reader's theme to the dark one. */
export async function darken(page: Page): Promise<void> {
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await page.waitForTimeout(300); // the charts paint again
}

/** Resolves when this many charts have drawn a line and none waits for data. */
export async function settled(page: Page, atLeast: number): Promise<void> {
  await page.waitForFunction(
    (n) => document.querySelectorAll(".card[data-drawn] canvas").length >= n,
    atLeast,
  );
  await page.waitForTimeout(350);
}
