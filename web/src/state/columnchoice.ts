import { computed, signal } from "@preact/signals";
import { type Column, columnsText, pinnedFirst } from "./columns.ts";
import { param, setParams } from "./route.ts";

const keyOf = (project: string): string => `kymogram.columns.${project}`;
const kept = signal<{ project: string; text: string }>({ project: "", text: "" });

/** Reads what was last chosen in a project. */
export function openColumns(project: string): void {
  kept.value = { project, text: localStorage.getItem(keyOf(project)) ?? "" };
}

const urlText = computed(() => param("cols"));
/**
 * What the reader chose, in the address or before in this project; "" when nothing: then the page chooses. A saved
 * view shows the same to everybody, so what a browser keeps is not of it.
 */
export const chosenColumns = computed(() => urlText.value || (param("view") ? "" : kept.value.text));

export function setColumns(columns: readonly Column[]): void {
  const text = columnsText(pinnedFirst(columns));
  const { project } = kept.value;
  kept.value = { project, text };
  localStorage.setItem(keyOf(project), text);
  setParams({ cols: text });
}

/** Back to what the page chooses. */
export function resetColumns(): void {
  const { project } = kept.value;
  localStorage.removeItem(keyOf(project));
  kept.value = { project, text: "" };
  setParams({ cols: "" });
}

/** A column whose edge is being dragged: it is kept when the pointer lets go. */
export const resizing = signal<{ name: string; px: number } | null>(null);
