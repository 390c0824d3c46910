import { signal } from "@preact/signals";
import { Batch } from "../api/batch.ts";
import { buckets } from "../api/client.ts";
import { Live } from "../api/live.ts";

/** What lives as long as the page: one batch of bucket queries a frame, one event stream a browser. */
export const batch = new Batch(buckets, (run) => {
  // A hidden tab has no frames.
  if (document.hidden) setTimeout(run, 16);
  else requestAnimationFrame(run);
});

export const live = new Live();

export const help = signal(false);
/** Keys of the page that is open, which the list of keys shows first. */
export const pageKeys = signal<[string, string][]>([]);
export interface Notice {
  text: string;
  bad: boolean;
  undo?: () => void;
}

export const notice = signal<Notice | null>(null);

/** Shows a notice at the foot of the page for some time, unless another takes its place. */
export function notify(mine: Notice, shownMs = 5000): void {
  notice.value = mine;
  setTimeout(() => {
    if (notice.value === mine) notice.value = null;
  }, shownMs);
}

export const say = (text: string, bad = false): void => notify({ text, bad });
