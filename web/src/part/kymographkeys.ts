import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { columnStart, type Picture } from "../api/kymograph.ts";
import type { Brush, Place } from "../chart/brush.ts";
import type { Box } from "./kymograph.tsx";

interface KeyProps {
  at: Signal<Place | null>;
  brush: Signal<Brush | null>;
  rows: number;
  box: Box;
  picture: Picture | null;
  open: (row: number) => void;
  zoom: (b: Brush) => void;
}

const moves: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  PageUp: [0, -10],
  PageDown: [0, 10],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

/** Arrows move the crosshair, with Shift they mark; Enter zooms to what is marked, else opens the row. */
export function onKey(e: KeyboardEvent, { at, brush, rows, box, picture, open, zoom }: KeyProps): void {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const move = moves[e.key];
  const here = at.value;
  if (move && picture) {
    const columns = Math.min(picture.columns, box.columns);
    const column = here ? Math.floor(((here.px + 0.5) * columns) / box.columns) : -1;
    const clamp = (v: number, most: number) => Math.max(0, Math.min(most - 1, v));
    const next = here ? clamp(column + move[0], columns) : 0;
    const to = {
      row: here ? clamp(here.row + move[1], rows) : 0,
      px: clamp(Math.floor(((next + 0.5) * box.columns) / columns), box.columns),
      x: columnStart(picture, Math.floor(((next + 0.5) * picture.columns) / columns)),
    };
    brush.value = e.shiftKey ? { from: brush.value?.from ?? here ?? to, to } : null;
    at.value = to;
  } else if (e.key === "Enter" && brush.value) {
    zoom(brush.value);
    brush.value = null;
  } else if (e.key === "Enter" && here) open(here.row);
  else if (e.key === "Escape" && (brush.value || here)) {
    brush.value = null;
    at.value = null;
  } else return;
  e.preventDefault();
  e.stopPropagation();
}

/** Where an x lies among so many pixels. */
export function pixelOf(x: number, { from, to }: { from: number; to: number }, pixels: number): number {
  return Math.max(0, Math.min(pixels - 1, Math.floor(((x - from + 0.5) * pixels) / (to - from + 1))));
}

/** Arrows reach the picture also when nothing has the focus. */
export function useArrows(scroller: { current: HTMLElement | null }, keys: (e: KeyboardEvent) => void): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const listener = (e: KeyboardEvent) => {
      if (e.target !== document.body || !moves[e.key]) return;
      scroller.current?.focus({ preventScroll: true });
      now.current(e);
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, []);
}
