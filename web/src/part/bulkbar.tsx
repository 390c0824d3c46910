import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import * as api from "../api/client.ts";
import type { Run } from "../api/types.ts";
import { count } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { archiveTag } from "../state/runlist.ts";
import { select, selected } from "../state/selection.ts";

const atOnce = 4; // requests; a browser has six connections a server
const undoMs = 20_000;

interface Undo {
  text: string;
  run: () => Promise<void>;
}

const runsOf = (n: number): string => `${count(n)} ${n === 1 ? "run" : "runs"}`;

interface Props {
  runs: Run[];
  /** The trash is shown. */
  deleted: boolean;
  open: (ids: string[]) => void;
  refresh: () => void;
}

/** BulkBar does something with all runs that are selected, and takes it back. */
export function BulkBar({ runs, deleted, open, refresh }: Props) {
  const undo = useSignal<Undo | null>(null);
  const list = useRef(refresh); // an undo may come when the table shows something else
  list.current = refresh;
  const tag = useSignal("");
  const busy = useSignal("");
  const ids = [...selected.value];
  const known = new Map(runs.map((r) => [r.id, r]));

  const each = async (
    what: string,
    of: string[],
    act: (id: string) => Promise<unknown>,
  ): Promise<string[]> => {
    const done: string[] = [];
    let failed: unknown;
    const queue = [...of];
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        for (let id = queue.shift(); id; id = queue.shift()) {
          busy.value = `${what} ${count(done.length + 1)} of ${count(of.length)}`;
          await act(id).then(
            () => done.push(id!),
            (cause) => {
              failed = cause;
              queue.length = 0;
            },
          );
        }
      }),
    );
    busy.value = "";
    if (failed) say(`${what}: ${(failed as Error).message}`, true);
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
  /** Tags are set as a whole, so those of runs that the list has not read are asked for. */
  const retag = async (change: (tags: string[]) => string[], text: string) => {
    const before = new Map<string, string[]>();
    await each("tagging", ids, async (id) => {
      const { tags } = known.get(id) ?? (await api.run(id));
      const next = change(tags);
      if (next.join("\n") === tags.join("\n")) return;
      await api.edit(id, { tags: next });
      before.set(id, tags);
    });
    offer(`${runsOf(before.size)} ${text}`, before.size, async () => {
      await each("undo", [...before.keys()], (id) => api.edit(id, { tags: before.get(id)! }));
    });
  };
  const add = (name: string) => (tags: string[]) => (tags.includes(name) ? tags : [...tags, name].sort());
  const without = (name: string) => (tags: string[]) => tags.filter((t) => t !== name);
  const remove = async () => {
    const done = await each("deleting", ids, api.remove);
    select(ids.filter((id) => !done.includes(id)));
    offer(`${runsOf(done.length)} moved to the trash`, done.length, async () => {
      await each("undo", done, api.restore);
    });
  };
  const restore = async () => {
    const done = await each("restoring", ids, api.restore);
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
          <form
            class="tagging"
            onSubmit={(e) => {
              e.preventDefault();
              const name = tag.value.trim();
              if (name) void retag(add(name), `tagged ${name}`);
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
              onClick={() => void retag(without(tag.value.trim()), `no longer tagged ${tag.value.trim()}`)}
            >
              take away
            </button>
          </form>
          <button type="button" class="button" onClick={() => void retag(add(archiveTag), "archived")}>
            archive
          </button>
          <button type="button" class="button danger" onClick={() => void remove()}>
            delete
          </button>
        </>
      )}
      {ids.length > 0 && deleted && (
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
