import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client.ts";
import { say } from "../state/app.ts";
import { Icon } from "./icon.tsx";

/** One line of text where something else would be, with what to do about it. */
export function Message({ children }: { children: ComponentChildren }) {
  return <div class="message">{children}</div>;
}

export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="message" role="alert">
      <strong>{error.message}</strong>
      {error.hint && <span class="muted">{error.hint}</span>}
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A command that the reader can run, with a copy button. */
export function Command({ text }: { text: string }) {
  const copy = async () => {
    await navigator.clipboard?.writeText(text).then(
      () => say("copied"),
      () => say("the browser did not allow copying", true),
    );
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="ghost" onClick={copy} aria-label="Copy the command" title="Copy">
        <Icon name="copy" size={14} />
      </button>
    </span>
  );
}

/** A text with the end of a sentence, which a question has. */
export const ended = (text: string): string => (text.endsWith("?") ? text : `${text}.`);
