import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Value } from "../api/types.ts";
import { slots as mostHues } from "../chart/color.ts";
import { count, short } from "../chart/number.ts";
import { naturalKey } from "../chart/title.ts";
import * as groups from "../state/groups.ts";
import { bind } from "../state/keys.ts";
import { param, setParams } from "../state/route.ts";
import type { Session } from "../state/session.ts";
import { Icon } from "./icon.tsx";
import { Message } from "./message.tsx";
import { Swatch } from "./runpanel.tsx";

const atOnce = 1000; // lines; a dumped configuration may have a hundred thousand

/** Node is one line of the tree: a folder, or a path with a value for each run. */
export interface Node {
  path: string;
  name: string;
  depth: number;
  folder: boolean;
  values: (Value | undefined)[];
  differs: boolean;
}

/** The lines of a tree over the attributes of several runs; closed folders keep their children to themselves. */
export function tree(
  all: Record<string, Value>[],
  closed: ReadonlySet<string>,
  test: (path: string, values: (Value | undefined)[]) => boolean,
  onlyDiffering: boolean,
): Node[] {
  const keys = new Map<string, string>();
  for (const a of all) for (const path of Object.keys(a)) keys.set(path, naturalKey(path));
  const paths = [...keys].sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([path]) => path);
  const out: Node[] = [];
  const open = new Set<string>();
  for (const path of paths) {
    const values = all.map((a) => a[path]);
    const differs = values.length > 1 && values.some((v) => JSON.stringify(v) !== JSON.stringify(values[0]));
    if ((onlyDiffering && !differs) || !test(path, values)) continue;
    const parts = path.split("/");
    let hidden = false;
    for (let depth = 0; depth < parts.length - 1 && !hidden; depth++) {
      const folder = parts.slice(0, depth + 1).join("/");
      if (!open.has(folder)) {
        open.add(folder);
        out.push({ path: folder, name: parts[depth]!, depth, folder: true, values: [], differs: false });
      }
      hidden = closed.has(folder);
    }
    if (!hidden)
      out.push({ path, name: parts.at(-1)!, depth: parts.length - 1, folder: false, values, differs });
  }
  return out;
}

export function AttributesView({
  session,
  ids,
  slots,
}: {
  session: Session;
  ids: string[];
  slots: Map<string, number>;
}) {
  const closed = useSignal<ReadonlySet<string>>(new Set());
  const most = useSignal(atOnce);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => bind({ "/": () => input.current?.select() }), []);
  const details = ids.map((id) => session.detail(id));
  const words = param("attr").toLowerCase();
  const only = ids.length > 1 && param("diff") !== "0";
  const lines = useMemo(() => {
    const test = (path: string, values: (Value | undefined)[]) =>
      path.toLowerCase().includes(words) || values.some((v) => text(v).toLowerCase().includes(words));
    return tree(
      details.map((d) => d?.attributes ?? {}),
      words ? new Set() : closed.value,
      test,
      only,
    );
  }, [words, only, closed.value, ...details]);
  const more = lines.length - most.value;
  const toggle = (path: string) => {
    const next = new Set(closed.value);
    if (!next.delete(path)) next.add(path);
    closed.value = next;
  };
  return (
    <div class="scroll pad">
      <div class="bar">
        <input
          ref={input}
          class="search"
          type="search"
          placeholder="Search names and values"
          aria-label="Search attributes"
          value={param("attr")}
          onInput={(e) => setParams({ attr: e.currentTarget.value })}
        />
        {ids.length > 1 && (
          <label class="check">
            <input
              type="checkbox"
              checked={only}
              onChange={(e) => setParams({ diff: e.currentTarget.checked ? "" : "0" })}
            />{" "}
            only differences
          </label>
        )}
      </div>
      {lines.length === 0 ? (
        <Message>
          {only
            ? "These runs have the same attributes."
            : words
              ? "Nothing matches."
              : "This run has no attributes."}
        </Message>
      ) : (
        <table class="plain attributes">
          <thead>
            <tr>
              <th>attribute</th>
              {ids.map((id, i) => (
                <th key={id}>
                  {ids.length > 1 && slots.size <= mostHues && (
                    <Swatch
                      slot={slots.get(id) ?? 0}
                      color={groups.grouping.value?.of.get(id)?.color}
                      grey={false}
                      wide={false}
                    />
                  )}
                  {details[i]?.display_name || details[i]?.name || id}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.slice(0, most.value).map((n) => (
              <Line
                key={`${n.folder}${n.path}`}
                node={n}
                runs={ids.length}
                closed={closed.value.has(n.path)}
                toggle={toggle}
              />
            ))}
          </tbody>
        </table>
      )}
      {more > 0 && (
        <p>
          <button type="button" class="button" onClick={() => (most.value += atOnce)}>
            show {count(Math.min(more, atOnce))} more
          </button>{" "}
          <span class="muted">{count(more)} lines are not shown: search, or close folders</span>
        </p>
      )}
      <EnvAttributes session={session} id={ids[0]!} words={words} />
    </div>
  );
}

function Line({
  node,
  runs,
  closed,
  toggle,
}: {
  node: Node;
  runs: number;
  closed: boolean;
  toggle: (path: string) => void;
}) {
  const indent = { paddingLeft: `${8 + node.depth * 16}px` };
  if (node.folder)
    return (
      <tr>
        <td style={indent} colSpan={runs + 1}>
          <button type="button" class="folder" onClick={() => toggle(node.path)} aria-expanded={!closed}>
            <Icon name={closed ? "chevron" : "down"} size={11} /> {node.name}
          </button>
        </td>
      </tr>
    );
  return (
    <tr class={node.differs ? "differs" : ""}>
      <td style={indent} title={node.path}>
        {node.name}
      </td>
      {node.values.map((v, i) => (
        <td key={i} class={typeof v === "number" ? "number left" : ""} title={text(v)}>
          {typeof v === "number" ? short(v) : text(v)}
        </td>
      ))}
    </tr>
  );
}

function text(v: Value | undefined): string {
  if (v === undefined) return "–";
  return Array.isArray(v) ? v.join(", ") : String(v);
}

function EnvAttributes({ session, id, words }: { session: Session; id: string; words: string }) {
  const list = (session.detail(id)?.envAttributes ?? []).filter((a) =>
    `${a.env} ${a.path}`.toLowerCase().includes(words),
  );
  if (list.length === 0) return null;
  return (
    <>
      <h2>Environments</h2>
      <table class="plain">
        <thead>
          <tr>
            {["environment", "episode", "attribute", "value"].map((h) => (
              <th key={h}>{h}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {list.map((a) => (
            <tr key={`${a.env} ${a.episode} ${a.path}`}>
              <td>{a.env}</td>
              <td class="number">{a.episode ?? "all"}</td>
              <td>{a.path}</td>
              <td>{text(a.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
