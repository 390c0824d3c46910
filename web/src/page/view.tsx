import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import "../style/view.css";
import { type ApiError, asApiError } from "../api/client.ts";
import { type ViewDocument, type ViewInfo, view, views } from "../api/view.ts";
import { ago, count } from "../chart/number.ts";
import { Command, Failure, Message } from "../part/message.tsx";
import { Panel } from "../part/panel.tsx";
import { Shell } from "../part/shell.tsx";
import { Panels } from "../state/panels.ts";
import { replace, runsPath, viewPath } from "../state/route.ts";
import { pathOf } from "../state/saved.ts";
import * as state from "../state/view.ts";

interface Props {
  workspace: string;
  project: string;
  name: string;
}

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
        // A view of the project's page: this address is its link.
        if (got.page) return replace(...pathOf({ workspace, project }, got.page.params ?? {}, name));
        doc.value = got;
        document.title = `${got.title} · ${project} · Kymogram`;
      },
      (cause) => {
        error.value = asApiError(cause);
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

const noAxes = {};
const usual = ["1h", "24h", "7d"];

/** The range of time, and the part of an axis, that the panels show. */
function Ranges({ doc, last }: { doc: ViewDocument; last: string }) {
  const spans = usual.includes(last) || last === "all" ? usual : [last, ...usual];
  return (
    <div class="view-ranges">
      <label class="pick">
        <span class="muted">time</span>
        <select value={last} onChange={(e) => state.setLast(e.currentTarget.value)}>
          {spans.map((text) => (
            <option key={text} value={text}>
              last {text}
            </option>
          ))}
          <option value="all">all</option>
        </select>
      </label>
      {last === "all" && <Axes doc={doc} />}
    </div>
  );
}

/** A part of one axis, in numbers; a drag over a chart sets the same. */
function Axes({ doc }: { doc: ViewDocument }) {
  const names = [...new Set(doc.panels!.flatMap((p) => (p.kind === "line" ? (p.axis ?? "step") : [])))];
  const numbers = names.filter((name) => name !== "time_ns");
  const zoom = state.zoom.value;
  const chosen = useSignal("");
  const axis = zoom && numbers.includes(zoom.key) ? zoom.key : chosen.value || numbers[0];
  if (!axis) return null;
  const part = state.wholeAxes.value ? undefined : doc.axes?.[axis];
  const [from, to] = zoom?.key === axis ? [Math.floor(zoom.from), Math.ceil(zoom.to)] : (part ?? ["", ""]);
  const set = (event: Event) => {
    const form = new FormData((event.currentTarget as HTMLElement).closest("form")!);
    const [a, b] = [String(form.get("from")), String(form.get("to"))];
    if (a !== "" && b !== "" && Number(a) < Number(b))
      state.setZoom({ key: axis, from: Number(a), to: Number(b) });
  };
  return (
    <form onSubmit={(e) => e.preventDefault()}>
      <select
        class="pick"
        aria-label="axis"
        value={axis}
        onChange={(e) => {
          chosen.value = e.currentTarget.value;
          state.setZoom(null);
        }}
      >
        {numbers.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <input
        class="pick"
        type="number"
        name="from"
        aria-label={`first ${axis}`}
        placeholder="first"
        {...{ value: from }}
        onChange={set}
      />
      <span class="muted">–</span>
      <input
        class="pick"
        type="number"
        name="to"
        aria-label={`last ${axis}`}
        placeholder="last"
        {...{ value: to }}
        onChange={set}
      />
      {from !== "" && (
        <button type="button" class="button" onClick={() => state.setWholeAxes(true)}>
          show all
        </button>
      )}
      {state.wholeAxes.value && doc.axes && (
        <button type="button" class="button" onClick={() => state.setWholeAxes(false)}>
          as stored
        </button>
      )}
    </form>
  );
}

function Grid({ workspace, project, doc }: { workspace: string; project: string; doc: ViewDocument }) {
  const panels = useMemo(() => new Panels(workspace, project, doc), [workspace, project, doc]);
  useEffect(() => () => panels.close(), [panels]);
  const last = state.lastChoice.value || doc.last || "all";
  useEffect(() => panels.look(last), [panels, last]);
  return (
    <div class="scroll view-page">
      <Ranges doc={doc} last={last} />
      {doc.description && <p class="view-about">{doc.description}</p>}
      {panels.error.value && <Failure error={panels.error.value} retry={() => location.reload()} />}
      {panels.cut.value && (
        <p class="view-about" role="status">
          {panels.cut.value}
        </p>
      )}
      <div class="view-grid" data-loading={panels.loading.value ? "1" : undefined}>
        {doc.panels!.map((spec, i) => (
          <Panel key={i} panels={panels} spec={spec} axes={doc.axes ?? noAxes} />
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
        error.value = asApiError(cause);
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
                  <td class="number">{v.panels ? count(v.panels) : "page"}</td>
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
