import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import "../style/kymograph.css";
import { mostRows } from "../api/kymograph.ts";
import type { RunDetail } from "../api/types.ts";
import { relative, wall } from "../chart/axis.ts";
import { count, plural } from "../chart/number.ts";
import { orders, rowsOf, select, templates } from "../chart/rows.ts";
import { natural } from "../chart/title.ts";
import { KymographBody } from "../part/kymographbody.tsx";
import { Failure, Message } from "../part/message.tsx";
import { ShareButton } from "../part/sharebutton.tsx";
import { Shell } from "../part/shell.tsx";
import { pageKeys } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import * as kymo from "../state/kymograph.ts";
import { comparePath, go, runPath, runsPath, setParams } from "../state/route.ts";
import { type Card, type Member, Session } from "../state/session.ts";
import * as view from "../state/view.ts";

const keys: [string, string][] = [
  ["←  ↑  ↓  →", "move the crosshair"],
  ["shift + arrows", "mark; Enter zooms to it"],
  ["Enter  click", "open or close the row's curve"],
  ["PgUp  PgDn", "ten rows up or down"],
  ["Home  End", "first, last column"],
];

/** KymographPage shows many series as rows of one picture: environments × episodes, layers × steps, ranks × steps. */
export function KymographPage({ id }: { id: string }) {
  const session = useMemo(() => new Session({ search: () => rowsOf(kymo.metric.value) }), [id]);
  const runs = useComputed(
    () =>
      new Map([[id, 0], ...view.chosen.value.filter((c) => c.id !== id).map((c) => [c.id, c.slot] as const)]),
  ).value;
  const ids = [...runs.keys()];
  useEffect(() => () => session.close(), [session]);
  useMemo(() => session.show(ids), [session, ids.join()]);
  const detail = session.detail(id);
  const error = session.error(id);
  const cards = session.cards.value;
  const [metric, scale] = [kymo.metric.value, kymo.scale.value];
  const found = useMemo(() => select(cards, metric, scale), [cards, metric, scale]);
  const name = detail ? detail.display_name || detail.name : id;
  useEffect(() => {
    document.title = `${metric || "Kymograph"} · ${name} · Kymogram`;
  }, [metric, name]);
  useEffect(() => {
    pageKeys.value = keys;
    return () => {
      pageKeys.value = [];
    };
  }, []);
  useEffect(
    () =>
      bind({
        "g r": () => detail && go(runsPath(detail.workspace, detail.project)),
        "g c": () => detail && go(comparePath(detail.workspace, detail.project, ids.length > 1 ? ids : [])),
      }),
    [detail?.workspace, detail?.project, ids.join()],
  );
  const crumbs = (
    <>
      {detail && (
        <a class="cut" href={runsPath(detail.workspace, detail.project)}>
          {`${detail.workspace} / ${detail.project}`}
        </a>
      )}
      <span class="sep">/</span>
      <a class="cut" href={runPath(id, ids.slice(1))}>
        {name}
      </a>
      <span class="sep">/</span>
      <h1 class="here">Kymograph</h1>
    </>
  );
  return (
    <Shell crumbs={crumbs} project={detail ?? undefined}>
      {error && !detail ? (
        <Failure error={error} retry={() => location.reload()} />
      ) : (
        <div class="ky">
          <Tools cards={cards} members={found.members} scales={found.scales} runs={ids.length} />
          <Found {...{ session, id, detail, cards, runs, metric }} members={found.members} />
        </div>
      )}
    </Shell>
  );
}

interface FoundProps {
  session: Session;
  id: string;
  detail: RunDetail | null;
  cards: Card[];
  runs: Map<string, number>;
  members: Member[];
  metric: string;
}

function Found({ session, id, detail, cards, runs, members, metric }: FoundProps) {
  if (!session.complete() || !detail) return <p class="muted ky-wait">reading the list of series …</p>;
  if (members.length > 0) return <KymographBody {...{ session, members, runs }} />;
  const offers = offersOf(cards);
  return (
    <Message>
      <div class="ky-offers">
        {metric ? (
          <span>
            No series of numbers matches <code class="cut">{metric}</code>.
          </span>
        ) : (
          <span>A kymograph draws many series as rows of one picture.</span>
        )}
        {offers.length > 0 ? (
          <ul class="ky-list" aria-label="Kymographs of this run">
            {offers.slice(0, mostOffers).map(([selector, n]) => (
              <li key={selector}>
                <a href={kymo.kymographPath(id, selector)}>{selector}</a>{" "}
                <span class="muted">{plural(n, "row")}</span>
              </li>
            ))}
          </ul>
        ) : (
          <span class="muted">
            This run has no metric with labels, and no metrics that differ in a number.
          </span>
        )}
        {offers.length > mostOffers && (
          <span class="muted">and {count(offers.length - mostOffers)} more: type their name above</span>
        )}
      </div>
    </Message>
  );
}

