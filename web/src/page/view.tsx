import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import "../style/view.css";
import { ApiError } from "../api/client.ts";
import { type ViewDocument, type ViewInfo, view, views } from "../api/view.ts";
import { ago, count } from "../chart/number.ts";
import { Command, Failure, Message } from "../part/message.tsx";
import { Panel } from "../part/panel.tsx";
import { Shell } from "../part/shell.tsx";
import { Panels } from "../state/panels.ts";
import { runsPath, viewPath } from "../state/route.ts";

interface Props {
  workspace: string;
  project: string;
  name: string;
}

const asError = (cause: unknown): ApiError =>
  cause instanceof ApiError ? cause : new ApiError(0, { code: "page", message: String(cause), hint: "" });

/** ViewPage shows one view of a project, or the list of them. */
export function ViewPage({ workspace, project, name }: Props) {
  return name ? <OneView {...{ workspace, project, name }} /> : <AllViews {...{ workspace, project }} />;
}

function Crumbs({ workspace, project, title }: { workspace: string; project: string; title: string }) {
  return (
    <>
      <a href={runsPath(workspace, project)}>
        {workspace}/{project}
      </a>
      <span class="muted"> / </span>
      {title && (
        <>
          <a href={viewPath(workspace, project)}>views</a>
          <span class="muted"> / </span>
        </>
      )}
      <h1 class="here">{title || "views"}</h1>
    </>
  );
}

function OneView({ workspace, project, name }: Props) {
  const doc = useSignal<ViewDocument | null>(null);
  const error = useSignal<ApiError | null>(null);
  useEffect(() => {
    document.title = `${name} · ${project} · Kymogram`;
    view(workspace, project, name).then(
      (got) => {
        doc.value = got;
        document.title = `${got.title} · ${project} · Kymogram`;
      },
      (cause) => {
        error.value = asError(cause);
      },
    );
  }, []);
  const title = doc.value?.title ?? name;
  return (
    <Shell crumbs={<Crumbs {...{ workspace, project, title }} />} project={{ workspace, project }}>
      {error.value && <Failure error={error.value} retry={() => location.reload()} />}
      {doc.value && <Grid {...{ workspace, project }} doc={doc.value} />}
    </Shell>
  );
}

function Grid({ workspace, project, doc }: { workspace: string; project: string; doc: ViewDocument }) {
  const panels = useMemo(() => new Panels(workspace, project, doc), [workspace, project, doc]);
  useEffect(() => () => panels.close(), [panels]);
  return (
    <div class="scroll view-page">
      {doc.description && <p class="view-about">{doc.description}</p>}
      {panels.error.value && <Failure error={panels.error.value} retry={() => location.reload()} />}
      {panels.cut.value && (
        <p class="view-about" role="status">
          {panels.cut.value}
        </p>
      )}
      <div class="view-grid" data-loading={panels.loading.value ? "1" : undefined}>
        {doc.panels.map((spec, i) => (
          <Panel key={i} panels={panels} spec={spec} />
        ))}
      </div>
    </div>
  );
}

function AllViews({ workspace, project }: { workspace: string; project: string }) {
  const list = useSignal<ViewInfo[] | null>(null);
  const error = useSignal<ApiError | null>(null);
  useEffect(() => {
    document.title = `views · ${project} · Kymogram`;
    views(workspace, project).then(
      (got) => {
        list.value = got;
      },
      (cause) => {
        error.value = asError(cause);
      },
    );
  }, []);
  return (
    <Shell crumbs={<Crumbs {...{ workspace, project }} title="" />} project={{ workspace, project }}>
      {error.value && <Failure error={error.value} retry={() => location.reload()} />}
      {list.value?.length === 0 && (
        <Message>
          No view yet. Store one:{" "}
          <Command text={`kymogram view apply FILE.json --project ${workspace}/${project}`} />
        </Message>
      )}
      {!!list.value?.length && (
        <div class="scroll pad">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">view</th>
                <th scope="col">name</th>
                <th scope="col" class="number">
                  panels
                </th>
                <th scope="col" class="number">
                  changed
                </th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((v) => (
                <tr key={v.name}>
                  <td>
                    <a href={viewPath(workspace, project, v.name)}>{v.title}</a>
                  </td>
                  <td class="muted">{v.name}</td>
                  <td class="number">{count(v.panels)}</td>
                  <td class="number">{ago(Math.max(0, Date.now() - v.changed_ns / 1e6))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Shell>
  );
}
