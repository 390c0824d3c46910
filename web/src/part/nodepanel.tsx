import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as client from "../api/client.ts";
import type { Entry, Miner, Network, Validator } from "../api/network.ts";
import * as api from "../api/network.ts";
import type { Series } from "../api/types.ts";
import { save } from "../chart/export.ts";
import { count, dateTime, short } from "../chart/number.ts";
import { changes, payloadOf, readRecord } from "../chart/record.ts";
import { cutKey, gpuText } from "../state/network.ts";
import { runPath } from "../state/route.ts";
import { Icon } from "./icon.tsx";
import { endpointText, resultText } from "./matrix.tsx";
import { Command } from "./message.tsx";
import { Spark } from "./spark.tsx";
import { VerdictText } from "./verdict.tsx";

interface Props {
  doc: Network;
  miner: Miner | null;
  validator: Validator | null;
  close: () => void;
}

/** NodePanel opens a row or a column: who said what, its records in order, its curves. */
export function NodePanel({ doc, miner, validator, close }: Props) {
  const node = (miner ?? validator)!;
  const role = miner ? "Miner" : "Validator";
  return (
    <section class="net-panel" aria-label={`${role} ${node.uid ?? cutKey(node.hotkey)}`}>
      <header>
        <h2>
          {role} {node.uid ?? ""} <code>{node.hotkey}</code>
        </h2>
        <VerdictText verdict={node.verdict} />
        <span class="muted">{node.reason}</span>
        <span class="spring" />
        {node.run_id && (
          <a class="link" href={runPath(node.run_id)}>
            open its run
          </a>
        )}
        <button type="button" class="ghost" onClick={close} aria-label="Close" title="Close (Escape)">
          <Icon name="close" />
        </button>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys too */}
      <div class="net-panel-body" tabIndex={0}>
        {miner ? <Said doc={doc} miner={miner} /> : <Own doc={doc} v={validator!} />}
        {node.run_id ? (
          <History key={`${node.run_id}/${node.sequence}`} doc={doc} node={node} />
        ) : (
          <p class="muted">This node has no run in the project, so there are no records of its own.</p>
        )}
        {node.sequence > 0 && (
          <p>
            Check its records without this server:{" "}
            <Command text={`kymogram state verify ${doc.workspace}/${doc.project}/${node.run}`} />
          </p>
        )}
        {node.run_id && <Curves key={node.run_id} id={node.run_id} />}
      </div>
    </section>
  );
}

