import { useSignal } from "@preact/signals";
import { ApiError, request } from "../api/client.ts";
import { say } from "../state/app.ts";
import { Command } from "./message.tsx";

/** The five lines of Python that fill an empty place, with a key in them if the reader makes one here. */
export function FirstLines({ workspace, project }: { workspace: string; project: string }) {
  const key = useSignal("");
  const make = async () => {
    try {
      const body = JSON.stringify({ name: "first lines", scopes: ["ingest"], workspace, project });
      const made = await request<{ key: string }>("/keys", {
        method: "POST",
        body,
        headers: { "Content-Type": "application/json" },
      });
      key.value = made.key;
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      say(cause.message, true);
    }
  };
  const given = key.value && `, api_key="${key.value}"`;
  const place = `workspace_name=${JSON.stringify(workspace)}, project_name=${JSON.stringify(project)}`;
  return (
    <>
      <Command
        text={`import kymogram
kymogram.init(server="${location.origin}", ${place}${given})
for step in range(100):
    kymogram.log("loss", 1 / (step + 1), step=step)
kymogram.close()`}
      />
      {key.value ? (
        <span class="muted">The key may log into {project} and nothing else. It is shown only now.</span>
      ) : (
        <span class="muted">
          On the server's machine Python finds its key. For another machine{" "}
          <button type="button" class="link" onClick={make}>
            fill a key in
          </button>
          , or run <code>kymogram login</code> there.
        </span>
      )}
    </>
  );
}
