import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, asApiError, resolve } from "../api/client.ts";
import { Failure } from "../part/message.tsx";
import { Shell } from "../part/shell.tsx";
import { replace, runPath, runsPath } from "../state/route.ts";

/** NamedRun goes to the page of a run that the address names in place of its id. */
export function NamedRun({ workspace, project, name }: { workspace: string; project: string; name: string }) {
  const failed = useSignal<ApiError | null>(null);
  const find = () => {
    failed.value = null;
    resolve(workspace, project, name).then(
      (id) => replace(runPath(id)),
      (cause: unknown) => {
        failed.value = asApiError(cause);
      },
    );
  };
  useEffect(find, []);
  const crumbs = (
    <>
      <a href={runsPath(workspace, project)} class="cut">
        {workspace} / {project}
      </a>
      <span>›</span>
      <h1 class="here">{name}</h1>
    </>
  );
  return <Shell crumbs={crumbs}>{failed.value && <Failure error={failed.value} retry={find} />}</Shell>;
}
