import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { points, type Rendering, renderings } from "../api/media.ts";
import type { Num } from "../api/types.ts";
import { type Moment, nearest, shareOf } from "../chart/episode.ts";
import { count } from "../chart/number.ts";
import { type Card, cardKey, type Member, type Session } from "../state/session.ts";
import { ChartCard } from "./chartcard.tsx";
import { Icon } from "./icon.tsx";
import { useWidth } from "./usesize.ts";
import { Player } from "./videos.tsx";

interface Props {
  session: Session;
  member: Member;
  name: string;
  /** The stored axis, and the x on it under the crosshair. */
  axis: string;
  x: Signal<number | null>;
  runs: Map<string, number>;
  close: () => void;
}

const height = 220;
const playerWidth = 260;

/** The curve of one row, and in RL the video of the episode under the crosshair. */
export function KymographRow({ session, member, name, axis, x, runs, close }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const { metric, scale, labels } = member.series;
  const card = useMemo<Card>(
    () => ({ key: `row ${cardKey(member.series)}`, metric, scale, group: "", members: [member] }),
    [member],
  );
  const own = useMemo(() => new Map([[member.run, runs.get(member.run) ?? 0]]), [member.run, runs]);
  const env = labels.env_id;
  const videos = useRenderings(member.run, env, session.tick(member.run));
  const beside = videos.length > 0 && width > 560;
  return (
    <section class="ky-row" aria-label={`Curve of ${name}`}>
      <header class="ky-row-head">
        <h2 class="cut" title={name}>
          {name}
        </h2>
        <button
          type="button"
          class="ghost right"
          onClick={close}
          aria-label="Close the curve"
          title="Close (Esc)"
        >
          <Icon name="close" />
        </button>
      </header>
      <div class={`ky-row-body${beside ? " beside" : ""}`} ref={host}>
        {width > 0 && (
          <ChartCard
            key={`${member.run} ${name}`}
            session={session}
            card={card}
            width={beside ? width - playerWidth - 8 : width}
            height={height}
            runs={own}
            big
          />
        )}
        {videos.length > 0 && <Episode member={member} videos={videos} axis={axis} x={x} />}
      </div>
    </section>
  );
}

/** The videos of an environment, all of them; read again when the run moves, every few seconds. */
function useRenderings(run: string, env: string | undefined, tick: number): Rendering[] {
  const list = useSignal<{ of: string; items: Rendering[] }>({ of: "", items: [] });
  const of = `${run} ${env}`;
  const again = Math.floor(tick / 16);
  useEffect(() => {
    if (env === undefined) return;
    const abort = new AbortController();
    const read = async () => {
      const items: Rendering[] = [];
      let cursor = "";
      do {
        const page = await renderings(run, env, cursor, abort.signal);
        items.push(...page.items.filter((r) => r.stored));
        cursor = page.next;
      } while (cursor);
      list.value = { of, items };
    };
    read().catch(() => {}); // without its videos a row still has its curve
    return () => abort.abort();
  }, [of, again]);
  return list.value.of === of ? list.value.items : [];
}

const settleMs = 120; // a crosshair that only flies by plays nothing

function Episode({
  member,
  videos,
  axis,
  x,
}: {
  member: Member;
  videos: Rendering[];
  axis: string;
  x: Props["x"];
}) {
  const moment = useSignal<Moment | null>(null);
  const at = x.value;
  useEffect(() => {
    if (at === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      momentOf(member, axis, at, abort.signal).then(
        (found) => {
          if (found) moment.value = found;
        },
        () => {}, // the last episode stays
      );
    }, settleMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [at, axis, member]);
  const now = moment.value;
  const video = now && nearest(videos, now.episode);
  if (!now || !video)
    return (
      <p class="ky-video muted">
        {count(videos.length)} {videos.length === 1 ? "episode has" : "episodes have"} a video: point at one.
      </p>
    );
  return (
    <div class="ky-video">
      {video.episode !== now.episode && (
        <p class="muted">
          Episode {count(now.episode)} has no video; the nearest with one is {count(video.episode)}.
        </p>
      )}
      <Player video={video} key={video.id} at={shareOf(video, now)} />
    </div>
  );
}

async function momentOf(member: Member, axis: string, x: number, abort: AbortSignal): Promise<Moment | null> {
  if (axis === "episode") return { episode: x };
  const one = { axis, from: String(x), limit: "1" };
  const columns = await points<Record<string, (Num | null)[]>>(member.run, member.series, one, abort);
  const episode = columns.episode?.[0];
  if (episode === undefined || episode === null) return null;
  const step = axis === "rl_step" ? x : columns.rl_step?.[0];
  return { episode: Number(episode), ...(step !== undefined && step !== null && { rlStep: Number(step) }) };
}
