import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import "../style/saved.css";
import { may } from "../api/client.ts";
import { ago } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import { param, viewPath } from "../state/route.ts";
import * as saved from "../state/saved.ts";
import { Icon } from "./icon.tsx";
import { useOutside } from "./useoutside.ts";

/** ViewMenu keeps how a project is shown under a name, and opens what was kept. */
export function ViewMenu(at: saved.Place) {
  const menu = useSignal(false);
  const host = useRef<HTMLSpanElement>(null);
  const name = param("view");
  const open = saved.open.value?.name === name ? saved.open.value : null;
  useEffect(() => {
    if (name) saved.openView(at, name).catch(failed);
  }, [name, at.workspace, at.project]);
  const close = () => {
    menu.value = false;
  };
  useOutside(host, menu.value, close);
  useEffect(() => {
    if (!menu.value) return;
    return bind({
      Escape: () => {
        close();
        host.current?.querySelector("button")?.focus();
      },
    });
  }, [menu.value]);
  return (
    <span class="menu-host saved" ref={host}>
      <button
        type="button"
        class="button"
        aria-haspopup="dialog"
        aria-expanded={menu.value}
        title="Saved views of this project"
        onClick={() => {
          menu.value = !menu.value;
          if (menu.value) saved.listViews(at).catch(failed);
        }}
      >
        <Icon name="views" size={14} />
        <span class="cut">{open ? open.doc.title : may("ingest") ? "Save view…" : "Views"}</span>
        <Icon name="down" size={12} />
      </button>
      {saved.changed.value && (
        <span class="unsaved" role="status">
          <span class="muted">changed ·</span>
          {may("ingest") && (
            <>
              <button type="button" class="link" onClick={() => saved.save().catch(failed)}>
                save
              </button>
              <span class="muted">·</span>
            </>
          )}
          <button type="button" class="link" onClick={saved.reset}>
            reset
          </button>
        </span>
      )}
      {menu.value && <Menu {...{ at, open, close }} />}
    </span>
  );
}

const failed = (cause: unknown): void => say((cause as Error).message, true);

interface MenuProps {
  at: saved.Place;
  open: { name: string; doc: { title: string } } | null;
  close: () => void;
}

function Menu({ at, open, close }: MenuProps) {
  const list = saved.views.value;
  return (
    <div class="menu saved-menu" role="dialog" aria-label="Saved views">
      {may("ingest") && (
        <Naming
          label="Name of a new view"
          button="save as new"
          value=""
          act={(title) => saved.saveAs(at, title).then(close)}
        />
      )}
      {open && may("ingest") && (
        <Naming
          key={open.doc.title}
          label={`Another name for ${open.doc.title}`}
          button="rename"
          value={open.doc.title}
          act={(title) => saved.rename(title)}
        />
      )}
      {list.length === 0 && (
        <p class="muted">
          A view keeps the filter, columns, colours, axes and pins of this page. None is saved yet.
          {!may("ingest") && " Your key may only read."}
        </p>
      )}
      {list.length > 0 && (
        <ul>
          {list.map((v) => (
            <li key={v.name} aria-current={v.name === open?.name ? "true" : undefined}>
              <a
                href={viewPath(at.workspace, at.project, v.name)}
                onClick={close}
                class="cut"
                title={v.title}
              >
                {v.title}
              </a>
              <span class="muted">{ago(Math.max(0, Date.now() - v.changed_ns / 1e6))}</span>
              {may("ingest") && (
                <button
                  type="button"
                  class="ghost"
                  title={`Delete ${v.title}`}
                  aria-label={`Delete ${v.title}`}
                  onClick={() => saved.remove(at, v.name).catch(failed)}
                >
                  <Icon name="trash" size={14} />
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {open && (
        <button
          type="button"
          class="link"
          onClick={() => {
            saved.leave();
            close();
          }}
        >
          close the view, keep what is shown
        </button>
      )}
    </div>
  );
}

interface NamingProps {
  label: string;
  button: string;
  value: string;
  act: (title: string) => Promise<void>;
}

function Naming({ label, button, value, act }: NamingProps) {
  const title = useSignal(value);
  const text = title.value.trim();
  return (
    <form
      class="menu-form"
      onSubmit={(e) => {
        e.preventDefault();
        if (text && text !== value) act(text).catch(failed);
      }}
    >
      <input
        placeholder={label}
        aria-label={label}
        maxLength={200}
        value={title.value}
        onInput={(e) => {
          title.value = e.currentTarget.value;
        }}
      />
      <button type="submit" class="button" disabled={!text || text === value}>
        {button}
      </button>
    </form>
  );
}
