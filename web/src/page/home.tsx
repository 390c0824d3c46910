import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api/client.ts";
import type { Project } from "../api/types.ts";
import { ago, count } from "../chart/number.ts";
import { FirstLines } from "../part/firstlines.tsx";
import { Failure, Message } from "../part/message.tsx";
import { Shell } from "../part/shell.tsx";
import { runsPath } from "../state/route.ts";

/** HomePage lists the projects, the one with the newest point first. */
export function HomePage() {
  const projects = useSignal<Project[] | null>(null);
  const error = useSignal<api.ApiError | null>(null);
  useEffect(() => {
    document.title = "Kymogram";
    api.projects().then(
      (list) => {
        projects.value = list.sort((a, b) => b.last_ns - a.last_ns);
      },
      (cause) => {
        error.value = cause;
      },
    );
  }, []);
  return (
    <Shell crumbs={<h1 class="here">Projects</h1>}>
      {error.value && <Failure error={error.value} retry={() => location.reload()} />}
      {projects.value?.length === 0 && (
        <Message>
          No project yet; the first run makes one. In Python:
          <FirstLines workspace="default" project="first" />
        </Message>
      )}
      <div class="scroll pad">
        {!!projects.value?.length && (
          <table class="plain projects">
            <thead>
              <tr>
                <th>project</th>
                <th>workspace</th>
                <th class="number">runs</th>
                <th class="number">last point</th>
              </tr>
            </thead>
            <tbody>
              {projects.value.map((p) => (
                <tr key={`${p.workspace}/${p.project}`}>
                  <td>
                    <a href={runsPath(p.workspace, p.project)}>{p.project}</a>
                  </td>
                  <td>{p.workspace}</td>
                  <td class="number">{count(p.runs)}</td>
                  <td class="number">{p.last_ns ? ago(Math.max(0, Date.now() - p.last_ns / 1e6)) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </Shell>
  );
}
