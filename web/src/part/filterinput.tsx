import type { RefObject } from "preact";
import type { ApiError } from "../api/client.ts";
import { setParams } from "../state/route.ts";
import { marked } from "../state/runlist.ts";

interface Props {
  input: RefObject<HTMLInputElement | null>;
  q: string;
  error: ApiError | null;
  /** The parameter of the address that keeps it. */
  name?: string;
}

/** FilterInput is the one-line filter; where the server does not understand it, the place is marked below. */
export function FilterInput({ input, q, error, name = "q" }: Props) {
  const wrong = q && error?.column ? error : null;
  return (
    <span class="filter">
      <input
        ref={input}
        class="search"
        type="search"
        placeholder="Filter: words, lr<0.1, not tag=old"
        title="Words, lr<0.1, status=failed or tag=best, not (name=a or created<2026-11-22)"
        aria-label="Filter runs"
        aria-invalid={!!wrong}
        aria-describedby={wrong ? "filter-error" : undefined}
        value={q}
        onInput={(e) => setParams({ [name]: e.currentTarget.value })}
        onKeyDown={(e) => {
          if (e.key === "Escape" || e.key === "Enter") e.currentTarget.blur();
        }}
      />
      {wrong && <Wrong q={q} error={wrong} />}
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
