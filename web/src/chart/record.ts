import type { Entry } from "../api/network.ts";

/** What a state record says of itself, as far as a time line shows it. */
export interface Signed {
  netuid: number;
  sequence: number;
  previous: string;
  block: number;
  timeMs: number;
  expiresMs: number;
  machine: string;
  payloadType: string;
}

const domain = "kymogram/state/v1\0";

/** Reads a record's canonical bytes; null for bytes of another form. */
export function readRecord(base64: string): Signed | null {
  const bytes = bytesOf(base64);
  if (!bytes || new TextDecoder().decode(bytes.subarray(0, domain.length)) !== domain) return null;
  const view = new DataView(bytes.buffer);
  let at = domain.length;
  const skip = (n: number): Uint8Array => {
    at += n;
    if (at > bytes.length) throw new RangeError("cut");
    return bytes.subarray(at - n, at);
  };
  const short = () => {
    skip(2);
    return view.getUint16(at - 2);
  };
  const text = () => new TextDecoder().decode(skip(short()));
  const number = () => {
    skip(8);
    return Number(view.getBigUint64(at - 8));
  };
  try {
    skip(32); // the chain's genesis
    const netuid = short();
    text(); // role
    skip(32); // hotkey
    for (let i = 0; i < 3; i++) text(); // workspace, project, run
    return {
      ...{ netuid, sequence: number(), previous: hex(skip(32)), block: number(), timeMs: number() },
      ...{ expiresMs: number(), machine: hex(skip(16)), payloadType: text() },
    };
  } catch {
    return null;
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

const hex = (bytes: Uint8Array): string => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");

type Section = Record<string, unknown>;

export function payloadOf(entry: Entry): Section {
  try {
    const bytes = bytesOf(entry.payload) ?? new Uint8Array();
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Section) : {};
  } catch {
    return {};
  }
}

/** What a record changed in the state before it, in words. */
export function changes(before: Section | null, after: Section): string[] {
  if (!before) return ["the first record"];
  const out: string[] = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[key], after[key]];
    if (JSON.stringify(a) === JSON.stringify(b) || key === "signature") continue;
    out.push(change(key, a, b));
  }
  return out;
}

function change(key: string, a: unknown, b: unknown): string {
  if (b === undefined) return `${key} removed`;
  if (isSection(a) && isSection(b)) {
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    const n = [...keys].filter((k) => JSON.stringify(a[k]) !== JSON.stringify(b[k])).length;
    return `${key}: ${n} of ${keys.size} entries`;
  }
  if (Array.isArray(b)) return `${key}: ${b.length} entries`;
  return isSection(b) ? `${key} set` : `${key} → ${short(b)}`;
}

const isSection = (v: unknown): v is Section => !!v && typeof v === "object" && !Array.isArray(v);

function short(value: unknown): string {
  const text = value === null ? "none" : String(value);
  return text.length > 40 ? `${text.slice(0, 37)}…` : text;
}
