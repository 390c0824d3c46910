import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Rendering, renderings, videoSource } from "../api/media.ts";
import { count, duration } from "../chart/number.ts";
import { natural } from "../chart/title.ts";
import { param, setParams } from "../state/route.ts";

/** How often a live run's list is read, in ms: ticks come several times a second, videos do not. */
const every = 3000;

/** Videos lists the renderings of a run by environment and episode, and plays the one that the address names. */
export function Videos({ run, tick, empty }: { run: string; tick: number; empty: ComponentChildren }) {
  const list = useSignal<Rendering[] | null>(null);
  const next = useSignal("");
  const failure = useSignal("");
  const env = param("env");
  // One chosen environment's list does not name the others.
  const known = useMemo(() => new Set<string>(), [run]);
  const reading = useRef({ pages: 1, again: 0, tick, abort: new AbortController() });
  const read = async () => {
    const { pages, abort } = reading.current;
    reading.current.again = Date.now() + every;
    try {
      const found: Rendering[] = [];
      let cursor = "";
      for (let n = 0; n < pages && (n === 0 || cursor); n++) {
        const page = await renderings(run, env, cursor, abort.signal);
        found.push(...page.items);
        cursor = page.next;
      }
      if (abort.signal.aborted || pages !== reading.current.pages) return;
      list.value = found;
      next.value = cursor;
      failure.value = "";
    } catch (error) {
      if (!abort.signal.aborted) failure.value = (error as Error).message;
    }
  };
  useEffect(() => {
    const abort = new AbortController();
    Object.assign(reading.current, { pages: 1, abort });
    read();
    return () => abort.abort();
  }, [run, env]);
  useEffect(() => {
    if (tick === reading.current.tick) return;
    const timer = setTimeout(() => {
      reading.current.tick = tick;
      read();
    }, reading.current.again - Date.now());
    return () => clearTimeout(timer);
  }, [run, env, tick]);
  if (failure.value) return <p class="muted">{failure.value}</p>;
  if (!list.value) return null;
  if (list.value.length === 0 && !env) return empty;
  for (const name of [...list.value.map((r) => r.env_id), env]) if (name) known.add(name);
  const envs = [...known].sort(natural);
  const playing = list.value.find((r) => r.id === param("video")) ?? list.value.find((r) => r.stored);
  return (
    <section class="media-section" aria-label="Renderings">
      <h2>
        Renderings{" "}
        <span class="muted">
          {count(list.value.length)}
          {next.value && " and more"}
        </span>
        {(envs.length > 1 || env) && (
          <select
            class="pick"
            aria-label="Environment"
            value={env}
            onChange={(e) => setParams({ env: e.currentTarget.value, video: "" })}
          >
            <option value="">all environments</option>
            {envs.map((e) => (
              <option value={e} key={e}>
                {e}
              </option>
            ))}
          </select>
        )}
      </h2>
      <div class="videos">
        {playing && <Player video={playing} key={playing.id} />}
        <div class="video-list">
          <table class="plain">
            <thead>
              <tr>
                {["environment", "episode", "rl step", "length", "size", "notes"].map((h) => (
                  <th key={h}>{h}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {list.value.map((r) => (
                <tr key={r.id} aria-selected={r.id === playing?.id}>
                  <td>{r.env_id}</td>
                  <td class="number">
                    {r.stored ? (
                      <button type="button" class="link" onClick={() => setParams({ video: r.id })}>
                        {r.episode} {r.name}
                      </button>
                    ) : (
                      `${r.episode} ${r.name ?? ""}`
                    )}
                  </td>
                  <td class="number">{steps(r)}</td>
                  <td class="number">{r.fps ? duration((r.frames / r.fps) * 1000) : "–"}</td>
                  <td class="number">{r.width ? `${r.width} × ${r.height}` : "–"}</td>
                  <td>
                    {note(r)}
                    {r.tags.map((t) => (
                      <span class="tag" key={t}>
                        {t}
                      </span>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {next.value && (
            <button
              type="button"
              class="button"
              onClick={() => {
                reading.current.pages++;
                read();
              }}
            >
              more
            </button>
          )}
        </div>
      </div>
    </section>
  );
}

function steps(r: Rendering): string {
  return r.first_rl_step === r.last_rl_step ? `${r.first_rl_step}` : `${r.first_rl_step}–${r.last_rl_step}`;
}

/** What a reader must know of a video that is not as it should be. */
function note(r: Rendering): string {
  if (!r.sha256) return "✕ lost ";
  if (!r.stored) return "on its way ";
  const dropped = r.frames_dropped ? `${count(r.frames_dropped)} frames dropped ` : "";
  return r.complete ? dropped : `cut short ${dropped}`;
}

/** Plays a video; at is a part of it, from 0 to 1, to go to. */
export function Player({ video, at }: { video: Rendering; at?: number }) {
  const source = useSignal("");
  const failure = useSignal("");
  const element = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    if (!video.url) return;
    const abort = new AbortController();
    videoSource(video.url, abort.signal).then(
      (url) => {
        source.value = url;
      },
      (error) => {
        if (!abort.signal.aborted) failure.value = (error as Error).message;
      },
    );
    return () => {
      abort.abort();
      if (source.peek().startsWith("blob:")) URL.revokeObjectURL(source.peek());
    };
  }, [video.url]);
  const frame = (n: number) => {
    const el = element.current;
    if (el && video.fps) el.currentTime = (n + 0.5) / video.fps;
  };
  useEffect(() => {
    if (at !== undefined && source.value) frame(Math.floor(at * (video.frames - 1)));
  }, [at, source.value]);
  return (
    <figure class="player">
      {source.value && (
        // biome-ignore lint/a11y/useMediaCaption: frames of an environment have no sound
        <video
          ref={element}
          src={source.value}
          controls
          loop
          preload="metadata"
          width={video.width}
          height={video.height}
        />
      )}
      {failure.value && <p role="alert">{failure.value}</p>}
      <figcaption>
        {video.env_id}, episode {video.episode} {video.name} · {count(video.frames)} frames, {video.fps} a
        second
        {video.marks.map((m) => (
          <button
            type="button"
            class="link"
            key={`${m.name} ${m.from_frame}`}
            onClick={() => frame(m.from_frame)}
          >
            {m.name} @ {m.from_frame}
          </button>
        ))}
      </figcaption>
    </figure>
  );
}