/** Who said what of a miner, and which report won. */
function Said({ doc, miner }: { doc: Network; miner: Miner }) {
  const row = doc.miners.indexOf(miner);
  const reports = doc.validators
    .map((v, i) => ({
      v,
      i,
      score: v.scores[row] ?? null,
      flags: v.flags[row] ?? 0,
      gpu: v.gpus[row] ?? -1,
    }))
    .filter((r) => r.score !== null);
  return (
    <div class="net-part">
      <h3>Who said what</h3>
      <p>
        Merged result: <strong>{resultText(doc, miner)}</strong>
        {miner.allocated && (
          <>
            . The miner says that it is allocated to <code>{cutKey(miner.allocated)}</code>
          </>
        )}
        .
      </p>
      {reports.length === 0 ? (
        <p class="muted">No validator reports this miner.</p>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              {["validator", "verdict", "score", "GPU", "own score", "allocated", "vote"].map((h) => (
                <th key={h}>{h}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {reports.map(({ v, i, score, flags, gpu }) => (
              <tr key={`${v.hotkey}/${v.run_id}`}>
                <td title={v.hotkey}>
                  {v.uid ?? "–"} <code>{cutKey(v.hotkey)}</code>
                </td>
                <td title={v.reason}>
                  <VerdictText verdict={v.verdict} />
                </td>
                <td class="number">{short(score)}</td>
                <td>{gpuText(doc, gpu)}</td>
                <td>{flags & api.own ? "yes" : "no"}</td>
                <td>{flags & api.allocated ? "yes" : "no"}</td>
                <td>{voteText(v, i, flags, score!, miner)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function voteText(v: Validator, place: number, flags: number, score: number, miner: Miner): string {
  if (!v.counted) return `not counted: ${v.notes[0] ?? v.reason}`;
  if (miner.result?.carried.includes(place)) return "carried the result";
  if (!(flags & api.own)) return "not counted: not its own score";
  if (!(flags & api.allocated)) return "not counted: not allocated";
  if (score === 0) return "not counted: score 0";
  if (flags & api.otherHotkey) return "against the result, and names another hotkey";
  return "against the result";
}

/** A validator's own state. */
function Own({ doc, v }: { doc: Network; v: Validator }) {
  const reports = v.scores.filter((s) => s !== null).length ?? 0;
  return (
    <div class="net-part">
      <h3>State</h3>
      <dl class="net-facts">
        <Fact name="reports">
          {count(reports)} of {count(doc.miners.length)} miners; {count(v.agrees)} agree with the result,{" "}
          {count(v.differs)} differ
        </Fact>
        <Fact name="vote">{v.counted ? "counted" : "not counted"}</Fact>
        <Fact name="stake">{v.stake === null ? "unknown" : short(v.stake)}</Fact>
        <Fact name="block">{v.block ? count(v.block) : "none: the record names no block"}</Fact>
        <Fact name="version">{v.version ?? "unknown"}</Fact>
        <Fact name="endpoint">{endpointText(v)}</Fact>
      </dl>
      {v.notes.map((note) => (
        <p class="warning" key={note}>
          {note}
        </p>
      ))}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const pageSize = 50;

/** The records of a run by sequence, newest first, each with its verdict. */
function History({ doc, node }: { doc: Network; node: Miner | Validator }) {
  const entries = useSignal<Entry[] | null>(null);
  const error = useSignal("");
  const before = useSignal(0); // the sequence below which there are older records; 0: none
  const read = async (below: number, size: number) => {
    try {
      const got = await api.history(node.run_id, below, size);
      entries.value = [...(got.entries ?? []), ...(entries.value ?? [])];
      before.value = got.more ? Number(got.next) : 0;
    } catch (cause) {
      error.value = (cause as Error).message;
    }
  };
  useEffect(() => {
    read(Number.MAX_SAFE_INTEGER, pageSize);
  }, [node.run_id]);
  if (error.value) return <p class="muted">The records cannot be read: {error.value}</p>;
  if (!entries.value) return <div class="net-part net-history" />;
  const forks = forksOf(entries.value);
  const lines = linesOf(entries.value);
  return (
    <div class="net-part net-history">
      <h3>
        Time line{" "}
        <span class="muted">
          {before.value ? "the newest " : ""}
          {count(entries.value.length)} records
        </span>
      </h3>
      {forks.map((pair) => (
        <Proof key={pair[0].hash} doc={doc} pair={pair} />
      ))}
      {node.endpoint && (
        <p>
          Chain: the endpoint {node.endpoint.address} was registered at block {count(node.endpoint.block)}.
        </p>
      )}
      {lines.length === 0 ? (
        <p class="muted">
          No signed record yet. {node.verdict === "legacy" && "A legacy node signs only the id of its run."}
        </p>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              {["record", "verdict", "signed", "block", "what changed", "reason"].map((h) => (
                <th key={h}>{h}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.map((line) => (
              <Line key={line.entry.hash} line={line} node={node} />
            ))}
          </tbody>
        </table>
      )}
      {before.value > 0 && (
        <button type="button" class="link" onClick={() => read(before.value, 4 * pageSize)}>
          show {4 * pageSize} older
        </button>
      )}
    </div>
  );
}

interface LineOf {
  entry: Entry;
  signed: ReturnType<typeof readRecord>;
  changed: string[];
}

function linesOf(entries: Entry[]): LineOf[] {
  let before: Record<string, unknown> | null = null;
  const lines = entries.map((entry) => {
    const payload = payloadOf(entry);
    const changed = changes(before, payload);
    if (!entry.fork) before = payload;
    return { entry, signed: readRecord(entry.record), changed };
  });
  return lines.reverse();
}

/** Two records of one sequence. */
function forksOf(entries: Entry[]): [Entry, Entry][] {
  const first = new Map(entries.filter((e) => !e.fork).map((e) => [e.sequence, e]));
  return entries.flatMap((e): [Entry, Entry][] => {
    const other = first.get(e.sequence);
    return e.fork && other ? [[other, e]] : [];
  });
}

/** The newest record has the verdict of now, each other that of its place in the history. */
function Line({ line, node }: { line: LineOf; node: Miner | Validator }) {
  const { entry, signed, changed } = line;
  const { verdict, reason } = entry.sequence === node.sequence && !entry.fork ? node : entry;
  return (
    <tr>
      <td class="number">{entry.sequence}</td>
      <td>{verdict && <VerdictText verdict={verdict} />}</td>
      <td>{signed ? dateTime(signed.timeMs * 1e6, true) : dateTime(entry.received_ns, true)}</td>
      <td class="number">{signed?.block ? count(signed.block) : "–"}</td>
      <td class="net-changed">{changed.join(", ") || "nothing"}</td>
      <td class="muted">{reason}</td>
    </tr>
  );
}

/** Two records that contradict each other, and the file that shows it to anyone. */
function Proof({ doc, pair }: { doc: Network; pair: [Entry, Entry] }) {
  const name = `equivocation-${cutKey(pair[0].hotkey).replace("…", "-")}-${pair[0].sequence}.json`;
  const download = () => {
    const [a, b] = pair.map(({ record, signature, payload }) => ({ record, signature, payload }));
    save(name, new Blob([`${JSON.stringify({ a, b }, null, 2)}\n`], { type: "application/json" }));
  };
  return (
    <div class="net-proof">
      <p>
        <VerdictText verdict={pair[1].verdict ?? "equivocated"} />: {pair[1].reason}. Both records are shown;
        anyone can check them without this server.
      </p>
      <div class="net-envelopes">
        {pair.map((entry) => (
          <div key={entry.hash}>
            <strong>
              record {entry.sequence}, <code title={entry.hash}>{entry.hash.slice(0, 12)}</code>
            </strong>
            <pre>{JSON.stringify(payloadOf(entry), null, 1)}</pre>
            <code class="cut" title={entry.signature}>
              signature {entry.signature}
            </code>
          </div>
        ))}
      </div>
      <p>
        <button type="button" class="button" onClick={download}>
          download proof
        </button>{" "}
        <Command text={`kymogram state verify ${name}`} />
        <span class="unseen">of {doc.project}</span>
      </p>
    </div>
  );
}

/** What the node logs beside its state: stake, trust, emission and the like. */
function Curves({ id }: { id: string }) {
  const list = useSignal<Series[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    client.series(id, { limit: 24, preview: 64 }, abort.signal).then(
      (page) => {
        list.value = page.items.filter((s) => s.kind === "float64" || s.kind === "int64");
      },
      () => {}, // a node without series shows none
    );
    return () => abort.abort();
  }, [id]);
  if (list.value.length === 0) return null;
  return (
    <div class="net-part">
      <h3>Curves</h3>
      <div class="net-sparks">
        {list.value.map((s) => (
          <Spark key={`${s.metric}/${JSON.stringify(s.labels)}`} series={s} />
        ))}
      </div>
    </div>
  );
}
