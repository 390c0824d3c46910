import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { may } from "../api/client.ts";
import * as api from "../api/table.ts";
import { count } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { archiveTag } from "../state/runlist.ts";
import { select, selected } from "../state/selection.ts";

const atOnce = 500; // runs of one request
const undoMs = 20_000;

interface Undo {
  text: string;
  run: () => Promise<void>;
}

const runsOf = (n: number): string => `${count(n)} ${n === 1 ? "run" : "runs"}`;

interface Props {
  /** The trash is shown. */
  deleted: boolean;
  open: (ids: string[]) => void;
  refresh: () => void;
}

/** BulkBar does something with all runs that are selected, and takes it back. */
export function BulkBar({ deleted, open, refresh }: Props) {
  const undo = useSignal<Undo | null>(null);
  const list = useRef(refresh); // an undo may come when the table shows something else
  list.current = refresh;
  const tag = useSignal("");
  const busy = useSignal("");
  const ids = [...selected.value];

  /** The runs that changed. A request that fails ends it; a run that fails does not. */
  const each = async (
    what: string,
    of: string[],
    act: Parameters<typeof api.edit>[0],
    change?: Parameters<typeof api.edit>[2],
  ): Promise<string[]> => {
    const done: string[] = [];
    let failed = 0;
    let why = "";
    for (let at = 0; at < of.length; at += atOnce) {
      busy.value = `${what} ${count(Math.min(at + atOnce, of.length))} of ${count(of.length)}`;
      const some = of.slice(at, at + atOnce);
      try {
        for (const result of await api.edit(act, some, change))
          if ("error" in result) {
            failed++;
            why ||= result.error.message;
          } else if (result.changed) done.push(result.id);
      } catch (cause) {
        failed += of.length - at;
        why = (cause as Error).message;
        break;
      }
    }
    busy.value = "";
    if (failed) say(`${what}: ${runsOf(failed)} of ${count(of.length)} failed: ${why}`, true);
    list.current();
    return done;
  };
  const offer = (text: string, changed: number, run: Undo["run"]) => {
    if (changed === 0) return;
    const mine = { text, run };
    undo.value = mine;
    setTimeout(() => {
      if (undo.value === mine) undo.value = null;
    }, undoMs);
  };
  const retag = async (name: string, add: boolean, text: string) => {
    const change = (to: boolean) => (to ? { add_tags: [name] } : { remove_tags: [name] });
    const done = await each("tagging", ids, "edits", change(add));
    offer(`${runsOf(done.length)} ${text}`, done.length, async () => {
      await each("undo", done, "edits", change(!add));
    });
  };
  const remove = async () => {
    const done = await each("deleting", ids, "deletions");
    const gone = new Set(done);
    select(ids.filter((id) => !gone.has(id)));
    offer(`${runsOf(done.length)} moved to the trash`, done.length, async () => {
      await each("undo", done, "restorations");
    });
  };
  const restore = async () => {
    const done = await each("restoring", ids, "restorations");
    select([]);
    say(`${runsOf(done.length)} restored`);
  };
  if (ids.length === 0 && !undo.value) return null;
  return (
    <section class="bulk" aria-label="Selected runs">
      {undo.value && (
        <span class="undo" role="status">
          {undo.value.text}
          <button
            type="button"
            class="button primary"
            onClick={() => {
              const last = undo.value!;
              undo.value = null;
              void last.run();
            }}
          >
            undo
          </button>
        </span>
      )}
      {ids.length > 0 && <strong>{count(ids.length)} selected</strong>}
      {busy.value && (
        <span class="muted" role="status">
          {busy.value}
        </span>
      )}
      {ids.length > 0 && !deleted && (
        <>
          <button type="button" class="button primary" onClick={() => open(ids)}>
            open
          </button>
          {may("ingest") && (
            <>
              <form
                class="tagging"
                onSubmit={(e) => {
                  e.preventDefault();
                  const name = tag.value.trim();
                  if (name) void retag(name, true, `tagged ${name}`);
                }}
              >
                <input
                  placeholder="tag"
                  aria-label="Tag for the selected runs"
                  value={tag.value}
                  onInput={(e) => {
                    tag.value = e.currentTarget.value;
                  }}
                />
                <button type="submit" class="button" disabled={!tag.value.trim()}>
                  add tag
                </button>
                <button
                  type="button"
                  class="button"
                  disabled={!tag.value.trim()}
                  onClick={() => void retag(tag.value.trim(), false, `no longer tagged ${tag.value.trim()}`)}
                >
                  take away
                </button>
              </form>
              <button type="button" class="button" onClick={() => void retag(archiveTag, true, "archived")}>
                archive
              </button>
            </>
          )}
          {may("admin") && (
            <button type="button" class="button danger" onClick={() => void remove()}>
              delete
            </button>
          )}
        </>
      )}
      {ids.length > 0 && deleted && may("admin") && (
        <button type="button" class="button primary" onClick={() => void restore()}>
          restore
        </button>
      )}
      {ids.length > 0 && (
        <button type="button" class="button" onClick={() => select([])}>
          clear
        </button>
      )}
    </section>
  );
}
