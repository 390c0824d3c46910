/** The documents of api/http.md as the page reads them. */

/** A number that JSON may not hold: NaN, Infinity and int64 beyond 2^53 come as strings. */
export type Num = number | string;

export interface Project {
  workspace: string;
  project: string;
  runs: number;
  last_ns: number;
}

export type Status = "running" | "finished" | "failed" | "interrupted" | "lost" | "silent";

export type Value = string | number | boolean | null | string[];

export interface Summary {
  step?: Num;
  time_ns?: Num;
  value: Num;
  /** The least and the greatest finite value of a run's metric. */
  min?: Num;
  max?: Num;
}

export interface Run {
  id: string;
  workspace: string;
  project: string;
  name: string;
  display_name: string;
  status: Status;
  tags: string[];
  description: string;
  created_ns: number;
  last_ns: number;
  attempt: number;
  duration_ms: number;
  config: Record<string, Value>;
  summary: Record<string, Summary>;
  /** There may be more of them. */
  config_cut?: boolean;
  summary_cut?: boolean;
  /** Of the columns that a list asks for. */
  values?: Record<string, Value>;
}

export interface Attempt {
  number: number;
  precedence: number;
  opened_ns: number;
  resume_from_step?: Num | null;
}

export interface Writer {
  id: string;
  attempt: number;
  state: "open" | "finished" | "failed" | "interrupted" | "gone";
  signal?: string;
  host: string;
  pid: number;
  rank?: number | null;
  hotkey?: string;
  sdk?: string;
  opened_ns: number;
  seen_ns: number;
}

export interface Skipped {
  first: Num;
  last: Num;
  reason: string;
  /** Points that were in the range, when known. */
  points?: number;
}

export interface Ledger {
  logged: number;
  stored: number;
  superseded: number;
  refused: number;
  dropped: number;
  /** null: a running writer's client does not say. */
  spooled: number | null;
  skipped: Skipped[];
  damaged: Damaged[];
}

/** Stored points that cannot be read any more. */
export interface Damaged {
  file: string;
  points: number;
  min_time_ns: number;
  max_time_ns: number;
}

/** A run that this one goes on from, or that was forked from it. */
export interface Relative {
  id: string;
  name: string;
  display_name: string;
}

export interface Lineage {
  /** Nearest first; up_to is the last step that is inherited, null for everything. */
  ancestors: (Relative & { up_to: Num | null })[];
  /** The ancestor that cannot be read. */
  broken: { name: string; code: string } | null;
  forks: (Relative & { fork_step: Num | null })[];
}

/** An RL environment that two writers logged at the same time. */
export interface SharedEnvironment {
  env_id: string;
  time_ns: number;
  writers: [string, string];
}

export interface EnvAttribute {
  env: string;
  episode: number | null;
  path: string;
  value: Value;
}

export interface RunDetail extends Run {
  attributes: Record<string, Value>;
  envAttributes: EnvAttribute[];
  attempts: Attempt[];
  writers: Writer[];
  ledger: Ledger;
  lineage: Lineage;
  shared: SharedEnvironment[];
  seriesCount: number;
}

export type Kind = "float64" | "int64" | "text" | "histogram" | "scatter";

type Column = (Num | null)[];

/** Buckets in columns; nan, pos_inf, neg_inf and inherited are left out when all are zero. */
export interface BucketColumns {
  lo: Num[];
  hi: Num[];
  min: Column;
  max: Column;
  mean: Column;
  count: Num[];
  nan?: Num[];
  pos_inf?: Num[];
  neg_inf?: Num[];
  /** Points that a fork's ancestors logged. */
  inherited?: Num[];
}

export interface Series {
  metric: string;
  scale: string;
  labels: Record<string, string>;
  kind: Kind;
  axes: string[];
  count: number;
  /** Points that later ones replaced; not of count. */
  superseded?: number;
  /** Of count, those of ancestors. */
  inherited?: number;
  last?: Summary | null;
  preview?: { x: string; columns: BucketColumns } | null;
}

export interface BucketQuery {
  run: string;
  metric: string;
  scale: string;
  labels: Record<string, string>;
  x: string;
  n: number;
  from?: number;
  to?: number;
  attempt?: number;
  include_inherited?: true;
}

export interface ErrorBody {
  code: string;
  message: string;
  hint: string;
  /** The place in a filter that is wrong, in characters from 1. */
  column?: number;
}

export type BucketResult = { x?: string; range?: [Num, Num]; columns: BucketColumns } | { error: ErrorBody };

export interface LiveEvent {
  run: string;
  points: number;
  series: number;
  last_ns: number;
  status: Status;
}
