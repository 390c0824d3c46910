import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api/client.ts";
import type { Ledger, RunDetail } from "../api/types.ts";
import { ago, count, dateTime, duration, full } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { runPath, setParams } from "../state/route.ts";
import type { Session } from "../state/session.ts";
import { Icon } from "./icon.tsx";
import { Status } from "./status.tsx";

/** RunHead says what this run is, whether it lives, and whether every logged point is here. */
export function RunHead({ detail, session }: { detail: RunDetail | null; session: Session }) {
  const now = useNow(detail?.status === "running" ? 1000 : 30_000);
  if (!detail) return <header class="run-head" aria-busy="true" />;
  const commit = commitOf(detail);
  return (
    <header class="run-head">
      <h1 title={detail.name}>{detail.display_name || detail.name}</h1>
      <Status status={detail.status} />
      <TagEditor detail={detail} session={session} />
      <span class="spring" />
      <Fact name={detail.status === "running" ? "heartbeat" : "ended"} title={dateTime(detail.last_ns, true)}>
        {ago(Math.max(0, now - detail.last_ns / 1e6))}
      </Fact>
      <Fact name="duration" title={`started ${dateTime(detail.created_ns, true)}`}>
        {duration(Math.max(0, detail.last_ns - detail.created_ns) / 1e6)}
      </Fact>
      {detail.attempts.length > 1 && <Fact name="attempts">{detail.attempts.length}</Fact>}
      {commit && (
        <Fact name="commit" title={commit}>
          <code>{commit.slice(0, 8)}</code>
        </Fact>
      )}
      <LedgerView ledger={detail.ledger} />
      <LineageView detail={detail} />
      {detail.shared.length > 0 && (
        <button type="button" class="warning" onClick={() => setParams({ tab: "writers" })}>
          ⚠ {count(detail.shared.length)} {detail.shared.length > 1 ? "environments" : "environment"} of two
          writers
        </button>
      )}
    </header>
  );
}

function useNow(everyMs: number): number {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) now.value = Date.now();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now.value;
}

function Fact({
  name,
  title,
  children,
}: {
  name: string;
  title?: string;
  children: preact.ComponentChildren;
}) {
  return (
    <span class="fact" title={title}>
      <span class="muted">{name}</span> {children}
    </span>
  );
}

/** The commit of the code, wherever a client keeps it. */
function commitOf(detail: RunDetail): string {
  const key = Object.keys(detail.attributes).find((k) => /(^|\/)(git[/_.])?(commit|sha)$/i.test(k));
  return key ? String(detail.attributes[key]) : "";
}

const shownForks = 3;

const whyBroken: Record<string, string> = {
  not_found: "no run of this name has come",
  run_deleted: "it is in the trash or was deleted",
  permission_denied: "your key may not read it",
  too_large: "it is more than 1,000 runs away",
};

/** Which run this one goes on from, up to where, and which ones go on from it. */
function LineageView({ detail }: { detail: RunDetail }) {
  const { ancestors, broken, forks } = detail.lineage;
  const parent = ancestors[0];
  const others = forks.slice(shownForks);
  if (!parent && !broken && forks.length === 0) return null;
  return (
    <div class="lineage">
      {parent && (
        <Fact name="forked from">
          <a href={runPath(parent.id)}>{parent.display_name || parent.name}</a>
          {parent.up_to !== null && <> at step {full(parent.up_to)}</>}
          {ancestors.slice(1).map((a) => (
            <span key={a.id}>
              {" ← "}
              <a href={runPath(a.id)}>{a.display_name || a.name}</a>
            </span>
          ))}
        </Fact>
      )}
      {broken && (
        <Fact name={parent ? "further back" : "forked from"}>
          {broken.name}{" "}
          <span class="muted">({whyBroken[broken.code] ?? broken.code}: nothing is inherited)</span>
        </Fact>
      )}
      {forks.length > 0 && (
        <Fact name={forks.length > 1 ? `${count(forks.length)} forks` : "fork"}>
          {forks.slice(0, shownForks).map((f, i) => (
            <span key={f.id}>
              {i > 0 && ", "}
              <a href={runPath(f.id)}>{f.display_name || f.name}</a>
              {f.fork_step !== null && <> at {full(f.fork_step)}</>}
            </span>
          ))}
          {others.length > 0 && (
            <span title={others.map((f) => f.display_name || f.name).join("\n")}>
              {" "}
              and {count(others.length)} more
            </span>
          )}
        </Fact>
      )}
    </div>
  );
}

