import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { resetColumns } from "../state/columnchoice.ts";
import { found, type Named } from "../state/columns.ts";
import { Icon } from "./icon.tsx";
import { useOutside } from "./useoutside.ts";

interface Props {
  all: Named[];
  columns: string[];
  onChange: (columns: string[]) => void;
}

const mostShown = 200;

/** ColumnChooser picks the table's columns out of all that the runs have, by typing. */
export function ColumnChooser({ all, columns, onChange }: Props) {
  const open = useSignal(false);
  const words = useSignal("");
  const host = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useOutside(host, open.value, () => {
    open.value = false;
  });

  const list = open.value ? found(all, words.value) : [];
  const toggle = (name: string) =>
    onChange(columns.includes(name) ? columns.filter((c) => c !== name) : [...columns, name]);
  const prefix = (name: string) => (/^(config|summary)\//.test(name) ? name.indexOf("/") + 1 : 0);
  return (
    <div class="menu-host" ref={host}>
      <button
        type="button"
        class="button"
        ref={button}
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
            if (e.key === "Escape") {
              open.value = false;
              button.current?.focus();
            }
            if (e.key !== "Enter" || !(e.target as Element).matches("[type=search]")) return;
            const first = found(all, words.value)[0]; // of what was typed, which may not be drawn yet
            if (first && first.name !== "name") toggle(first.name);
          }}
        >
          <input
            class="search"
            type="search"
            placeholder="Type a name, or at(eval/loss, 1000)"
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
            {list.slice(0, mostShown).map((c) => (
              <label key={c.name} title={c.name}>
                <input
                  type="checkbox"
                  checked={columns.includes(c.name)}
                  disabled={c.name === "name"}
                  onChange={() => toggle(c.name)}
                />
                <span class="cut">
                  <span class="prefix">{c.name.slice(0, prefix(c.name))}</span>
                  {c.name.slice(prefix(c.name))}
                </span>
                {!c.varies && <span class="muted same">same in all</span>}
              </label>
            ))}
            {list.length > mostShown && (
              <div class="muted">+{list.length - mostShown} more: type to narrow</div>
            )}
            {list.length === 0 && <div class="muted">No column has this name.</div>}
          </div>
          <button type="button" class="link" onClick={resetColumns}>
            as the page chooses
          </button>
        </div>
      )}
    </div>
  );
}
