import { Component } from "preact";
import type { RunGroup, Statistics } from "../api/table.ts";
import type { Run } from "../api/types.ts";
import { count, full, short } from "../chart/number.ts";
import { aggregateOf, bestWay } from "../state/columns.ts";
import { runPath } from "../state/route.ts";
import { cellText, type Laid } from "../state/tablefit.ts";
import { groupLabel, type Show } from "../state/tablerows.ts";
import { Icon } from "./icon.tsx";
import { SparkCell } from "./sparkcell.tsx";
import { Status, Tags } from "./status.tsx";

export const rowHeight = 28;

interface Base {
  index: number;
  columns: readonly Laid[];
  template: string;
  selected: boolean;
  active: boolean;
  toggle: (row: number, range: boolean) => void;
}

const styleOf = ({ index, template }: Base) => ({
  transform: `translateY(${index * rowHeight}px)`,
  gridTemplateColumns: template,
  height: `${rowHeight}px`,
});

const classOf = (p: Base, more = ""): string =>
  `row${more}${p.selected ? " selected" : ""}${p.active ? " active" : ""}`;

/** Where a cell stays while the others scroll. */
const stuck = (left: number | null) => (left === null ? undefined : { left: `${left}px` });
const stuckClass = (c: Laid): string => (c.left === null ? "" : " stuck");

/** A row is drawn again only when something of it changed: while scrolling that is none of those that stay. */
abstract class Memo<P extends object> extends Component<P> {
  override shouldComponentUpdate(next: P): boolean {
    return (Object.keys(next) as (keyof P)[]).some((k) => next[k] !== this.props[k]);
  }
}

interface RunProps extends Base {
  run: Run | undefined;
  /** By column the run that is the best of all. */
  best: ReadonlyMap<string, string>;
  inGroup: boolean;
}

export class RunRow extends Memo<RunProps> {
  override render(p: RunProps) {
    const { run, index, columns, best } = p;
    if (!run) return <div class="row waiting" style={styleOf(p)} role="row" aria-rowindex={index + 1} />;
    return (
      <div
        class={classOf(p, p.inGroup ? " member" : "")}
        style={styleOf(p)}
        role="row"
        aria-rowindex={index + 1}
      >
        <span role="cell" class="box">
          <input
            type="checkbox"
            checked={p.selected}
            onClick={(e) => p.toggle(index, e.shiftKey)}
            aria-label={`Select ${run.name}`}
          />
        </span>
        {columns.map((c) => (
          <BodyCell key={c.name} run={run} column={c} best={best.get(c.name) === run.id} />
        ))}
      </div>
    );
  }
}

function BodyCell({ run, column, best }: { run: Run; column: Laid; best: boolean }) {
  const a = aggregateOf(column.name);
  if (a?.of === "spark") return <SparkCell run={run} metric={a.metric} />;
  const { text, title } = cellText(run, column.name);
  const side = `cut${column.right ? " right" : ""}${stuckClass(column)}`;
  const style = stuck(column.left);
  if (column.name === "name")
    return (
      <span role="cell" class={side} style={style}>
        <a href={runPath(run.id)} title={title}>
          {text}
        </a>
      </span>
    );
  if (column.name === "status")
    return (
      <span role="cell" class={side} style={style}>
        <Status status={run.status} />
      </span>
    );
  if (column.name === "tags")
    return (
      <span role="cell" class={side} style={style}>
        <Tags tags={run.tags} />
      </span>
    );
  return (
    <span role="cell" class={side + (best ? " best" : "")} style={style} title={title}>
      {best && (
        <span class="star" role="img" aria-label="best of all">
          ★
        </span>
      )}
      {text}
    </span>
  );
}

interface GroupProps extends Base {
  group: RunGroup;
  by: readonly string[];
  /** The columns that some group has a figure of, and their places in a group. */
  of: ReadonlyMap<string, number>;
  open: boolean;
  show: Show;
  unfold: (group: RunGroup) => void;
}

export class GroupRow extends Memo<GroupProps> {
  override render(p: GroupProps) {
    const { group, by, columns, open, index } = p;
    const label = groupLabel(group, by);
    // The label takes the columns before the first number.
    const first = columns.findIndex((c) => p.of.has(c.name));
    const span = first < 0 ? columns.length : Math.max(1, first);
    return (
      <div class={classOf(p, " group")} style={styleOf(p)} role="row" aria-rowindex={index + 1}>
        <span role="cell" class="box">
          <input
            type="checkbox"
            checked={p.selected}
            onClick={() => p.toggle(index, false)}
            aria-label={`Select all runs of ${label}`}
          />
        </span>
        <span role="cell" class="cut group-name" style={{ gridColumn: `span ${span}` }}>
          <button type="button" aria-expanded={open} onClick={() => p.unfold(group)} title={label}>
            <Icon name={open ? "down" : "chevron"} size={12} />
            <span class="cut">{label}</span>
            <span class="muted n">
              {count(group.runs)} {group.runs === 1 ? "run" : "runs"}
            </span>
          </button>
        </span>
        {columns.slice(span).map((c) => (
          <GroupCell
            key={c.name}
            column={c}
            show={p.show}
            group={group}
            of={group.columns[p.of.get(c.name) ?? -1]}
          />
        ))}
      </div>
    );
  }
}

/** The figure of a column that a group's row shows. */
export function figureText(s: Statistics, show: Show): string {
  const v = s[show];
  if (v === null) return "";
  return show === "mean" && s.std !== null ? `${short(v)} ± ${short(s.std)}` : short(v);
}

function GroupCell({
  column: c,
  of: s,
  show,
  group,
}: {
  column: Laid;
  of: Statistics | undefined;
  show: Show;
  group: RunGroup;
}) {
  const side = `cut right${stuckClass(c)}`;
  if (!s && aggregateOf(c.name)?.of === "at")
    return (
      <span
        role="cell"
        class={`${side} muted`}
        style={stuck(c.left)}
        title="Of more than 5,000 runs this takes too long. Filter first."
      >
        –
      </span>
    );
  if (!s || s.n === 0) return <span role="cell" class={side} style={stuck(c.left)} />;
  const way = bestWay(c.name);
  const best = way === "up" ? s.max_run : way === "down" ? s.min_run : null;
  const missing = group.runs - s.n - (s.not_finite ?? 0);
  const title = [
    `mean ${full(s.mean)}${s.std === null ? "" : ` ± ${full(s.std)}`} of ${count(s.n)} runs`,
    `min ${full(s.min)} (${s.min_run?.name ?? ""})`,
    `max ${full(s.max)} (${s.max_run?.name ?? ""})`,
    ...(missing > 0 ? [`${count(missing)} without a value`] : []),
    ...(s.not_finite ? [`${count(s.not_finite)} not finite`] : []),
  ].join("\n");
  return (
    <span role="cell" class={side} style={stuck(c.left)} title={title}>
      {best && (
        <a
          class="star"
          href={runPath(best.id)}
          title={`Best: ${best.name}`}
          aria-label={`Best run: ${best.name}`}
        >
          ★
        </a>
      )}
      {figureText(s, show)}
    </span>
  );
}