export interface Account {
  logged: number;
  spooled: number | null;
  stored: number;
  lost: number;
  /** Ranges were lost of which nobody knows how many points they held. */
  more: boolean;
}

/** What became of the points: stored here, still with a client, or gone for a reason that the Writers tab names. */
export function account(ledger: Ledger): Account {
  const skipped = ledger.skipped.reduce((n, s) => n + (s.points ?? 0), 0);
  const damaged = ledger.damaged.reduce((n, d) => n + d.points, 0);
  const lost = ledger.dropped + ledger.refused + skipped + damaged;
  const more = ledger.skipped.some((s) => s.points === undefined);
  return { logged: ledger.logged, spooled: ledger.spooled, stored: ledger.stored, lost, more };
}

function LedgerView({ ledger }: { ledger: Ledger }) {
  const { logged, spooled, stored, lost, more } = account(ledger);
  const damaged = ledger.damaged.reduce((n, d) => n + d.points, 0);
  const title = `${count(ledger.superseded)} superseded by later points · ${count(ledger.refused)} refused · ${count(ledger.dropped)} dropped by a client's cap · ${count(ledger.skipped.length)} ranges are not here · ${count(damaged)} damaged on the server`;
  return (
    <button
      type="button"
      class="ledger"
      title={`${title}: see the ledger`}
      onClick={() => setParams({ tab: "writers" })}
    >
      <span>
        <span class="muted">logged</span> {count(logged)}
      </span>
      <span
        title={spooled === null ? "Not known: the client of a running writer is not connected." : undefined}
      >
        <span class="muted">spooled</span> {spooled === null ? "–" : count(spooled)}
      </span>
      <span>
        <span class="muted">stored</span> {count(stored)}
      </span>
      <span class={lost || more ? "lost" : ""}>
        <span class="muted">{lost || more ? "✕ lost" : "lost"}</span> {lost || !more ? count(lost) : ""}
        {more && (lost ? " and more" : "some")}
      </span>
    </button>
  );
}

function TagEditor({ detail, session }: { detail: RunDetail; session: Session }) {
  const open = useSignal(false);
  const change = async (tags: string[]) => {
    open.value = false;
    try {
      await api.edit(detail.id, { tags });
      await session.reload(detail.id);
    } catch (error) {
      say((error as Error).message, true);
    }
  };
  return (
    <span class="tags">
      {detail.tags.map((tag) => (
        <span class="tag" key={tag}>
          <span title={tag}>{tag}</span>
          {api.may("ingest") && (
            <button
              type="button"
              aria-label={`Remove the tag ${tag}`}
              onClick={() => change(detail.tags.filter((t) => t !== tag))}
            >
              <Icon name="close" size={9} />
            </button>
          )}
        </span>
      ))}
      {open.value ? (
        <input
          class="tag-input"
          aria-label="New tag"
          ref={(el) => el?.focus()}
          onBlur={() => {
            open.value = false;
          }}
          onKeyDown={(e) => {
            const text = e.currentTarget.value.trim();
            if (e.key === "Escape") open.value = false;
            if (e.key === "Enter" && text) change([...new Set([...detail.tags, text])]);
          }}
        />
      ) : (
        api.may("ingest") && (
          <button
            type="button"
            class="ghost add-tag"
            onClick={() => {
              open.value = true;
            }}
            aria-label="Add a tag"
            title="Add a tag"
          >
            <Icon name="plus" size={12} />
          </button>
        )
      )}
    </span>
  );
}
