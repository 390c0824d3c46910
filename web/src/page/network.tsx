import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import "../style/network.css";
import * as api from "../api/network.ts";
import { type Miner, type Network, type Validator, type Verdict, verdicts } from "../api/network.ts";
import { words } from "../chart/matrix.ts";
import { count, dateTime, short } from "../chart/number.ts";
import { Icon } from "../part/icon.tsx";
import { Matrix, type Place, resultText } from "../part/matrix.tsx";
import { Command, Failure, Message } from "../part/message.tsx";
import { NodePanel } from "../part/nodepanel.tsx";
import { ShareLink } from "../part/sharelink.tsx";
import { Shell } from "../part/shell.tsx";
import { Mark } from "../part/verdict.tsx";
import { bind } from "../state/keys.ts";
import { columnsOf, cutKey, gpuText, NetworkFeed, rowsOf, tally } from "../state/network.ts";
import { param, runsPath, setParams } from "../state/route.ts";

/** NetworkPage shows who says what in a subnet, and whose word holds. */
export function NetworkPage({ workspace, project }: { workspace: string; project: string }) {
  const feed = useMemo(
    () => new NetworkFeed(workspace, project, decodeURIComponent(location.hash.slice(1))),
    [workspace, project],
  );
  const netuid = param("netuid");
  const sharing = useSignal(false);
  useEffect(() => feed.follow(netuid), [feed, netuid]);
  useEffect(() => {
    document.title = `Network · ${project} · Kymogram`;
  }, [project]);
  const doc = feed.doc.value;
  const error = feed.error.value;
  const crumbs = (
    <>
      <a href={runsPath(workspace, project)} class="cut">
        {workspace} / {project}
      </a>
      <span>›</span>
      <h1 class="here">Network</h1>
    </>
  );
  return (
    <Shell
      crumbs={crumbs}
      tools={
        doc && (
          <Tools
            doc={doc}
            share={() => {
              sharing.value = true;
            }}
          />
        )
      }
      project={{ workspace, project }}
    >
      {feed.revoked.value ? (
        <Message>
          <strong>This public link is not valid.</strong>
          <span class="muted">
            It was revoked, or it is not complete. Ask for a new one where you got it.
          </span>
        </Message>
      ) : error && !doc ? (
        <Failure error={error} retry={() => location.reload()} />
      ) : doc && !doc.judging && doc.validators.length + doc.miners.length === 0 ? (
        <Message>
          No signed state in {workspace}/{project} yet. Try the demo: <Command text="make demo-network" />
        </Message>
      ) : (
        doc && <Body doc={doc} broken={error ? error.message : ""} />
      )}
      {sharing.value && (
        <ShareLink
          workspace={workspace}
          project={project}
          close={() => {
            sharing.value = false;
          }}
        />
      )}
    </Shell>
  );
}

function Tools({ doc, share }: { doc: Network; share: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => bind({ "/": () => input.current?.select() }), []);
  return (
    <>
      <input
        ref={input}
        class="search"
        type="search"
        placeholder="Filter miners: uid, hotkey, GPU, disputed"
        aria-label="Filter miners"
        value={param("q")}
        onInput={(e) => setParams({ q: e.currentTarget.value })}
        onKeyDown={(e) => {
          if (e.key === "Escape" || e.key === "Enter") e.currentTarget.blur();
        }}
      />
      {doc.netuids.length > 1 && (
        <select
          class="pick"
          aria-label="Subnet"
          value={String(doc.netuid)}
          onChange={(e) => setParams({ netuid: e.currentTarget.value, open: "" })}
        >
          {doc.netuids.map((n) => (
            <option key={n} value={String(n)}>
              netuid {n}
            </option>
          ))}
        </select>
      )}
      <select
        class="pick"
        aria-label="Order of miners"
        value={param("sort")}
        onChange={(e) => setParams({ sort: e.currentTarget.value })}
      >
        <option value="">by uid</option>
        <option value="score">by score</option>
        <option value="disputed">most disputed first</option>
      </select>
      <select
        class="pick"
        aria-label="Size of cells"
        value={param("cell")}
        onChange={(e) => setParams({ cell: e.currentTarget.value })}
      >
        <option value="">cells: fit</option>
        <option value="S">12 px</option>
        <option value="L">with numbers</option>
      </select>
      <button type="button" class="button" onClick={share} title="Public read-only link">
        <Icon name="share" /> share
      </button>
    </>
  );
}

