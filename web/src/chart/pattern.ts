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

function wordOf(word: string): (metric: string) => boolean {
  const wanted = !word.startsWith("!");
  const text = wanted ? word : word.slice(1);
  const re = isTemplate(text) ? templateRegex(text) : new RegExp(text, "i");
  return (metric) => re.test(metric) === wanted;
}

export function isTemplate(text: string): boolean {
  return text.includes("*") && !special.test(text.replaceAll(".", "")) && !text.includes(".*");
}

export function templateRegex(template: string): RegExp {
  const parts = template.split(/(\*\*|\*)/).map((part) => {
    if (part === "**") return ".*";
    return part === "*" ? "[^/]*" : escapeRegex(part);
  });
  return new RegExp(`^${parts.join("")}$`, "i");
}

/** Text that a regular expression (here and RE2) reads as itself. */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}
