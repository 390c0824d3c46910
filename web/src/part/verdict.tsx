import type { Verdict } from "../api/network.ts";
import { ink, shapes, words } from "../chart/matrix.ts";
import { isDark } from "../state/theme.ts";

/** A verdict's shape; its word is beside it, or in its label. A node without a record has none. */
export function Mark({ verdict, size = 12 }: { verdict: Verdict | ""; size?: number }) {
  if (!verdict) return <svg class="verdict-mark" width={size} height={size} aria-hidden="true" />;
  const shape = shapes[verdict];
  const color = ink(verdict, isDark.value);
  return (
    <svg class="verdict-mark" width={size} height={size} viewBox="0 0 12 12" aria-hidden="true">
      <path
        d={shape.path}
        fill={shape.fill ? color : "none"}
        stroke={shape.fill ? "none" : color}
        stroke-width="1.6"
      />
    </svg>
  );
}

/** A verdict as shape and word. */
export function VerdictText({ verdict }: { verdict: Verdict | "" }) {
  return (
    <span class="verdict">
      <Mark verdict={verdict} />
      {words[verdict]}
    </span>
  );
}