const small = { width: 12, height: 12 };
const labels = 322;

/** Cells of 12 px, or cells with numbers where there are few columns or the reader wants them. */
function cellSize(columns: number) {
  const chosen = param("cell");
  if (chosen === "S" || (!chosen && columns > 16)) return small;
  const room = (innerWidth - 48 - labels - 60) / Math.max(1, columns);
  return { width: Math.round(Math.min(64, Math.max(44, room))), height: 20 };
}

function Body({ doc, broken }: { doc: Network; broken: string }) {
  const hiddenText = param("hide");
  const choice = {
    q: param("q"),
    hidden: useMemo(() => new Set(hiddenText.split(",").filter(Boolean)), [hiddenText]),
    sort: param("sort"),
  };
  const rows = useMemo(() => rowsOf(doc, choice), [doc, choice.q, choice.hidden, choice.sort]);
  const columns = useMemo(() => columnsOf(doc, choice), [doc, choice.hidden]);
  const at = useSignal<Place | null>(null);
  const opened = param("open");
  const miner = opened.includes("/") ? (doc.miners.find((m) => minerName(m) === opened) ?? null) : null;
  const validator = doc.validators.find((v) => v.run_id === opened) ?? null;
  const openMiner = (m: Miner) => setParams({ open: minerName(m) === opened ? "" : minerName(m) });
  const openValidator = (v: Validator) => setParams({ open: v.run_id === opened ? "" : v.run_id });
  useKeys(at, rows.length, columns.length, (row) => openMiner(doc.miners[rows[row]!]!));
  const cell = cellSize(columns.length);
  // Where few columns leave half of the screen, what was opened stands beside them.
  const beside = innerWidth > 1100 && labels + columns.length * cell.width < innerWidth / 2;
  return (
    <div class="net">
      <Legend doc={doc} hidden={choice.hidden} />
      <Findings doc={doc} open={(id) => setParams({ open: id })} />
      {broken && (
        <p class="warning net-warning" role="alert">
          Not live: {broken}. What is shown is of {dateTime(doc.time_ms * 1e6, true)}.
        </p>
      )}
      <div class={`net-work${beside ? " beside" : ""}`}>
        {rows.length === 0 || columns.length === 0 ? (
          <Message>
            {rows.length ? "All validators are hidden." : "No miner matches."}{" "}
            <button type="button" class="link" onClick={() => setParams({ q: "", hide: "" })}>
              clear
            </button>
          </Message>
        ) : (
          <Matrix {...{ doc, rows, columns, cell, at, opened, openMiner, openValidator }} />
        )}
        {(miner || validator) && (
          <NodePanel
            doc={doc}
            miner={miner}
            validator={miner ? null : validator}
            close={() => setParams({ open: "" })}
          />
        )}
      </div>
      <StatusLine doc={doc} rows={rows} columns={columns} at={at} />
    </div>
  );
}

const minerName = (m: Miner): string => `${m.uid ?? "–"}/${m.hotkey}`;

function useKeys(
  at: { value: Place | null },
  rows: number,
  columns: number,
  open: (row: number) => void,
): void {
  useEffect(() => {
    const move = (dr: number, dc: number) => () => {
      const from = at.value ?? { row: dr ? -Math.sign(dr) : 0, column: dc ? -Math.sign(dc) : 0 };
      const row = Math.min(rows - 1, Math.max(0, from.row + dr));
      const column = Math.min(columns - 1, Math.max(0, from.column + dc));
      if (rows > 0 && columns > 0) at.value = { row, column };
    };
    return bind({
      ...{ ArrowDown: move(1, 0), ArrowUp: move(-1, 0), ArrowRight: move(0, 1), ArrowLeft: move(0, -1) },
      ...{ j: move(1, 0), k: move(-1, 0), PageDown: move(20, 0), PageUp: move(-20, 0) },
      Enter: (e) => {
        const on = e.target as HTMLElement | null;
        if (on?.matches("button, a")) on.click();
        else if (at.value) open(at.value.row);
      },
      Escape: () => setParams({ open: "" }),
    });
  }, [at, rows, columns, open]);
}

