import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import type { ApiError } from "../api/client.ts";
import { type Completion, complete, type Known } from "../state/complete.ts";
import { setParams } from "../state/route.ts";
import { marked } from "../state/runlist.ts";

interface Props {
  input: RefObject<HTMLInputElement | null>;
  q: string;
  error: ApiError | null;
  /** The parameter of the address that keeps it. */
  name?: string;
  known: () => Known;
}

/** Without a list of its own, an input is no combobox unless it says so. */
const combobox = (open: boolean, at: number) => ({
  ...{ role: "combobox" as const, list: undefined, "aria-autocomplete": "list" as const },
  ...{ "aria-expanded": open, "aria-controls": "filter-choices" },
  "aria-activedescendant": at >= 0 ? `filter-choice-${at}` : undefined,
});

/** FilterInput is the one-line filter: it completes names, and marks the place that the server does not understand. */
export function FilterInput({ input, q, error, name = "q", known }: Props) {
  const open = useSignal<Completion | null>(null);
  const at = useSignal(-1);
  const wrong = q && error?.column ? error : null;
  const look = () => {
    const el = input.current!;
    open.value = complete(el.value, el.selectionStart ?? el.value.length, known());
    at.value = -1;
  };
  const take = (text: string) => {
    const { from, to } = open.value!;
    const el = input.current!;
    setParams({ [name]: el.value.slice(0, from) + text + el.value.slice(to) });
    open.value = null;
    requestAnimationFrame(() => {
      el.focus();
      el.setSelectionRange(from + text.length, from + text.length);
    });
  };
  const key = (e: KeyboardEvent) => {
    const choices = open.value?.choices ?? [];
    if (choices.length && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      const next = at.value + (e.key === "ArrowDown" ? 1 : -1);
      at.value = Math.max(-1, Math.min(choices.length - 1, next));
    } else if (
      choices.length &&
      (e.key === "Tab" || e.key === "Enter") &&
      (at.value >= 0 || e.key === "Tab")
    ) {
      e.preventDefault();
      take(choices[Math.max(0, at.value)]!.text);
    } else if (e.key === "Escape" && open.value) {
      e.stopPropagation();
      open.value = null;
    } else if (e.key === "Escape" || e.key === "Enter") (e.currentTarget as HTMLElement).blur();
  };
  return (
    <span class="filter">
      <input
        ref={input}
        class="search"
        type="search"
        placeholder="Filter: words, eval/loss<1, not tag=old"
        title="Words, eval/loss<1, min(eval/loss)<0.5, status=failed or tag=best, not (name=a or created<2026-11-22)"
        aria-label="Filter runs"
        aria-invalid={!!wrong}
        aria-describedby={wrong ? "filter-error" : undefined}
        {...combobox(!!open.value, at.value)}
        autocomplete="off"
        value={q}
        onInput={(e) => {
          setParams({ [name]: e.currentTarget.value });
          look();
        }}
        onBlur={() => {
          open.value = null;
        }}
        onKeyDown={key}
      />
      <div
        class="filter-choices menu"
        id="filter-choices"
        role="listbox"
        aria-label="Completions"
        hidden={!open.value}
      >
        {open.value?.choices.map((c, i) => (
          <div
            key={c.text + c.note}
            id={`filter-choice-${i}`}
            role="option"
            aria-selected={i === at.value}
            onMouseDown={(e) => {
              e.preventDefault();
              take(c.text);
            }}
          >
            <span class="cut">{c.text}</span> <span class="muted">{c.note}</span>
          </div>
        ))}
      </div>
      {wrong && !open.value && <Wrong q={q} error={wrong} />}
    </span>
  );
}

function Wrong({ q, error }: { q: string; error: ApiError }) {
  const [before, mark, after] = marked(q, error.column);
  return (
    <div class="filter-error" id="filter-error" role="alert">
      <code>
        {before}
        <mark>{mark}</mark>
        {after}
      </code>
      <span>{error.message}</span>
      <span class="muted">{error.hint}</span>
    </div>
  );
}
