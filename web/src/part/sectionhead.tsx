import { useSignal } from "@preact/signals";
import * as a from "../state/arrangement.ts";
import type { Card } from "../state/session.ts";
import { dropOwn, isOwn } from "../state/space.ts";
import { placeSection, removeSection, renameSection, stepSection } from "./arranging.ts";
import { drags, drops } from "./dragging.ts";
import { Icon, type IconName } from "./icon.tsx";

const draggedSection = "application/x-kymogram-section";

/** A section's name can be dragged, and another one be dropped on it. */
export function dropsSection(cards: Card[], id: string) {
  return {
    ...(id !== a.pinnedId && drags(draggedSection, id)),
    ...drops(draggedSection, (from) => placeSection(cards, from, id)),
  };
}

/** What a reader does with a section: move it, and where a reader made it, rename and remove it. */
export function SectionTools({ cards, id }: { cards: Card[]; id: string }) {
  const name = useSignal<string | null>(null);
  const title = a.titleOf(id);
  if (id === a.pinnedId) return null;
  if (name.value !== null)
    return (
      <form
        class="section-name"
        onSubmit={(e) => {
          e.preventDefault();
          const to = name.value!.trim();
          if (to && (to === title || renameSection(title, to))) name.value = null;
        }}
      >
        <input
          aria-label={`New name of ${title}`}
          maxLength={200}
          ref={(el) => el?.focus()}
          value={name.value}
          onInput={(e) => {
            name.value = e.currentTarget.value;
          }}
          onBlur={() => (name.value = null)}
          onKeyDown={(e) => {
            if (e.key === "Escape") name.value = null;
          }}
        />
      </form>
    );
  return (
    <span class="section-tools">
      <Tool icon="up" text={`Move ${title} up`} act={() => stepSection(cards, id, -1)} />
      <Tool icon="down" text={`Move ${title} down`} act={() => stepSection(cards, id, 1)} />
      {a.isMade(id) && (
        <>
          <Tool icon="edit" text={`Rename ${title}`} act={() => (name.value = title)} />
          <Tool icon="close" text={`Remove ${title}: its charts go back`} act={() => removeSection(title)} />
        </>
      )}
    </span>
  );
}

function Tool({ icon, text, act }: { icon: IconName; text: string; act: () => void }) {
  return (
    <button type="button" class="ghost" title={text} aria-label={text} onClick={act}>
      <Icon name={icon} size={12} />
    </button>
  );
}

/** Says that nobody else sees how the charts are arranged here. */
export function OwnNote() {
  if (!isOwn.value) return null;
  return (
    <p class="own-note" role="status">
      Your key may not write here: pins, sections and their order are kept in this browser.{" "}
      <button type="button" class="link" onClick={dropOwn}>
        show the project's
      </button>
    </p>
  );
}
