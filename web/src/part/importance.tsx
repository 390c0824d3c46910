import { nameOf } from "../chart/grouping.ts";
import type { Importance } from "../chart/importance.ts";
import { count, short } from "../chart/number.ts";
import { directionOf } from "../state/direction.ts";
import { setDirection } from "../state/directionchoice.ts";
import { setParams } from "../state/route.ts";

const atOnce = 12; // parameters

interface Props {
  rows: readonly Importance[];
  metric: string;
  /** The parameter that the scatter shows. */
  shown: string;
  /** Every parameter is listed. */
  all: boolean;
}

/** ImportanceView lists parameters by how much they and the metric go together, and the value that did best. */
export function ImportanceView({ rows, metric, shown, all }: Props) {
  const list = all ? rows : rows.slice(0, atOnce);
  if (rows.length === 0)
    return <p class="muted">No parameter differs between runs that have a value of {metric}.</p>;
  return (
    <>
      <table class="importance">
        <thead>
          <tr>
            <th>parameter</th>
            <th title="η² of Kruskal–Wallis: the share of the differences in rank that the parameter's values explain">
              separates
            </th>
            <th class="number" title="Spearman's rank correlation with the metric">
              ρ
            </th>
            <th>best value</th>
            <th class="number">median</th>
          </tr>
        </thead>
        <tbody>
          {list.map((row) => (
            <Row key={row.key} row={row} shown={row.key === shown} />
          ))}
        </tbody>
      </table>
      {list.length < rows.length && (
        <button type="button" class="link" onClick={() => setParams({ params: "all" })}>
          show {count(rows.length - list.length)} more
        </button>
      )}
      <p class="note muted">
        Rank correlation (Spearman's ρ) with the last {metric}, and the share of the differences in rank that
        a parameter's values separate (η² of Kruskal–Wallis). A correlation is no cause.
      </p>
    </>
  );
}

function Row({ row, shown }: { row: Importance; shown: boolean }) {
  const name = nameOf(row.key);
  const share = row.eta ?? 0;
  return (
    <tr class={shown ? "shown" : ""} onClick={() => setParams({ px: row.key })}>
      <td class="name">
        <button
          type="button"
          class="link cut"
          aria-pressed={shown}
          title={`Show ${name} in the scatter`}
          onClick={() => setParams({ px: row.key })}
        >
          {name}
        </button>
      </td>
      <td>
        <span class="meter" aria-hidden="true">
          <span style={{ width: `${Math.round(100 * share)}%` }} />
        </span>
        <span title={`${count(row.runs)} runs`}>{row.eta === undefined ? "–" : share.toFixed(2)}</span>
      </td>
      <td class="number">{row.rho === undefined ? "–" : signed(row.rho)}</td>
      <td class="best">
        {row.best ? (
          <>
            <strong>{row.best.label}</strong> <span class="muted">({count(row.best.runs)})</span>
          </>
        ) : (
          "–"
        )}
      </td>
      <td class="number" title={row.best ? String(row.best.median) : ""}>
        {row.best ? short(row.best.median) : ""}
      </td>
    </tr>
  );
}

const signed = (v: number): string => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(2);

/** Which way the metric is better: guessed, and a reader's to change. */
export function DirectionPick({ metric }: { metric: string }) {
  const direction = directionOf(metric);
  return (
    <select
      class="pick"
      aria-label={`What is better for ${metric}`}
      value={direction ?? ""}
      onChange={(e) => setDirection(metric, e.currentTarget.value as "up" | "down")}
    >
      {!direction && <option value="">which is better?</option>}
      <option value="up">↑ higher is better</option>
      <option value="down">↓ lower is better</option>
    </select>
  );
}