const mostOffers = 30;

/** Selectors that take more than one series: a metric with labels, or metrics that differ in a number. */
function offersOf(cards: Card[]): [string, number][] {
  const own = new Map<string, number>();
  for (const { metric, members } of cards) own.set(metric, (own.get(metric) ?? 0) + members.length);
  const all = [...own, ...templates(cards)].filter(([, n]) => n > 1);
  return all.sort((a, b) => b[1] - a[1] || natural(a[0], b[0]));
}

interface ToolsProps {
  cards: Card[];
  members: Member[];
  scales: string[];
  runs: number;
}

function Tools({ cards, members, scales, runs }: ToolsProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => bind({ "/": () => input.current?.select() }), []);
  const offers = useMemo(() => offersOf(cards).slice(0, 200), [cards]);
  const axes = useMemo(() => axesOf(members, runs), [members, runs]);
  const choice = view.axisChoice.value;
  const axisNow = choice === relative && runs > 1 ? wall : choice; // as it is drawn
  return (
    <div class="ky-bar">
      <input
        ref={input}
        class="search"
        list="ky-offers"
        placeholder="Rows: return, layers/*/grad_norm"
        title="A metric, or a pattern as in the search of the charts"
        aria-label="Rows: a metric or a pattern"
        value={kymo.metric.value}
        onChange={(e) =>
          setParams({ metric: e.currentTarget.value.trim(), scale: "", rows: "", row: "", limits: "" })
        }
        onKeyDown={(e) => {
          if (e.key === "Escape" || e.key === "Enter") e.currentTarget.blur();
        }}
      />
      <datalist id="ky-offers">
        {offers.map(([selector]) => (
          <option value={selector} key={selector} />
        ))}
      </datalist>
      {scales.length > 1 && (
        <Pick
          label="Scale"
          value={members[0]?.series.scale ?? ""}
          options={scales.map((s) => [s, s.toLowerCase()])}
          onPick={(scale) => setParams({ scale, rows: "", limits: "" })}
        />
      )}
      <Pick
        label="X axis"
        shown="x"
        value={axes.some(([name]) => name === axisNow) ? axisNow : ""}
        options={axes}
        onPick={(x) => setParams({ x, zoom: "" })}
      />
      <Pick
        label="Value of a cell"
        value={kymo.reduce.value}
        options={(["mean", "min", "max"] as const).map((r) => [r, `${r} of a cell`])}
        onPick={(reduce) => setParams({ reduce: reduce === "mean" ? "" : reduce, limits: "" })}
      />
      <Pick
        label="Order of rows"
        value={kymo.orderOf(members.length)}
        options={orders.filter(([name]) => name !== "similar" || members.length <= mostRows)}
        onPick={(order) => setParams({ order, rows: "" })}
      />
      <Pick
        label="Bars at the right"
        value={kymo.bar.value}
        options={kymo.bars.map((b) => [b, `bars: ${b}`])}
        onPick={(bar) => setParams({ bar: bar === "last" ? "" : bar })}
      />
      <Pick
        label="Height of rows"
        value={kymo.height.value}
        options={[["", "rows: fit"], ...["3", "6", "12", "18"].map((n): [string, string] => [n, `${n} px`])]}
        onPick={(height) => setParams({ height })}
      />
      <ShareButton />
    </div>
  );
}

interface PickProps {
  label: string;
  shown?: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onPick: (value: string) => void;
}

function Pick({ label, shown, value, options, onPick }: PickProps) {
  const choices = options.map(([name, title]) => (
    <option value={name} key={name}>
      {title}
    </option>
  ));
  const pick = (e: { currentTarget: HTMLSelectElement }) => onPick(e.currentTarget.value);
  if (!shown)
    return (
      <select class="pick" aria-label={label} value={value} onChange={pick}>
        {choices}
      </select>
    );
  return (
    <label class="pick">
      <span class="muted">{shown}</span>
      <select aria-label={label} value={value} onChange={pick}>
        {choices}
      </select>
    </label>
  );
}

/** The stored axes of the rows, and time; runs that began at different times share no relative time. */
function axesOf(members: Member[], runs: number): [string, string][] {
  const stored = new Set(members.flatMap((m) => m.series.axes));
  stored.delete("step");
  stored.delete("time_ns");
  return [
    ["", "step"],
    ...[...stored].sort(natural).map((a): [string, string] => [a, a]),
    [wall, "wall time"],
    ...(runs > 1 ? [] : [[relative, "relative time"] as [string, string]]),
  ];
}
