import type { Signal } from "@preact/signals";
import * as a from "../state/arrangement.ts";
import type { Card } from "../state/session.ts";
import { arrangement } from "../state/space.ts";
import { moveTo, togglePin } from "./arranging.ts";
import { Icon } from "./icon.tsx";

/** The kind of what is dragged: the metric of a card. */
export const draggedCard = "application/x-kymogram-card";

/** PinButton keeps a chart in the first section, for every run of the project. */
export function PinButton({ metric }: { metric: string }) {
  const pinned = a.isPinned(arrangement.value, metric);
  return (
    <button
      type="button"
      class={`ghost${pinned ? " on" : ""}`}
      onClick={() => togglePin(metric)}
      title={pinned ? "Pinned: click to let it go back (P)" : "Pin to the top of the project's charts (P)"}
      aria-label={`Pin ${metric}`}
      aria-pressed={pinned}
    >
      <Icon name="pin" size={14} />
    </button>
  );
}

interface MoveProps {
  card: Card;
  close: () => void;
  /** The name of a new section, while it is written. */
  title: Signal<string | null>;
}

/** Where a chart can go: sections that were made, a new one, and back. */
export function MoveItems({ card, close, title }: MoveProps) {
  const made = a.madeSections(arrangement.value);
  const move = (to: string) => {
    title.value = null;
    moveTo(card.metric, to);
    close();
  };
  if (title.value !== null)
    return (
      <form
        class="menu-form"
        onSubmit={(e) => {
          e.preventDefault();
          const text = title.value!.trim();
          if (text) move(text);
        }}
      >
        <input
          aria-label="Name of the new section"
          placeholder="Name"
          maxLength={200}
          ref={(el) => el?.focus()}
          value={title.value}
          onInput={(e) => {
            title.value = e.currentTarget.value;
          }}
        />
        <button type="submit" class="button primary" disabled={!title.value.trim()}>
          move
        </button>
      </form>
    );
  return (
    <>
      <hr />
      {made
        .filter((to) => card.group !== a.madeId(to))
        .map((to) => (
          <button type="button" role="menuitem" key={to} class="cut" title={to} onClick={() => move(to)}>
            Move to {to}
          </button>
        ))}
      <button type="button" role="menuitem" onClick={() => (title.value = "")}>
        Move to a new section…
      </button>
      {a.isMade(card.group) && (
        <button type="button" role="menuitem" onClick={() => move("")}>
          Move back
        </button>
      )}
    </>
  );
}
