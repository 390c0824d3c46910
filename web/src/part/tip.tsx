import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { placeText, type XAxis } from "../chart/axis.ts";
import type { Mark } from "../chart/curve.ts";
import { cellAt, type Layer, type Statistic, statistics } from "../chart/layer.ts";
import { count, full, short } from "../chart/number.ts";
import { marksOf } from "../chart/paint.ts";
import type { Row } from "../chart/tooltip.ts";

export interface Tip {
  left: number;
  top: number;
  axis: XAxis;
  rows: { row: Row; name: string }[];
  /** Groups of the chart, and what their lines and bands are. */
  layers?: readonly Layer[];
  statistic?: Statistic;
  /** Lines under the cursor that are not in the rows. */
  rest: number;
}

export const tip = signal<Tip | null>(null);

const gap = 16; // between the pointer and the tip

/** The one tooltip of all charts; it never lies over the pointer. */
export function TipView() {
  const host = useRef<HTMLDivElement>(null);
  const at = tip.value;
  useLayoutEffect(() => {
    const el = host.current;
    if (!el || !at) return;
    const { width, height } = el.getBoundingClientRect();
    const { left, top } = beside(at, width, height);
    el.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  });
  if (!at || at.rows.length === 0) return null;
  const c = at.rows[0]!.row.line.curve;
  const i = at.rows[0]!.row.index;
  return (
    <div class="tip" ref={host} role="tooltip">
      <div class="tip-head">{placeText(at.axis, c.lo[i]!, c.hi[i]!)}</div>
      {!!at.layers?.length && <Layers layers={at.layers} statistic={at.statistic ?? "iqr"} x={c.x[i]!} />}
      <table>
        <tbody>
          {at.rows.map(({ row, name }) => (
            <TipRow key={row.line.id} row={row} name={name} />
          ))}
        </tbody>
      </table>
      {at.rest > 0 && <div class="muted">+{at.rest} more lines</div>}
    </div>
  );
}

const edge = 4; // of the screen stays free

/** Right of the pointer, else left, else over or under it; never beyond the screen. */
function beside(at: Tip, width: number, height: number): { left: number; top: number } {
  const within = (v: number, size: number, most: number) => Math.max(edge, Math.min(most - size - edge, v));
  const right = at.left + gap + width <= innerWidth;
  if (right || at.left - gap - width >= 0)
    return {
      left: right ? at.left + gap : at.left - gap - width,
      top: within(at.top - height / 2, height, innerHeight),
    };
  const under = at.top + gap + height <= innerHeight;
  return {
    left: within(at.left - width / 2, width, innerWidth),
    top: under ? at.top + gap : Math.max(edge, at.top - gap - height),
  };
}

const mostLayers = 10;

/** What groups have at one x: their line and band, how many members have a value there, and the sum of these. */
function Layers({ layers, statistic, x }: { layers: readonly Layer[]; statistic: Statistic; x: number }) {
  const rows = layers.map((l) => [l, cellAt(l, x)] as const).filter(([, i]) => i >= 0);
  const [line, band] = statistics.find(([name]) => name === statistic)![1].split(/, | (?=±)/);
  return (
    <table class="tip-groups">
      <thead>
        <tr>
          <th colSpan={2} />
          <th class="number">{line}</th>
          <th class="number">{band}</th>
          <th class="number">N</th>
          <th class="number">sum</th>
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, mostLayers).map(([l, i]) => (
          <tr key={l.key}>
            <td>
              <span class="swatch" style={{ background: l.color }} />
            </td>
            <td class="tip-name">{l.label}</td>
            <td class="number">{short(l.centre[i])}</td>
            <td class="muted number">
              {Number.isNaN(l.low[i]) ? "" : `${short(l.low[i])} … ${short(l.high[i])}`}
            </td>
            <td class="number">
              {count(l.n[i]!)}
              {l.n[i]! < l.members ? ` of ${count(l.members)}` : ""}
            </td>
            <td class="muted number">{short(l.sum[i])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TipRow({ row, name }: { row: Row; name: string }) {
  const { curve: c, own } = row.line;
  const i = row.index;
  const many = c.count[i]! > 1;
  return (
    <tr>
      <td>
        <span class="swatch" style={{ background: own }} />
      </td>
      <td class="tip-name">{name}</td>
      <td class="number" title={full(c.mean[i])}>
        {c.count[i] ? short(c.mean[i]) : "–"}
      </td>
      <td class="muted number">{many ? `${short(c.min[i])} … ${short(c.max[i])}` : ""}</td>
      <td class="muted">
        {specialText(marksOf(row.line), c.lo[i]!, c.hi[i]!)}
        {c.inherited?.[i] ? " inherited" : ""}
      </td>
    </tr>
  );
}

function specialText(marks: Mark[], lo: number, hi: number): string {
  const names = { nan: "NaN", posInf: "+Inf", negInf: "−Inf", low: "≤ 0" };
  return marks
    .filter((m) => m.lo === lo && m.hi === hi)
    .map((m) => `${m.count > 1 ? `${m.count} ` : ""}${names[m.kind]}`)
    .join(" ");
}
