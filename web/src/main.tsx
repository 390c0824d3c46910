import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/page.css";
import "./style/chart.css";
import "./style/table.css";
import "./style/runs.css";
import "./style/narrow.css";
import "./style/print.css";
import { locked } from "./api/client.ts";
import { HomePage } from "./page/home.tsx";
import { KeyPrompt, LoginPage } from "./page/login.tsx";
import { NamedRun } from "./page/named.tsx";
import { RunPage } from "./page/run.tsx";
import { RunsPage } from "./page/runs.tsx";
import { Lazy } from "./part/lazy.tsx";
import { Message } from "./part/message.tsx";
import { Shell } from "./part/shell.tsx";
import { help, live } from "./state/app.ts";
import { bind, listenKeys } from "./state/keys.ts";
import { listen, route } from "./state/route.ts";
import { followTheme, toggleTheme } from "./state/theme.ts";

const kymographPage = () => import("./page/kymograph.tsx").then((m) => m.KymographPage);
const viewPage = () => import("./page/view.tsx").then((m) => m.ViewPage);
const comparePage = () => import("./page/compare.tsx").then((m) => m.ComparePage);
const networkPage = () => import("./page/network.tsx").then((m) => m.NetworkPage);

function App() {
  const at = route.value;
  if (at.page === "login") return <LoginPage />;
  if (locked.value) return <KeyPrompt />;
  switch (at.page) {
    case "home":
      return <HomePage />;
    case "runs":
      return <RunsPage key={`${at.workspace}/${at.project}`} workspace={at.workspace} project={at.project} />;
    case "run":
      return <RunPage key={at.id} id={at.id} />;
    case "kymograph":
      return <Lazy key={at.id} load={kymographPage} props={{ id: at.id }} />;
    case "compare":
      return <Lazy key={`${at.workspace}/${at.project}`} load={comparePage} props={at} />;
    case "network":
      return (
        <Lazy
          key={`${at.workspace}/${at.project}`}
          load={networkPage}
          props={{ workspace: at.workspace, project: at.project }}
        />
      );
    case "view":
      return <Lazy key={at.workspace + at.project + at.name} load={viewPage} props={at} />;
    case "named":
      return <NamedRun key={`${at.workspace}/${at.project}/${at.name}`} {...at} />;
    case "lost":
      return (
        <Shell crumbs={<h1 class="here">Not found</h1>}>
          <Message>
            There is no page <code>{at.path}</code>. <a href="/">All projects</a>
          </Message>
        </Shell>
      );
  }
}

followTheme();
listen();
listenKeys();
live.start();
bind({
  t: toggleTheme,
  "?": () => {
    help.value = !help.value;
  },
  Escape: () => {
    help.value = false;
  },
});
// A task of its own: running the module and drawing the first page in one keeps the
// browser from input for twice as long.
setTimeout(() => render(<App />, document.body));
