/** A metric's name in two parts: the muted prefix up to the last slash, and what is left. */
export function splitTitle(metric: string): [string, string] {
  const at = metric.lastIndexOf("/");
  return [metric.slice(0, at + 1), metric.slice(at + 1)];
}

/** Cuts the middle of a text to `most` characters; both ends tell names apart, the middle seldom does. */
export function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  if (most <= 1) return "…";
  const tail = Math.ceil((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** What cannot be seen in a text, by its number: names that differ in it alone look different. */
export const visible = (text: string): string =>
  text.trim()
    ? text.replace(/(?<!\p{Extended_Pictographic}\uFE0F?)\p{Cf}/gu, (c) => {
        return `⟨${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;
      })
    : `“${text}”`;

/** The title cut to fit: the prefix gives way first, then the name. */
export function fitTitle(metric: string, most: number): [string, string] {
  const [prefix, name] = splitTitle(metric);
  if (metric.length <= most) return [prefix, name];
  if (name.length >= most - 2) return ["", cutMiddle(name, most)];
  return [cutMiddle(prefix, most - name.length), name];
}

/** Names in the order a person counts: layers/2 before layers/10. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;

/** A key that sorts by plain comparison as natural does; a collator is too slow for a hundred thousand names. */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
}

/** The group of a metric: its first segment, "" when it has no slash. */
export function groupOf(metric: string): string {
  const at = metric.indexOf("/");
  return at < 0 ? "" : metric.slice(0, at);
}

/** Labels as one text, in the order of their names. */
export function labelText(labels: Record<string, string>): string {
  return Object.keys(labels)
    .sort(natural)
    .map((k) => `${k}=${labels[k]}`)
    .join(" ");
}
