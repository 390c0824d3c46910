import { useMemo } from "preact/hooks";
import { patternOf } from "../chart/pattern.ts";
import { natural } from "../chart/title.ts";
import { param, setParams } from "../state/route.ts";
import { type Session, seriesKey } from "../state/session.ts";
import { DocumentCard } from "./documents.tsx";
import { Message } from "./message.tsx";
import { Videos } from "./videos.tsx";

const most = 40; // cards at once; the search finds the others

const nothing = (
  <Message>
    Histograms, scatters and videos are shown here: <code>log_histogram</code>, <code>log_scatter</code>,{" "}
    <code>log_rendering</code>.
  </Message>
);

/** MediaView shows what is no curve: videos, histograms and scatters. */
export function MediaView({ session, id }: { session: Session; id: string }) {
  const all = session.documents(id);
  const tick = session.tick(id);
  const pattern = patternOf(param("media"));
  const found = useMemo(
    () =>
      all
        .filter((s) => !pattern.ok || pattern.test(s.metric))
        .sort((a, b) => natural(seriesKey(a), seriesKey(b))),
    [all.length, param("media")],
  );
  return (
    <div class="scroll pad media">
      <Videos run={id} tick={tick} empty={all.length === 0 && session.complete() && nothing} />
      {all.length > 0 && (
        <div class="bar">
          <input
            class="search"
            type="search"
            placeholder="Search histograms and scatters"
            aria-label="Search histograms and scatters"
            value={param("media")}
            onInput={(e) => setParams({ media: e.currentTarget.value })}
          />
          {found.length > most && (
            <span class="muted">
              the first {most} of {found.length}
            </span>
          )}
        </div>
      )}
      <div class="documents">
        {found.slice(0, most).map((s) => (
          <DocumentCard run={id} series={s} tick={tick} key={seriesKey(s)} />
        ))}
      </div>
    </div>
  );
}
