// Records the requests that Grafana's Prometheus data source builds, as JSON on standard output.
//
// It runs the data source code that Grafana publishes, as it is, without a Grafana around it:
//
//	make grafana    # the published code, in bin/tools/grafana
//	node test/grafana/requests.cjs bin/tools/grafana > test/grafana/requests.json
//
// What draws (React, Grafana's widgets) is not needed and stands empty. Of @grafana/runtime three
// things are: the request to Grafana's server, which hands it on to Prometheus as it is; the
// variables of a dashboard; the configuration. The first is what is recorded.
const { createRequire } = require("node:module");
const Module = require("node:module");
const path = require("node:path");

const home = createRequire(path.join(path.resolve(process.argv[2]), "package.json"));
const real = Module._load;

/** Stands for whatever a page would draw with. */
const nothing = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => "" : key === "__esModule" ? true : nothing),
  apply: () => nothing,
  construct: () => nothing,
});

const empty = new Proxy({}, { get: () => nothing, has: () => true });

Date.now = () => Date.UTC(2025, 9, 1, 14); // what is asked without a time is recorded too
let recorded = [];
let answers = {};

class DataSourceWithBackend {
  constructor(settings) {
    Object.assign(this, { id: settings.id, uid: settings.uid, name: settings.name, type: settings.type });
  }
  getRef() {
    return { type: this.type, uid: this.uid };
  }
  async getResource(path, params) {
    return this.record("GET", path, params);
  }
  async postResource(path, data, options) {
    return this.record("POST", path, data, options.headers["Content-Type"]);
  }
  record(method, path, form, type) {
    const texts = Object.entries(form ?? {}).filter(([, v]) => v !== undefined);
    recorded.push({ method, path: `/${path}`, type, form: Object.fromEntries(texts.map(([k, v]) => [k, String(v)])) });
    return answers[path] ?? { status: "success", data: [] };
  }
  query(request) {
    for (const t of request.targets) recorded.push({ target: this.applyTemplateVariables(t, request.scopedVars) });
    return require(home.resolve("rxjs")).of({ data: [] });
  }
}

const templates = {
  getVariables: () => [],
  getAdhocFilters: () => [],
  containsTemplate: (text) => /\$/.test(text ?? ""),
  replace: (text, vars = {}) => text?.replace(/\$\{?(\w+)\}?/g, (all, name) => String(vars[name]?.value ?? all)),
};

const runtime = {
  DataSourceWithBackend,
  getTemplateSrv: () => templates,
  isFetchError: () => false,
  config: { featureToggles: {}, publicDashboardAccessToken: "" },
};

const draws = /^(react|@grafana\/(ui|i18n|plugin-ui|assistant|e2e-selectors)|@emotion|@floating-ui|@hello-pangea|monaco)/;
Module._load = function (name, ...rest) {
  if (name === "@grafana/runtime") return new Proxy(runtime, { get: (of, key) => of[key] ?? nothing });
  return draws.test(name) ? empty : real.call(this, name, ...rest);
};

const { PrometheusDatasource } = home("@grafana/prometheus");
const { dateTime } = home("@grafana/data");
const version = require(path.join(path.dirname(home.resolve("@grafana/prometheus")), "../../package.json")).version;

const from = dateTime(Date.UTC(2025, 9, 1, 12, 0, 7));
const to = dateTime(Date.UTC(2025, 9, 1, 13, 0, 7));
const range = { from, to, raw: { from, to } };
const sourceOf = (jsonData) =>
  new PrometheusDatasource({ id: 1, uid: "u", name: "p", type: "prometheus", access: "proxy", url: "/", jsonData }, templates);

async function main() {
  const out = [];
  async function note(what, act, jsonData = {}, given = {}) {
    recorded = [];
    answers = given;
    await act(sourceOf(jsonData));
    for (const r of recorded) out.push({ what, ...r });
  }
  const vector = { "api/v1/query": { status: "success", data: { resultType: "vector", result: [] } } };
  const old = { prometheusType: "Prometheus", prometheusVersion: "2.20.0" }; // asks series, not labels
  const ask = (query) => (source) => source.metricFindQuery(query, { range });
  const filters = [{ key: "run", operator: "=|", value: "r1", values: ["r1", "r2"] }];
  const queries = [{ refId: "A", expr: "rate(train_loss[5m])" }];

  await note("a page opens", (s) => s.languageProvider.start(range));
  await note("a page opens, GET", (s) => s.languageProvider.start(range), { httpMethod: "GET" });
  await note("a page opens, old server", (s) => s.languageProvider.start(range), old);
  await note("query builder: labels of a metric", (s) => s.languageProvider.queryLabelKeys(range, "train_loss"));
  await note("query builder: values of a label", (s) => s.languageProvider.queryLabelValues(range, "run", '{__name__="train_loss"}'));
  await note("query builder: values, old server", (s) => s.languageProvider.queryLabelValues(range, "run", 'train_loss{scale="ML_STEP"}'), old);
  await note("query builder: a label with a dot", (s) => s.languageProvider.queryLabelValues(range, "a.b"));
  await note("query builder: at most 2 values", (s) => s.languageProvider.queryLabelValues(range, "run", undefined, 2));
  await note("variable label_names()", ask("label_names()"));
  await note("variable label_names(metric)", ask("label_names(train_loss)"));
  await note("variable label_values(label)", ask("label_values(run)"));
  await note("variable label_values(metric, label)", ask('label_values(train_loss{scale="ML_STEP"}, run)'));
  await note("variable metrics(pattern)", ask("metrics(train.*)"));
  await note("variable query_result", ask("query_result(max_over_time(train_loss[$__range]))"), {}, vector);
  await note("variable of series", ask('train_loss{run="r1"}'));
  await note("filter: keys", (s) => s.getTagKeys({ timeRange: range, queries, filters }));
  await note("filter: values", (s) => s.getTagValues({ key: "run", timeRange: range, queries, filters: [] }));
  const panel = (target) => (source) => {
    const scopedVars = { ...source.getIntervalVars(), ...source.getRangeScopedVars(range) };
    const request = { targets: [{ refId: "A", ...target }], range, rangeRaw: range.raw, timezone: "utc", panelId: 1, scopedVars, interval: "15s" };
    return source.query(request).toPromise?.();
  };
  await note("panel over time", panel({ expr: "avg by (run) (train_loss)", range: true, instant: false }));
  await note("panel of one time", panel({ expr: "max_over_time(train_loss[$__range])", range: false, instant: true }));
  await note("explore: both", panel({ expr: 'train_loss{run=~"r1|r2"}', range: true, instant: true }));
  await note("feature checks", (s) => s.init().catch(() => {}));
  return { package: "@grafana/prometheus", version, from: from.valueOf() / 1000, to: to.valueOf() / 1000, requests: out };
}

main().then(
  (all) => console.log(JSON.stringify(all, null, 1)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
