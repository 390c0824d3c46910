import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { csv } from "../api/table.ts";
import { count } from "../chart/number.ts";
import { say } from "../state/app.ts";
import { type Column, fileColumns } from "../state/columns.ts";
import { type ListQuery, serverQuery } from "../state/runlist.ts";

interface Props {
  workspace: string;
  project: string;
  query: ListQuery;
  columns: readonly Column[];
  total: number;
}

/** CsvButton writes all runs of the filter to a file, also those that are not read. */
export function CsvButton({ workspace, project, query, columns, total }: Props) {
  const lines = useSignal<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const save = async () => {
    const stop = new AbortController();
    abort.current = stop;
    lines.value = 0;
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    try {
      await csv(
        ...([workspace, project, serverQuery(query), fileColumns(columns)] as const),
        (piece) => {
          pieces.push(piece);
          let n = 0;
          for (const byte of piece) if (byte === 10) n++;
          lines.value = (lines.value ?? 0) + n;
        },
        stop.signal,
      );
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(pieces, { type: "text/csv" }));
      link.download = `${project}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      say(`${count(Math.max(0, lines.value - 1))} lines written to ${project}.csv`);
    } catch (cause) {
      if (!stop.signal.aborted) say(`CSV: ${(cause as Error).message}`, true);
    }
    if (abort.current === stop) lines.value = null;
  };
  if (lines.value === null)
    return (
      <button
        type="button"
        class="button"
        onClick={() => void save()}
        title="Write all runs that match to a CSV file"
      >
        CSV
      </button>
    );
  return (
    <span class="csv" role="status">
      <progress value={lines.value} max={Math.max(total, 1)} aria-label="Runs written" />
      <span class="muted">{count(lines.value)} lines</span>
      <button
        type="button"
        class="button"
        onClick={() => {
          abort.current?.abort();
          lines.value = null;
        }}
      >
        cancel
      </button>
    </span>
  );
}