/** The legend is the filter: a click hides what has that verdict. */
function Legend({ doc, hidden }: { doc: Network; hidden: ReadonlySet<string> }) {
  const counts = tally(doc);
  const toggle = (verdict: Verdict) => {
    const next = new Set(hidden);
    if (!next.delete(verdict)) next.add(verdict);
    setParams({ hide: [...next].join(",") });
  };
  const left = doc.left_out;
  return (
    <div class="net-legend">
      {verdicts
        .filter((v) => counts.has(v) || hidden.has(v))
        .map((v) => (
          <button
            type="button"
            key={v}
            class={`net-chip${hidden.has(v) ? " off" : ""}`}
            aria-pressed={!hidden.has(v)}
            title={hidden.has(v) ? "show" : "hide"}
            onClick={() => toggle(v)}
          >
            <Mark verdict={v} /> {words[v]} <span class="muted">{count(counts.get(v) ?? 0)}</span>
          </button>
        ))}
      <span class="muted">
        half a cell: not allocated · <span class="net-corner-mark">◥</span> differs from the result
      </span>
      <span class="spring" />
      <span class="muted" title="rows × columns">
        {count(doc.miners.length)} miners × {count(doc.validators.length)} validators
        {doc.netuid === null ? "" : `, netuid ${doc.netuid}`}
        {doc.chain?.block ? `, block ${count(doc.chain.block)}` : ", no chain"}
        {doc.chain?.error ? ` (${doc.chain.error})` : ""}
      </span>
      {doc.judging && (
        <strong>
          still being judged: {count(doc.judging.done)} of {count(doc.judging.of)} records
        </strong>
      )}
      {left.miners + left.validators > 0 && (
        <strong>
          not shown: {count(left.miners)} miners, {count(left.validators)} validators
        </strong>
      )}
      <span class="net-offer">
        The server checked these. Open a node for the command that checks without it.
      </span>
    </div>
  );
}

/** The culprits by name. */
function Findings({ doc, open }: { doc: Network; open: (id: string) => void }) {
  const all = useSignal(false);
  if (doc.findings.length === 0) return null;
  const shown = all.value ? doc.findings : doc.findings.slice(0, 6);
  return (
    <ul class="net-findings" aria-label="Findings">
      {shown.map((f) => (
        <li key={`${f.kind}/${f.hotkey}/${f.run_id}`}>
          <button type="button" onClick={() => open(f.run_id)} title={`${f.text}\n${f.hotkey}`}>
            <strong>{f.kind.replaceAll("_", " ")}</strong> {f.role} <code>{cutKey(f.hotkey)}</code>
            <span class="muted">{f.text}</span>
          </button>
        </li>
      ))}
      {doc.findings.length > shown.length && (
        <li>
          <button
            type="button"
            class="link"
            onClick={() => {
              all.value = true;
            }}
          >
            {count(doc.findings.length - shown.length)} more
          </button>
        </li>
      )}
    </ul>
  );
}

interface StatusProps {
  doc: Network;
  rows: number[];
  columns: number[];
  at: { value: Place | null };
}

/** What the cell under the pointer or the keys says, in words. */
function StatusLine({ doc, rows, columns, at }: StatusProps) {
  const place = at.value;
  const m = place && doc.miners[rows[place.row] ?? -1];
  const v = place && doc.validators[columns[place.column] ?? -1];
  return (
    <output class="net-status" aria-live="polite">
      {m && v ? (
        cellText(doc, m, v, rows[place.row]!)
      ) : (
        <span class="muted">Point at a cell, or move with the arrow keys; Enter opens the miner.</span>
      )}
    </output>
  );
}

function cellText(doc: Network, m: Miner, v: Validator, row: number): string {
  const who = `miner ${m.uid ?? ""} ${cutKey(m.hotkey)} · validator ${v.uid ?? ""} ${cutKey(v.hotkey)}`;
  const score = v.scores[row] ?? null;
  if (score === null) return `${who} says nothing of it · merged: ${resultText(doc, m)}`;
  const flags = v.flags[row] ?? 0;
  const said = [
    short(score),
    gpuText(doc, v.gpus[row] ?? -1),
    flags & api.allocated ? "allocated" : "not allocated",
    ...(flags & api.own ? [] : ["not its own score"]),
    ...(flags & api.otherHotkey ? ["of another hotkey"] : []),
    ...(flags & api.differs ? ["differs from the result"] : []),
  ].join(", ");
  return `${who} says ${said} · ${words[v.verdict]}: ${v.reason} · merged: ${resultText(doc, m)}`;
}
