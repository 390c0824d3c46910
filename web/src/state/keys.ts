import { undo } from "./undo.ts";

/** The page's keys. A view binds what it answers; the newest binding of a key wins and unbinding restores the older. */
type Action = (e: KeyboardEvent) => void;

const bound = new Map<string, Action[]>();
let pending = "";

export function bind(keys: Record<string, Action>): () => void {
  for (const [key, action] of Object.entries(keys)) bound.set(key, [...(bound.get(key) ?? []), action]);
  return () => {
    for (const [key, action] of Object.entries(keys))
      bound.set(
        key,
        (bound.get(key) ?? []).filter((a) => a !== action),
      );
  };
}

function isTyping(target: EventTarget | null): boolean {
  const el = target as HTMLElement | null;
  return !!el?.matches?.("input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]");
}

export function listenKeys(): void {
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key === "z" && !e.shiftKey && !e.altKey && !isTyping(e.target)) {
      if (undo()) e.preventDefault();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (isTyping(e.target) && e.key !== "Escape") return;
    const chord = pending ? `${pending} ${e.key}` : e.key;
    pending = "";
    const action = bound.get(chord)?.at(-1);
    if (action) {
      e.preventDefault();
      action(e);
      return;
    }
    if (e.key === "g") pending = "g";
  });
}
