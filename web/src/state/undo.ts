import { notify, say } from "./app.ts";

const most = 50; // changes that can be taken back
const shownMs = 10_000; // to read it and to decide

interface Change {
  text: string;
  back: () => void;
}

const changes: Change[] = [];

/** Says what was done, with a button that takes it back; ctrl+z takes back the newest change, also of a quiet one. */
export function done(text: string, back: () => void, quiet = false): void {
  const change = { text, back };
  changes.push(change);
  if (changes.length > most) changes.shift();
  if (quiet) return;
  notify({ text, bad: false, undo: () => undo(change) }, shownMs);
}

/** Takes back one change, or the newest; false where there is none. */
export function undo(change = changes.at(-1)): boolean {
  const at = change ? changes.lastIndexOf(change) : -1;
  if (!change || at < 0) return false;
  changes.splice(at, 1);
  change.back();
  say(`undone: ${change.text}`);
  return true;
}

/** Forgets all changes: they belong to a project that is not shown any more. */
export function forget(): void {
  changes.length = 0;
}
