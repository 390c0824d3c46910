import type { RunDetail } from "../api/types.ts";
import { ago, count, dateTime, full } from "../chart/number.ts";

const shapes = { open: "●", finished: "✓", failed: "✕", gone: "◌" } as const;

/** WritersView lists who wrote this run, its attempts, and what did not arrive. */
export function WritersView({ detail }: { detail: RunDetail | null }) {
  if (!detail) return null;
  return (
    <div class="scroll pad">
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

function Gone({ detail }: { detail: RunDetail }) {
  const { ledger } = detail;
  const rows: [string, number][] = [
    ["superseded by a later point at the same place", ledger.superseded],
    ["refused for good", ledger.refused],
    ["dropped by a client's cap", ledger.dropped],
  ];
  return (
    <>
      <h2>Ledger</h2>
      <table class="plain">
        <tbody>
          {rows.map(([what, n]) => (
            <tr key={what}>
              <td>{what}</td>
              <td class="number">{count(n)}</td>
            </tr>
          ))}
          {ledger.skipped.map((s) => (
            <tr key={String(s.first)}>
              <td>
                never sent, {s.reason}: records {String(s.first)}–{String(s.last)}
              </td>
              <td class="number">{s.points === undefined ? "unknown" : count(s.points)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
