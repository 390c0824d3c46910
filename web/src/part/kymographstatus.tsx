import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { BucketQuery } from "../api/types.ts";
import { placeText, type XAxis } from "../chart/axis.ts";
import type { Place } from "../chart/brush.ts";
import { type Curve, curveOf, type Unit } from "../chart/curve.ts";
import { count } from "../chart/number.ts";
import { cellAt } from "../chart/raster.ts";
import type { Member } from "../chart/rows.ts";
import { batch } from "../state/app.ts";
import type { Pictures } from "../state/pictures.ts";
import type { Box } from "./kymograph.tsx";

/** A cell under the crosshair: the row's place in the view, and the x that lie in it. */
interface Cell {
  index: number;
  from: number;
  to: number;
}

function cellOf(at: Place | null, rows: number[], ids: string[], pictures: Pictures, box: Box): Cell | null {
  const index = at ? rows[at.row] : undefined;
  if (!at || index === undefined) return null;
  const picture = pictures.strip(ids[index]!)?.picture ?? pictures.head.value;
  const cell = picture && cellAt(at.px, { ...pictures.span.value, columns: box.columns }, picture);
  return cell ? { index, from: cell.from, to: cell.to } : null;
}

interface UnderProps {
  at: Signal<Place | null>;
  /** Where the x of the crosshair is told. */
  x: Signal<number | null>;
  rows: number[];
  ids: string[];
  names: string[];
  members: Member[];
  pictures: Pictures;
  box: Box;
  axis: XAxis;
  unit: Unit;
  inherited: boolean;
}

/** What is under the crosshair; alone it follows the pointer, the picture is not painted for that. */
export function Under({
  at,
  x,
  rows,
  ids,
  names,
  members,
  pictures,
  box,
  axis,
  unit,
  inherited,
}: UnderProps) {
  const cell = cellOf(at.value, rows, ids, pictures, box);
  useEffect(() => {
    if (cell) x.value = cell.from;
  }, [cell?.from]);
  const [member, name] = cell ? [members[cell.index], names[cell.index]] : [null, null];
  return <Status {...{ cell, member, name, axis, unit, inherited }} />;
}

interface StatusProps {
  cell: Cell | null;
  member: Member | null | undefined;
  name: string | null | undefined;
  axis: XAxis;
  unit: Unit;
  inherited: boolean;
}

const settleMs = 60; // a crosshair that only flies by asks nothing

/** What is under the crosshair, in all digits: the one bucket of the points of the cell. */
function Status({ cell, member, name, axis, unit, inherited }: StatusProps) {
  const exact = useSignal({ key: "", text: "" });
  const key = cell && member ? `${name} ${axis.name} ${cell.from} ${cell.to} ${member.series.count}` : "";
  useEffect(() => {
    if (!key || !cell || !member) return;
    const abort = new AbortController();
    const { metric, scale, labels, count: version } = member.series;
    const query: BucketQuery = {
      ...{ run: member.run, metric, scale, labels, x: axis.name, n: 1, from: cell.from, to: cell.to },
      ...(inherited && member.series.inherited && { include_inherited: true as const }),
    };
    const timer = setTimeout(() => {
      batch.fetch(query, version, abort.signal).then(
        (result) => {
          if (abort.signal.aborted) return;
          const text = "error" in result ? result.error.message : valueText(curveOf(result.columns, unit));
          exact.value = { key, text };
        },
        () => {}, // the next cell asks again
      );
    }, settleMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  const drawn = (v: number) => (v - unit.origin) * unit.factor;
  return (
    <output class="ky-status" aria-live="polite">
      {cell ? (
        <>
          <span class="ky-name cut" title={name ?? ""}>
            {name}
          </span>
          <span class="muted">
            {axis.kind === "number" && `${axis.name} `}
            {placeText(axis, drawn(cell.from), drawn(cell.to))}
          </span>
          <span>{exact.value.key === key ? exact.value.text : "…"}</span>
        </>
      ) : (
        <span class="muted">
          Point at a cell, or move with the arrow keys; Enter opens its curve, ? lists the keys.
        </span>
      )}
    </output>
  );
}

/** The points of a cell in words. */
function valueText(curve: Curve): string {
  if (curve.points === 0) return "no point";
  const finite = curve.count[0] ?? 0;
  const special = [
    [curve.nan, "NaN"],
    [curve.posInf, "+Inf"],
    [curve.negInf, "−Inf"],
  ] as const;
  const others = special.filter(([n]) => n > 0).map(([n, what]) => (n > 1 ? `${count(n)} ${what}` : what));
  if (finite === 0) return others.join(", ");
  const value =
    finite === 1
      ? String(curve.mean[0])
      : `mean ${curve.mean[0]}, ${curve.min[0]} … ${curve.max[0]}, ${count(finite)} points`;
  return [value, ...others].join(", ");
}
