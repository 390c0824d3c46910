import { computed, effect, signal } from "@preact/signals";
import { darkPalette, lightPalette } from "../chart/color.ts";

type Choice = "light" | "dark" | "";

const name = "kymogram.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
const paper = matchMedia("print");
const onPaper = signal(paper.matches);
const choice = signal((localStorage.getItem(name) ?? "") as Choice);

const chosenDark = computed(() => (choice.value ? choice.value === "dark" : systemDark.value));
/** Paper is white, whatever the screen is. */
export const isDark = computed(() => chosenDark.value && !onPaper.value);
export const palette = computed(() => (isDark.value ? darkPalette : lightPalette));

export function toggleTheme(): void {
  const next = chosenDark.value ? "light" : "dark";
  // Back to what the system says is kept as "no choice", so that the page follows it again.
  choice.value = (next === "dark") === systemDark.value ? "" : next;
  localStorage.setItem(name, choice.value);
}

export function followTheme(): void {
  system.addEventListener("change", (e) => {
    systemDark.value = e.matches;
  });
  paper.addEventListener("change", (e) => {
    onPaper.value = e.matches;
  });
  effect(() => {
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  });
}
