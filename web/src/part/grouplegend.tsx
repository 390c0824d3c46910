import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { dash } from "../chart/color.ts";
import { objectives } from "../chart/direction.ts";
import { allBut, type Group, keysOf, nameOf, type Subject } from "../chart/grouping.ts";
import { type Importance, importanceOf, offerOf } from "../chart/importance.ts";
import { statistics } from "../chart/layer.ts";
import { count } from "../chart/number.ts";
import { directionOf } from "../state/direction.ts";
import * as groups from "../state/groups.ts";
import { setParams } from "../state/route.ts";
import "../style/group.css";

const least = 0.1; // a parameter that explains less is no offer
const enough = 8; // runs; fewer have a hue each

interface StripProps {
  metric?: string;
  lines?: boolean;
  /** What goes with the metric, where the page knows it already. */
  known?: readonly Importance[];
}

/** GroupStrip says over the charts what colour means, and changes it: nothing is shown for runs that have a hue each. */
export function GroupStrip({ metric, lines, known }: StripProps) {
  const runs = groups.subjects.value;
  const list = useMemo(() => [...runs.values()], [runs]);
  const grouping = groups.grouping.value;
  const target = metric ?? objectives(metricsOf(list))[0];
  const direction = target ? directionOf(target) : undefined;
  const offer = useMemo(
    () => offerOf(known ?? (target ? importanceOf(list, target, direction) : [])),
    [known, list, target, direction],
  );
  if (list.length < 2 || (list.length <= enough && !groups.by.value && !groups.split.value)) return null;
  const shown = grouping
    ? grouping.groups.reduce((n, g) => n + (groups.isOff(g.key) ? 0 : g.runs.length), 0)
    : list.length;
  return (
    <section class="group-strip" aria-label="Colour and groups">
      <KeyPick label="colour by" value={groups.by.value} runs={list} onPick={groups.colourBy} combined />
      <GroupLegend />
      {!grouping && target && offer && <OfferButton offer={offer} metric={target} />}
      <span class="muted total">
        {shown < list.length ? `${count(shown)} of ` : ""}
        {count(list.length)} runs
      </span>
      {lines !== false && <Looks runs={list} />}
    </section>
  );
}

/** What each colour means, where runs are in groups. */
export function GroupLegend() {
  const grouping = groups.grouping.value;
  return grouping ? (
    <div class="legend" onMouseLeave={() => point(null)}>
      {grouping.groups.map((g) => (
        <Entry key={g.key} group={g} numbers={grouping.numbers} />
      ))}
    </div>
  ) : null;
}

function metricsOf(list: readonly Subject[]): Set<string> {
  return new Set(list.flatMap((r) => Object.keys(r.summary)));
}

function point(group: string | null): void {
  groups.hoveredGroup.value = group;
}

/** An offer is a click away, and never taken silently. */
function OfferButton({ offer, metric }: { offer: Importance; metric: string }) {
  const share = offer.eta ?? 0;
  if (share < least) return null;
  const name = nameOf(offer.key);
  return (
    <button
      type="button"
      class="button offer"
      onClick={() => groups.colourBy(offer.key)}
      title={`Of the differences in rank of ${metric}, ${name} explains ${share.toFixed(2)} (η² of Kruskal–Wallis, ${offer.runs} runs)`}
    >
      colour by {name} – separates best ({share.toFixed(2)})
    </button>
  );
}

/** One group: a click hides or shows it, a double click (or Shift and Enter) shows it alone, pointing brings it forward. */
function Entry({ group, numbers }: { group: Group; numbers: boolean }) {
  const off = groups.isOff(group.key);
  const how = "click: hide or show, double click or Shift: only this one";
  return (
    <button
      type="button"
      class={`legend-entry${off ? " off" : ""}`}
      aria-pressed={!off}
      title={`${group.label}: ${count(group.runs.length)} runs; ${how}`}
      onClick={(e) => {
        if (e.shiftKey) groups.onlyGroup(group.key);
        else if (e.detail < 2) groups.toggleGroup(group.key);
      }}
      // The first of two clicks has hidden it, or shown it.
      onDblClick={() => {
        groups.toggleGroup(group.key);
        groups.onlyGroup(group.key);
      }}
      onMouseEnter={() => point(off ? null : group.key)}
      onFocus={() => point(off ? null : group.key)}
      onBlur={() => point(null)}
    >
      <Mark color={group.color} slot={numbers ? 0 : group.slot} />
      <span class="cut">{group.label}</span> <span class="muted">({count(group.runs.length)})</span>
    </button>
  );
}

function Mark({ color, slot }: { color: string; slot: number }) {
  const pattern = dash(slot);
  if (pattern.length === 0) return <span class="swatch" style={{ background: color }} />;
  return (
    <svg class="line-swatch" width="14" height="8" aria-hidden="true">
      <line
        x1="0"
        x2="14"
        y1="4"
        y2="4"
        stroke={color}
        stroke-width="3"
        stroke-dasharray={pattern.join(" ")}
      />
    </svg>
  );
}

/** What stands for a group, how its members are drawn, and small multiples. */
function Looks({ runs }: { runs: readonly Subject[] }) {
  const crowd = groups.grouping.value !== null || runs.length > 24;
  return (
    <span class="looks">
      {crowd && (
        <Pick
          label="Line and band of a group"
          value={groups.statistic.value}
          onPick={(stat) => setParams({ stat })}
        >
          {statistics.map(([name, title]) => (
            <option value={name} key={name}>
              {title}
            </option>
          ))}
        </Pick>
      )}
      {crowd && (
        <Pick label="Members" value={groups.members.value} onPick={(draw) => setParams({ draw })}>
          <option value="">members: auto</option>
          <option value="lines">members: lines</option>
          <option value="density">members: density</option>
          {groups.grouping.value && <option value="none">members: none</option>}
        </Pick>
      )}
      <KeyPick
        label="split by"
        value={groups.split.value}
        runs={runs}
        onPick={(split) => setParams({ split })}
      />
    </span>
  );
}

function Pick(props: {
  label: string;
  value: string;
  onPick: (v: string) => void;
  children: ComponentChildren;
}) {
  return (
    <select
      class="pick"
      aria-label={props.label}
      value={props.value}
      onChange={(e) => props.onPick(e.currentTarget.value)}
    >
      {props.children}
    </select>
  );
}

interface KeyProps {
  label: string;
  value: string;
  runs: readonly Subject[];
  onPick: (key: string) => void;
  /** Offers all parameters but one, too. */
  combined?: boolean;
}

/** A choice among the keys by which these runs differ. */
export function KeyPick({ label, value, runs, onPick, combined }: KeyProps) {
  const keys = useMemo(() => keysOf(runs), [runs]);
  const options = (list: string[]) =>
    list.map((key) => (
      <option value={key} key={key}>
        {nameOf(key)}
      </option>
    ));
  const known = [...keys.config, ...keys.summary, "tag"].includes(value) || value.startsWith("but:");
  return (
    <label class="pick">
      <span class="muted">{label}</span>
      <select value={value} onChange={(e) => onPick(e.currentTarget.value)} aria-label={label}>
        <option value="">–</option>
        {value && !known && <option value={value}>{nameOf(value)}</option>}
        {keys.config.length > 0 && <optgroup label="config">{options(keys.config)}</optgroup>}
        {keys.tag && <option value="tag">tag</option>}
        {keys.summary.length > 0 && <optgroup label="last value of">{options(keys.summary)}</optgroup>}
        {combined && keys.config.length > 1 && (
          <optgroup label="all parameters but …">{options(keys.config.map(allBut))}</optgroup>
        )}
      </select>
    </label>
  );
}
