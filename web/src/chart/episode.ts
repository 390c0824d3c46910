import type { Rendering } from "../api/media.ts";

/** Where the crosshair is in a run: the episode, and the update where the axis tells. */
export interface Moment {
  episode: number;
  rlStep?: number;
}

/** The video of an episode, or of the one nearest to it; of equally near ones the earlier. */
export function nearest(videos: Rendering[], episode: number): Rendering | undefined {
  const far = (r: Rendering) => Math.abs(r.episode - episode);
  return videos.reduce<Rendering | undefined>(
    (best, r) => (best && far(best) <= far(r) ? best : r),
    undefined,
  );
}

/** How far into a video an update is; from its start where only the episode is known. */
export function shareOf(video: Rendering, { episode, rlStep }: Moment): number {
  const steps = video.last_rl_step - video.first_rl_step + 1;
  if (rlStep === undefined || video.episode !== episode || steps <= 1) return 0;
  return Math.min(1, Math.max(0, (rlStep - video.first_rl_step) / steps));
}
