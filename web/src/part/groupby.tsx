import { setParams } from "../state/route.ts";
import type { Show } from "../state/tablerows.ts";

interface Props {
  by: readonly string[];
  keys: readonly string[];
  show: Show;
  setBy: (by: string[]) => void;
}

/** GroupBy chooses what the rows are grouped by, and which statistic their rows show. */
export function GroupBy({ by, keys, show, setBy }: Props) {
  const choice = (at: number, label: string, none: string) => {
    const all = ["status", "tag", ...keys].filter((k) => k === by[at] || !by.includes(k));
    return (
      <select
        class="pick"
        aria-label={label}
        value={by[at] ?? ""}
        onChange={(e) => setBy([...by.slice(0, at), e.currentTarget.value].filter(Boolean))}
      >
        <option value="">{none}</option>
        {[...(by[at] && !all.includes(by[at]) ? [by[at]] : []), ...all].map((k) => (
          <option key={k} value={k}>
            {at === 0 ? "by " : "and "}
            {k.replace(/^config\//, "")}
          </option>
        ))}
      </select>
    );
  };
  return (
    <>
      {choice(0, "Group by", "not grouped")}
      {by.length > 0 && choice(1, "Group by a second key", "and …")}
      {by.length > 0 && (
        <select
          class="pick"
          aria-label="Statistic of groups"
          value={show}
          onChange={(e) => setParams({ stat: e.currentTarget.value === "mean" ? "" : e.currentTarget.value })}
        >
          <option value="mean">mean ± std</option>
          <option value="min">min</option>
          <option value="max">max</option>
        </select>
      )}
    </>
  );
}
