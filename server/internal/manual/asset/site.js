// The script of the documentation: theme, copy buttons, search. A page reads well without it.
"use strict";
{
  const themeKey = "kymogram.theme"; // the page's, so that both look alike
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(themeKey) ?? "";
    } catch {
      return ""; // storage is forbidden
    }
  }

  let choice = stored();
  const isDark = () => (choice ? choice === "dark" : dark.matches);

  function showTheme() {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  }

  function toggleTheme() {
    const next = isDark() ? "light" : "dark";
    choice = (next === "dark") === dark.matches ? "" : next;
    try {
      localStorage.setItem(themeKey, choice);
    } catch {
      // the choice holds for this page only
    }
    showTheme();
  }

  showTheme(); // before anything is drawn
  dark.addEventListener("change", showTheme);

  function element(name, text = "", attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = element("textarea", text); // over plain HTTP there is no clipboard
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser does not copy");
  }

  function addCopyButtons() {
    for (const block of document.querySelectorAll("pre")) {
      const button = element("button", "copy", { type: "button" });
      button.addEventListener("click", () => {
        copy(block.textContent ?? "").then(
          () => {
            button.textContent = "copied";
          },
          () => {
            button.textContent = "not copied";
          },
        );
        setTimeout(() => {
          button.textContent = "copy";
        }, 1500);
      });
      const frame = element("div", "", { class: "code" });
      block.tabIndex = 0; // so that keys scroll a long line
      block.replaceWith(frame);
      frame.append(block, button);
    }
    for (const table of document.querySelectorAll("table")) {
      const frame = element("div", "", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" });
      table.replaceWith(frame);
      frame.append(table);
    }
  }

  /** How well a part of a page answers: a word in a title counts most; every word must be there. */
  function score(part, words) {
    let sum = 0;
    const [page, section, text] = [part.page, part.section ?? "", part.words].map((s) => s.toLowerCase());
    for (const word of words) {
      const here = (section.includes(word) ? 12 : 0) + (page.includes(word) ? (section ? 4 : 16) : 0);
      const times = text.split(word).length - 1;
      if (!here && !times) return 0;
      sum += here + Math.min(times, 5);
    }
    return sum;
  }

  /** The words around the first match, which is bold. */
  function excerpt(part, words) {
    const lower = part.words.toLowerCase();
    const at = words.map((word) => lower.indexOf(word)).filter((i) => i >= 0);
    const start = Math.max(0, Math.min(...at, lower.length) - 40);
    const line = element("small", start > 0 ? "…" : "");
    let rest = part.words.slice(start, start + 140);
    while (rest) {
      const low = rest.toLowerCase();
      const found = words.map((word) => ({ word, i: low.indexOf(word) })).filter(({ i }) => i >= 0);
      const first = found.sort((a, b) => a.i - b.i)[0];
      if (!first) break;
      line.append(rest.slice(0, first.i), element("mark", rest.slice(first.i, first.i + first.word.length)));
      rest = rest.slice(first.i + first.word.length);
    }
    line.append(rest);
    return line;
  }

  let parts;

  async function search(query) {
    parts ??= fetch("/docs/search.json").then((answer) => answer.json());
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const all = (await parts).map((part) => ({ part, rank: score(part, words) }));
    return all
      .filter(({ rank }) => rank > 0)
      .sort((a, b) => b.rank - a.rank)
      .slice(0, 12)
      .map(({ part }) => ({ part, words }));
  }

  function addSearch() {
    const input = document.getElementById("search");
    const list = document.getElementById("found");
    input.hidden = false;
    let asked = 0;
    input.addEventListener("input", async () => {
      const query = input.value.trim();
      const turn = ++asked;
      let found;
      try {
        found = query ? await search(query) : [];
      } catch {
        parts = undefined; // ask again with the next letter
        found = undefined;
      }
      if (turn !== asked) return;
      list.hidden = !query;
      if (!found?.length) {
        const why = found ? `Nothing found for “${query}”.` : "The server does not answer.";
        const row = element("li");
        row.append(element("p", why));
        list.replaceChildren(row);
        return;
      }
      list.replaceChildren(
        ...found.map(({ part, words }) => {
          const row = element("li");
          const link = element("a", part.section ? `${part.page}: ${part.section}` : part.page, { href: part.address });
          link.append(excerpt(part, words));
          row.append(link);
          return row;
        }),
      );
    });
    const links = () => [...list.querySelectorAll("a")];
    document.addEventListener("keydown", (event) => {
      const inSearch = input.parentElement.contains(document.activeElement);
      if (event.key === "/" && !inSearch && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        input.focus();
      } else if (event.key === "Escape" && inSearch) {
        list.hidden = true;
        input.focus();
      } else if (inSearch && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
        const all = [input, ...links()];
        const to = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
        all.at(to % all.length).focus();
        event.preventDefault();
      } else if (event.key === "Enter" && document.activeElement === input) {
        links()[0]?.click();
      }
    });
    document.addEventListener("click", (event) => {
      if (!input.parentElement.contains(event.target)) list.hidden = true;
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    addCopyButtons();
    addSearch();
    const theme = document.getElementById("theme");
    theme.hidden = false;
    theme.addEventListener("click", toggleTheme);
    if (matchMedia("(max-width: 760px)").matches) document.querySelector("nav details").open = false;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest" });
  });
}
