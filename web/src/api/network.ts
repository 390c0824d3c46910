import { ApiError, projectPath, request } from "./client.ts";

/** The documents of …/network as the page reads them (docs/network.md). */

export const verdicts = [
  "verified",
  "legacy",
  "broken",
  "stale",
  "shared_key",
  "equivocated",
  "unregistered",
] as const;

export type Verdict = (typeof verdicts)[number];

/** What the newest record of a node says of the node itself. */
export interface Node {
  hotkey: string;
  uid: number | null;
  run_id: string;
  run: string;
  verdict: Verdict;
  reason: string;
  sequence: number;
  block: number;
  time_ms: number;
  expires_ms: number;
  version: number | null;
  endpoint: Endpoint | null;
}

/** What the chain has registered for a hotkey; answers is null until the server has tried. */
export interface Endpoint {
  address: string;
  block: number;
  answers: boolean | null;
  error?: string;
}

/** A miner that only others speak of has no record, and so no verdict. */
export interface Miner extends Omit<Node, "verdict"> {
  verdict: Verdict | "";
  allocated: string;
  port_open: boolean | null;
  result: Result | null;
}

/** The merge of all reports that count. carried holds places in the list of validators. */
export interface Result {
  /** Which the report is of: it may be another than the row's. */
  hotkey: string;
  score: number;
  gpu: number;
  carried: number[];
  against: number;
}

export interface Validator extends Node {
  stake: number | null;
  /** Whether its reports have a vote; notes say why not, and what else is odd. */
  counted: boolean;
  notes: string[];
  agrees: number;
  differs: number;
  /** The place of its record in the project's log. */
  index: number;
  /** Its reports, one for each miner in order. */
  scores: (number | null)[];
  flags: number[];
  gpus: number[];
}

/** Bits of a report's flags. */
export const own = 1;
export const allocated = 2;
export const otherHotkey = 4;
export const differs = 8;

export interface Finding {
  kind: string;
  role: string;
  hotkey: string;
  run_id: string;
  text: string;
}

export interface Network {
  workspace: string;
  project: string;
  netuid: number | null;
  netuids: number[];
  /** The log's size that this is of; a later request with since=index waits for more. */
  index: number;
  /** How far the judging of a large project is; the next answer knows more. */
  judging?: { done: number; of: number };
  time_ms: number;
  chain: { block: number; error?: string } | null;
  gpus: [string, number][];
  miners: Miner[];
  validators: Validator[];
  findings: Finding[];
  /** What did not fit the answer. */
  left_out: { miners: number; validators: number };
}

/** Reads the network; with since and wait the server answers when there is more, or when wait seconds are over. */
export function network(
  workspace: string,
  project: string,
  query: Record<string, string | number>,
  abort: AbortSignal,
): Promise<Network> {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== "") params.set(name, String(value));
  const text = params.size ? `?${params}` : "";
  return request<Network>(`${projectPath(workspace, project)}/network${text}`, { signal: abort }, true);
}

/** A record as it was signed, with the server's place for it. */
export interface Envelope {
  record: string;
  signature: string;
  payload: string;
}

export interface Entry extends Envelope {
  index: number;
  received_ns: number;
  run_id: string;
  run: string;
  sequence: number;
  hash: string;
  hotkey: string;
  role: string;
  fork?: boolean;
  verdict?: Verdict;
  reason?: string;
}

export interface HistoryPage {
  entries: Entry[] | null;
  next?: number | string | null;
  more?: boolean;
}

/** The newest records of a run below a sequence, in order. */
export function history(id: string, before: number, limit: number): Promise<HistoryPage> {
  return request(`/runs/${encodeURIComponent(id)}/state/history?before=${before}&limit=${limit}`, {}, true);
}

/** Whether a project has signed state at all; a server that keeps none has no such route. */
export async function hasState(workspace: string, project: string): Promise<boolean> {
  try {
    const path = `${projectPath(workspace, project)}/state?limit=1`;
    const page = await request<{ entries: unknown[] | null }>(path, {}, true);
    return !!page.entries?.length;
  } catch {
    return false; // the list of runs shows what is wrong with the server
  }
}

export interface PublicLink {
  id: string;
  created_ns: number;
  expires_ns?: number;
  last_ns?: number;
}

interface Key extends PublicLink {
  name: string;
  state: string;
  workspace?: string;
  project?: string;
  key?: string;
}

/** A public link is a key with this name: it reads one project and nothing else. */
const linkName = "public link";

/** The links of a project, or null for a reader who may not see them. */
export async function publicLinks(workspace: string, project: string): Promise<PublicLink[] | null> {
  try {
    const { keys } = await request<{ keys: Key[] }>("/keys", {}, true);
    return keys.filter(
      (k) => k.name === linkName && k.state === "valid" && k.workspace === workspace && k.project === project,
    );
  } catch (cause) {
    if (cause instanceof ApiError && (cause.status === 401 || cause.status === 403)) return null;
    throw cause;
  }
}

/** Makes a link and returns its address; the token is in the fragment, which browsers do not send. */
export async function makePublicLink(workspace: string, project: string): Promise<string> {
  const spec = { name: linkName, scopes: ["read"], workspace, project };
  const body = {
    method: "POST",
    body: JSON.stringify(spec),
    headers: { "Content-Type": "application/json" },
  };
  const { key } = await request<Key>("/keys", body);
  return `${location.origin}/network/${encodeURIComponent(workspace)}/${encodeURIComponent(project)}#${key}`;
}

export async function revokePublicLink(id: string): Promise<void> {
  await request<null>(`/keys/${encodeURIComponent(id)}`, { method: "DELETE" });
}
