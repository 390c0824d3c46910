import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

interface Props {
  all: { name: string; varies: boolean }[];
  columns: string[];
  onChange: (columns: string[]) => void;
}

const mostShown = 200;

/** ColumnChooser picks the table's columns out of all that the runs have, by typing. */
export function ColumnChooser({ all, columns, onChange }: Props) {
  const open = useSignal(false);
  const words = useSignal("");
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open.value) return;
    const outside = (e: MouseEvent) => {
      if (!host.current?.contains(e.target as Node)) open.value = false;
    };
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, [open.value]);

  const found = all.filter((c) => c.name.toLowerCase().includes(words.value.toLowerCase()));
  const toggle = (name: string) =>
    onChange(columns.includes(name) ? columns.filter((c) => c !== name) : [...columns, name]);
  return (
    <div class="menu-host" ref={host}>
      <button
        type="button"
        class="button"
        aria-haspopup="dialog"
        aria-expanded={open.value}
        onClick={() => {
          open.value = !open.value;
        }}
      >
        <Icon name="columns" size={14} /> columns
      </button>
      {open.value && (
        <div
          class="menu chooser"
          role="dialog"
          aria-label="Columns"
          onKeyDown={(e) => {
            if (e.key === "Escape") open.value = false;
            if (e.key === "Enter" && found[0]) toggle(found[0].name);
          }}
        >
          <input
            class="search"
            type="search"
            placeholder="Type a name"
            aria-label="Find a column"
            ref={(el) => {
              if (el && !words.value) el.focus();
            }}
            value={words.value}
            onInput={(e) => {
              words.value = e.currentTarget.value;
            }}
          />
          <div class="chooser-list">
            {found.slice(0, mostShown).map((c) => (
              <label key={c.name}>
                <input type="checkbox" checked={columns.includes(c.name)} onChange={() => toggle(c.name)} />
                <span class="prefix">{c.name.slice(0, c.name.indexOf("/") + 1)}</span>
                {c.name.slice(c.name.indexOf("/") + 1)}
                {!c.varies && <span class="muted same">same in all</span>}
              </label>
            ))}
            {found.length > mostShown && (
              <div class="muted">+{found.length - mostShown} more: type to narrow</div>
            )}
            {found.length === 0 && <div class="muted">No column has this name.</div>}
          </div>
        </div>
      )}
    </div>
  );
}
