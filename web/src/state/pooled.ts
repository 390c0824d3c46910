import { kymograph, mostColumns } from "../api/kymograph.ts";
import type { BucketQuery, BucketResult } from "../api/types.ts";
import { rowOf } from "./kymograph.ts";
import type { Member } from "./session.ts";
import { Pool } from "./turn.ts";

const mostKept = 64; // answers of some hundred kilobytes
const atOnce = 2; // each reads thousands of series

const kept = new Map<string, Promise<BucketResult>>();
const pool = new Pool(atOnce);

/** The buckets of many series as one: the mean of their means, and from the smallest to the largest of their points. */
export function pooled(rows: Member[], query: BucketQuery, version: number): Promise<BucketResult> {
  const key = `${version} ${rows.length} ${JSON.stringify(query)}`;
  const known = kept.get(key);
  if (known) return known;
  const answer = pool.run(() => read(rows, query));
  kept.set(key, answer);
  if (kept.size > mostKept) kept.delete(kept.keys().next().value!);
  answer.catch(() => kept.delete(key)); // asked again
  return answer;
}

async function read(
  rows: Member[],
  { x, n, from, to, include_inherited }: BucketQuery,
): Promise<BucketResult> {
  const picture = await kymograph({
    ...{ rows: rows.map(rowOf), x, columns: Math.min(n, mostColumns), reduce: "mean" as const },
    ...{ cells: false as const, fit: true as const },
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(include_inherited && { include_inherited }),
  });
  return { x, columns: picture.profile };
}
