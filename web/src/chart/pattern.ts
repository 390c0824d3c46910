/** What the search box finds: a test on metric names, or why the text is no pattern. */
export type Pattern = { ok: true; test: (metric: string) => boolean } | { ok: false; error: string };

const special = /[\\^$.|?+()[\]{}]/;

// A path template, as layers/*/grad_norm (** crosses slashes), when the text has a star and no other sign of a regular
// expression; else a regular expression, unanchored and without regard to case.
// Words with spaces between them must all be found, and one with ! in front must not.
export function patternOf(text: string): Pattern {
  const words = text
    .trim()
    .split(/\s+/)
    .filter((w) => w && w !== "!");
  if (words.length === 0) return { ok: true, test: () => true };
  try {
    const tests = words.map(wordOf);
    return { ok: true, test: (metric) => tests.every((t) => t(metric)) };
  } catch (error) {
    return { ok: false, error: (error as Error).message.replace(/^Invalid regular expression: /, "") };
  }
}

/** The same search for the server; null where all is wanted, or the text is no pattern. */
export function searchOf(text: string): { q: string[]; not: string[] } | null {
  if (!patternOf(text).ok) return null;
  const words = text.trim().split(/\s+/);
  const sources = (not: boolean) =>
    words
      .filter((w) => w.startsWith("!") === not)
      .map((w) => (not ? w.slice(1) : w))
      .filter(Boolean)
      .map((w) => `(?i)${isTemplate(w) ? templateSource(w) : w}`);
  const [q, not] = [sources(false), sources(true)];
  return q.length + not.length ? { q, not } : null;
}

function wordOf(word: string): (metric: string) => boolean {
  const wanted = !word.startsWith("!");
  const text = wanted ? word : word.slice(1);
  const re = isTemplate(text) ? templateRegex(text) : new RegExp(text, "i");
  return (metric) => re.test(metric) === wanted;
}

export function isTemplate(text: string): boolean {
  return text.includes("*") && !special.test(text.replaceAll(".", "")) && !text.includes(".*");
}

export const templateRegex = (template: string): RegExp => new RegExp(templateSource(template), "i");

function templateSource(template: string): string {
  const parts = template.split(/(\*\*|\*)/).map((part) => {
    if (part === "**") return ".*";
    return part === "*" ? "[^/]*" : escapeRegex(part);
  });
  return `^${parts.join("")}$`;
}

/** Text that a regular expression (here and RE2) reads as itself. */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}
