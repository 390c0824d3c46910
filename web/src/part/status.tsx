import type { Status as RunStatus } from "../api/types.ts";

const shapes: Record<RunStatus, string> = {
  running: "●",
  finished: "✓",
  failed: "✕",
  interrupted: "■",
  lost: "◌",
  silent: "○",
};

/** A run's status as shape and word, never by colour alone. */
export function Status({ status }: { status: RunStatus }) {
  return (
    <span class={`status ${status}`}>
      <span class="shape" aria-hidden="true">
        {shapes[status] ?? "?"}
      </span>
      {status}
    </span>
  );
}

export function Tags({ tags }: { tags: string[] }) {
  return (
    <>
      {tags.map((tag) => (
        <span class="tag" key={tag}>
          <span title={tag}>{tag}</span>
        </span>
      ))}
    </>
  );
}
