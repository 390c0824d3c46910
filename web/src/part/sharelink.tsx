import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api/network.ts";
import { ago, dateTime } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { Command } from "./message.tsx";

/** ShareLink makes, lists and revokes the public links of a project. */
export function ShareLink({
  workspace,
  project,
  close,
}: {
  workspace: string;
  project: string;
  close: () => void;
}) {
  const links = useSignal<api.PublicLink[] | null | undefined>(undefined);
  const made = useSignal("");
  const read = () =>
    api.publicLinks(workspace, project).then(
      (list) => {
        links.value = list;
      },
      (cause) => say((cause as Error).message, true),
    );
  useEffect(() => void read(), []);
  const act = (work: Promise<unknown>) =>
    work.then(read).catch((cause) => say((cause as Error).message, true));
  const make = () =>
    act(
      api.makePublicLink(workspace, project).then((link) => {
        made.value = link;
      }),
    );
  return (
    <div class="veil" onClick={close}>
      <div
        class="dialog net-share"
        role="dialog"
        aria-label="Public link"
        onClick={(e) => e.stopPropagation()}
      >
        <h2>Public link</h2>
        <p>
          Whoever has the link can read this project, without signing in. The link cannot write, and shows no
          other project.
        </p>
        {links.value === null && (
          <p>
            Only an admin of the server makes links:{" "}
            <Command text={`kymogram key public ${workspace}/${project}`} />
          </p>
        )}
        {made.value && (
          <p role="status">
            The link, shown only now: <Command text={made.value} />
          </p>
        )}
        {links.value?.map((link) => (
          <div class="net-link" key={link.id}>
            <code>{link.id}</code>
            <span class="muted">made {dateTime(link.created_ns)}</span>
            <span class="muted">
              {link.last_ns
                ? `last used ${ago(Math.max(0, Date.now() - link.last_ns / 1e6))}`
                : "not used yet"}
            </span>
            <span class="spring" />
            <button type="button" class="button" onClick={() => act(api.revokePublicLink(link.id))}>
              revoke
            </button>
          </div>
        ))}
        <p>
          {links.value && (
            <button type="button" class="button primary" onClick={make}>
              make a link
            </button>
          )}{" "}
          <button type="button" class="button" onClick={close}>
            close
          </button>
        </p>
      </div>
    </div>
  );
}
