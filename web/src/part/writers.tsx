import type { RunDetail, Skipped } from "../api/types.ts";
import { ago, count, dateTime, full } from "../chart/number.ts";
import { account } from "./runhead.tsx";

const shapes = { open: "●", finished: "✓", failed: "✕", interrupted: "■", gone: "◌" } as const;

/** WritersView lists who wrote this run, its attempts, and what did not arrive. */
export function WritersView({ detail }: { detail: RunDetail | null }) {
  if (!detail) return null;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reached by keys
    <div class="scroll pad" tabIndex={0} role="group" aria-label="Writers">
      <Shared detail={detail} />
      <h2>Writers</h2>
      <table class="plain">
        <thead>
          <tr>
            {["state", "attempt", "host", "pid", "rank", "hotkey", "client", "opened", "last sign", "id"].map(
              (h) => (
                <th key={h}>{h}</th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {detail.writers.map((w) => (
            <tr key={w.id}>
              <td>
                <span class={`status ${w.state}`}>
                  <span class="shape">{shapes[w.state] ?? "?"}</span>
                  {w.state}
                  {w.signal ? ` by ${w.signal}` : ""}
                </span>
              </td>
              <td class="number">{w.attempt}</td>
              <td>{w.host}</td>
              <td class="number">{w.pid}</td>
              <td class="number">{full(w.rank) || "–"}</td>
              <td>{w.hotkey || "–"}</td>
              <td>{w.sdk || "–"}</td>
              <td>{dateTime(w.opened_ns, true)}</td>
              <td title={dateTime(w.seen_ns, true)}>{ago(Math.max(0, Date.now() - w.seen_ns / 1e6))}</td>
              <td>
                <code title={w.id}>{w.id.slice(0, 8)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>Attempts</h2>
      <table class="plain">
        <thead>
          <tr>
            {["number", "opened", "resumed from step"].map((h) => (
              <th key={h}>{h}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...detail.attempts]
            .sort((a, b) => b.precedence - a.precedence)
            .map((a) => (
              <tr key={a.number}>
                <td class="number">{a.number}</td>
                <td>{dateTime(a.opened_ns, true)}</td>
                <td class="number">{full(a.resume_from_step) || "–"}</td>
              </tr>
            ))}
        </tbody>
      </table>
      <Gone detail={detail} />
    </div>
  );
}

/** Environments that two writers logged at once, with who they are. */
function Shared({ detail }: { detail: RunDetail }) {
  const who = (id: string): string => {
    const w = detail.writers.find((one) => one.id === id);
    if (!w) return id.slice(0, 8);
    return `${w.host} pid ${w.pid}${w.rank === null || w.rank === undefined ? "" : `, rank ${w.rank}`}`;
  };
  return (
    <>
      {detail.shared.map((s) => (
        <p class="warning" role="status" key={`${s.env_id} ${s.writers.join()}`}>
          ⚠ The environment <b>{s.env_id}</b> is logged by two writers at once since{" "}
          {dateTime(s.time_ns, true)}: {who(s.writers[0])} and {who(s.writers[1])}. Their steps mix: give each
          its own env_id.
        </p>
      ))}
    </>
  );
}

const reasons: Record<string, string> = {
  torn: "cut off in the client's file when its machine went down",
  quarantined: "unreadable in the client's spool, where they were set aside",
  dropped: "dropped by the client, whose spool was full",
  restored: "deleted by the client as delivered, before the server went back to a backup",
  damaged: "unreadable in the server's log",
};

function skippedText(s: Skipped): string {
  const [first, last] = [full(s.first), full(s.last)];
  const records = first === last ? `record ${first}` : `records ${first} to ${last}`;
  return `not here, ${records}: ${reasons[s.reason] ?? s.reason}`;
}

/** The ledger: every logged point, and what became of it. */
function Gone({ detail }: { detail: RunDetail }) {
  const { ledger } = detail;
  const { lost, more } = account(ledger);
  const rows: [what: string, points: string, key?: string][] = [
    ["logged", count(ledger.logged)],
    ["stored here", count(ledger.stored)],
    ["of those superseded by a later point at the same place", count(ledger.superseded)],
    [
      "still in the clients' spools",
      ledger.spooled === null ? "not known: a client is not connected" : count(ledger.spooled),
    ],
    ["refused for good", count(ledger.refused)],
    ["dropped by a client's cap", count(ledger.dropped)],
    // Two writers may lack the same records.
    ...ledger.skipped.map((s, i): [string, string, string] => [
      skippedText(s),
      s.points === undefined ? "unknown" : count(s.points),
      `skipped ${i}`,
    ]),
    ...ledger.damaged.map((d, i): [string, string, string] => [
      `stored and damaged since, logged ${dateTime(d.min_time_ns, true)} to ${dateTime(d.max_time_ns, true)}: ${d.file} cannot be read`,
      count(d.points),
      `damaged ${i}`,
    ]),
  ];
  return (
    <>
      <h2>Ledger</h2>
      <table class="plain ledger-table">
        <tbody>
          {rows.map(([what, n, key]) => (
            <tr key={key ?? what}>
              <td>{what}</td>
              <td class="number">{n}</td>
            </tr>
          ))}
          <tr class={lost || more ? "lost" : ""}>
            <td>lost in all</td>
            <td class="number">
              {count(lost)}
              {more && ", and what is unknown"}
            </td>
          </tr>
        </tbody>
      </table>
    </>
  );
}
