/** Which way a metric is better; undefined where its name does not say. */
export type Direction = "up" | "down";

// As server/internal/catalog/filter/metric.go has them: testdata/directions.json holds for both.
const down = told(
  "loss losses nll error err perplexity ppl mse mae rmse wer cer fid bpb bpc kl regret latency brier ece",
  "loss error",
);
const up = told(
  "acc accuracy return returns reward rewards score f1 auc auroc precision recall bleu rouge iou map ndcg psnr ssim " +
    "success winrate win_rate elo pass mfu throughput tokens_per_sec r2",
  "accuracy reward return score",
);

/** Names that have one of the words, no letters beside it, or end in one of the others. */
function told(words: string, ends: string): RegExp {
  const any = (list: string) => list.replaceAll(" ", "|");
  return new RegExp(`(?<![a-z])(${any(words)})(?![a-z])|(${any(ends)})$`, "i");
}

/** The direction by a metric's name, which a reader can change. */
export function guess(metric: string): Direction | undefined {
  if (down.test(metric)) return "down";
  return up.test(metric) ? "up" : undefined;
}

/** The place of the best value, −1 when there is none; values that are not finite are never the best. */
export function bestOf(values: readonly number[], direction: Direction): number {
  const sign = direction === "up" ? 1 : -1;
  let best = -1;
  values.forEach((v, i) => {
    if (Number.isFinite(v) && (best < 0 || sign * v > sign * values[best]!)) best = i;
  });
  return best;
}

const telling = /(^|[/_])(acc|accuracy|return|reward|score|f1|loss)/i;

/** Metrics by how likely somebody compares runs by them: evaluations first, then what has a direction. */
export function objectives(metrics: Iterable<string>): string[] {
  const rank = (name: string) =>
    (telling.test(name) ? 0 : 4) +
    (/(^|[/_])(eval|val|valid|test)/i.test(name) ? 0 : 2) +
    (guess(name) ? 0 : 1);
  return [...metrics].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
