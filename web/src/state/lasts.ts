import type { Series, Summary } from "../api/types.ts";

const evaluation = " (evaluation)";

const isEvaluation = (s: Series): boolean => s.labels.evaluation === "true";

/** Without labels, of the default environment, or logged with evaluation=True. */
function isPlain(s: Series): boolean {
  const names = Object.keys(s.labels);
  return names.length === 0 || (names.length === 1 && (s.labels.env_id === "default" || isEvaluation(s)));
}

/**
 * The last values of a run by metric, from its list of series: what a list of runs calls its summary. ML_STEP stands for
 * a metric of several scales.
 */
export function lastsOf(list: readonly Series[]): Record<string, Summary> {
  const plain = list.filter((s) => isPlain(s) && s.last && (s.kind === "float64" || s.kind === "int64"));
  const trained = new Set(list.filter((s) => isPlain(s) && !isEvaluation(s)).map((s) => s.metric));
  const out = new Map<string, Summary>();
  for (const s of plain) {
    const name = isEvaluation(s) && trained.has(s.metric) ? s.metric + evaluation : s.metric;
    if (!out.has(name) || s.scale === "ML_STEP") out.set(name, { value: s.last!.value as Summary["value"] });
  }
  return Object.fromEntries(out);
}
