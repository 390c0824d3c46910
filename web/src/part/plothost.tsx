import { useLayoutEffect, useRef } from "preact/hooks";
import { type Gestures, Plot } from "../chart/plot.ts";
import type { Scene } from "../chart/scene.ts";
import { later } from "../state/turn.ts";

interface Props {
  width: number;
  height: number;
  scene: Scene;
  gestures: Gestures;
  onPlot?: (plot: Plot | null) => void;
}

/** PlotHost keeps one Plot in its element and shows it each new scene. */
export function PlotHost({ width, height, scene, gestures, onPlot }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const now = useRef({ width, height, scene, gestures, onPlot });
  now.current = { width, height, scene, gestures, onPlot };

  useLayoutEffect(() => {
    const cancel = later(() => {
      const at = now.current;
      plot.current = new Plot(host.current!, at.width, at.height, at.scene, forward(now));
      at.onPlot?.(plot.current);
    });
    return () => {
      cancel();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [scene.axis.key]);

  useLayoutEffect(() => plot.current?.resize(width, height), [width, height]);
  useLayoutEffect(
    () => plot.current?.show(scene),
    [
      ...[
        scene.layers,
        scene.density,
        scene.star,
        scene.lines,
        scene.x[0],
        scene.x[1],
        scene.y,
        scene.log,
        scene.palette,
        scene.front,
      ],
      scene.lines.map((l) => l.id).join(),
      scene.version,
    ],
  );
  return <div class="plot" ref={host} />;
}

/** The plot lives longer than the closures of one render. */
function forward(now: { current: { gestures: Gestures } }): Gestures {
  return {
    zoom: (from, to) => now.current.gestures.zoom(from, to),
    reset: () => now.current.gestures.reset(),
    needle: (needle) => now.current.gestures.needle(needle),
    hover: (at) => now.current.gestures.hover(at),
  };
}
