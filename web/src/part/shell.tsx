import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { logout, offlineSince } from "../api/client.ts";
import { help, notice, pageKeys, say } from "../state/app.ts";
import { bind } from "../state/keys.ts";
import { comparePath, go, runsPath, viewPath } from "../state/route.ts";
import { isDark, toggleTheme } from "../state/theme.ts";
import { Icon } from "./icon.tsx";
import { TipView } from "./tip.tsx";

interface Props {
  crumbs: ComponentChildren;
  tools?: ComponentChildren;
  project?: { workspace: string; project: string };
  children: ComponentChildren;
}

/** Shell is the frame of every page: the rail, the top bar, and what floats above. */
export function Shell({ crumbs, tools, project, children }: Props) {
  useEffect(
    () => project && bind({ "g c": () => go(comparePath(project.workspace, project.project)) }),
    [project?.workspace, project?.project],
  );
  return (
    <div class="shell">
      <nav class="rail" aria-label="Main">
        <a class="mark" href="/" aria-label="Projects" title="Projects">
          <img src="/icon.svg" width="24" height="24" alt="" />
        </a>
        {project && (
          <a
            class="rail-item"
            href={runsPath(project.workspace, project.project)}
            aria-label="Runs"
            title="Runs (g r)"
          >
            <Icon name="runs" />
          </a>
        )}
        {project && (
          <a
            class="rail-item"
            href={comparePath(project.workspace, project.project)}
            aria-label="Compare"
            title="Compare (g c)"
          >
            <Icon name="compare" />
          </a>
        )}
        {project && (
          <a
            class="rail-item"
            href={viewPath(project.workspace, project.project)}
            aria-label="Views"
            title="Views"
          >
            <Icon name="views" />
          </a>
        )}
        <span class="spring" />
        <button
          type="button"
          class="rail-item"
          onClick={() => {
            help.value = true;
          }}
          aria-label="Keys"
          title="Keys (?)"
        >
          <Icon name="help" />
        </button>
        <button
          type="button"
          class="rail-item"
          onClick={toggleTheme}
          aria-label="Light or dark"
          title="Light or dark (t)"
        >
          <Icon name={isDark.value ? "sun" : "moon"} />
        </button>
        <button type="button" class="rail-item" onClick={signOut} aria-label="Sign out" title="Sign out">
          <Icon name="exit" />
        </button>
      </nav>
      <header class="top">
        <div class="crumbs">{crumbs}</div>
        {tools}
      </header>
      <main class="main">
        <Offline />
        {children}
        <p class="on-paper muted">
          {location.href} · Charts, and rows of long tables, are those that were on the screen.
        </p>
      </main>
      <TipView />
      {help.value && <Help />}
      {notice.value && (
        <div class={`notice${notice.value.bad ? " bad" : ""}`} role="status">
          {notice.value.text}
          {notice.value.undo && (
            <button type="button" class="button" onClick={notice.value.undo} title="Undo (ctrl+z)">
              undo
            </button>
          )}
        </div>
      )}
    </div>
  );
}

/** Says that what is shown does not move any more, and since when. */
function Offline() {
  const since = offlineSince.value;
  if (!since) return <div role="status" />;
  return (
    <div class="offline" role="status">
      Offline since {new Date(since).toLocaleTimeString()}: the server does not answer. This page tries again
      by itself.
    </div>
  );
}

/** The page starts anew, so that nothing of the session stays in its memory. */
function signOut(): void {
  logout().then(
    () => location.assign("/"),
    (cause) => say((cause as Error).message, true),
  );
}

const keys: [string, string][] = [
  ["/", "search"],
  ["g r", "runs"],
  ["g c", "compare runs"],
  ["j  k", "next, previous row or chart"],
  ["x", "select a run"],
  ["Enter", "open"],
  ["[  ]", "previous, next chart"],
  ["f", "full screen"],
  ["z", "reset the zoom"],
  ["p", "keep the run under the pointer in front, or pin the chart"],
  ["P", "pin the chart under the pointer"],
  ["<  >", "move the chart under the pointer"],
  ["ctrl+z", "undo"],
  ["l", "log scale of the chart under the pointer"],
  ["\\", "show or hide the runs beside the charts"],
  ["t", "light or dark"],
  ["?", "this list"],
  ["drag", "zoom"],
  ["double click", "reset the zoom"],
  ["shift + drag", "pan"],
];

function Help() {
  return (
    <div
      class="veil"
      onClick={() => {
        help.value = false;
      }}
    >
      <div class="dialog" role="dialog" aria-label="Keys" onClick={(e) => e.stopPropagation()}>
        <p class="docs-link">
          <a href="/docs" target="_blank" rel="noreferrer">
            Documentation
          </a>
        </p>
        <h2>Keys</h2>
        <dl class="keys">
          {[...pageKeys.value, ...keys].map(([key, what]) => (
            <div key={key}>
              <dt>
                {key.split("  ").map((k) => (
                  <kbd key={k}>{k}</kbd>
                ))}
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </div>
    </div>
  );
}
