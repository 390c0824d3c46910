import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { gradient } from "../chart/heat.ts";
import { count, short } from "../chart/number.ts";
import type { Clipped } from "../chart/raster.ts";
import { isDark } from "../state/theme.ts";

interface Props {
  limits: [number, number];
  /** The limits are the reader's and not those of what is in view. */
  chosen: boolean;
  clipped: Clipped;
  onPick: (limits: [number, number] | null) => void;
  /** While a handle moves the colours follow at once. */
  onDrag: (limits: [number, number] | null) => void;
}

const width = 200;
const height = 12;
const margin = 0.25; // of the scale beyond its limits, to widen them
const steps = 64;

/** The scale of colours with a handle at both limits. */
export function HeatLegend({ limits, chosen, clipped, onPick, onDrag }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const held = useSignal<{ domain: [number, number]; limits: [number, number] } | null>(null);
  const shown = held.value?.limits ?? limits;
  const domain = held.value?.domain ?? domainOf(limits);
  const dark = isDark.value;
  const place = (v: number) => ((v / 2 - domain[0] / 2) / (domain[1] / 2 - domain[0] / 2)) * width;
  const [left, right] = [place(shown[0]), place(shown[1])];
  useEffect(() => {
    const el = canvas.current!;
    const ratio = devicePixelRatio;
    [el.width, el.height] = [width * ratio, height * ratio];
    const ctx = el.getContext("2d")!;
    const fill = ctx.createLinearGradient(left * ratio, 0, Math.max(left * ratio + 1, right * ratio), 0);
    const colors = gradient(shown, dark);
    colors.forEach((c, i) => {
      fill.addColorStop(i / (colors.length - 1), c);
    });
    ctx.fillStyle = fill;
    ctx.fillRect(0, 0, el.width, el.height);
  }, [left, right, shown[0], shown[1], dark]);

  const moved = (end: 0 | 1, value: number, from: [number, number]): [number, number] =>
    end === 0 ? [Math.min(value, from[1]), from[1]] : [from[0], Math.max(value, from[0])];
  const drag = (end: 0 | 1, e: PointerEvent) => {
    const target = e.currentTarget as HTMLElement;
    const box = canvas.current!.getBoundingClientRect();
    const fixed = domainOf(limits);
    target.setPointerCapture(e.pointerId);
    const at = (m: PointerEvent) => {
      const share = (m.clientX - box.left) / width;
      return moved(end, fixed[0] * (1 - share) + fixed[1] * share, limits);
    };
    const move = (m: PointerEvent) => {
      held.value = { domain: fixed, limits: at(m) };
      onDrag(at(m));
    };
    const stop = (m: PointerEvent) => {
      target.removeEventListener("pointermove", move);
      held.value = null;
      if (m.type === "pointerup" && m.clientX !== e.clientX) onPick(at(m));
      else onDrag(null);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", stop, { once: true });
    target.addEventListener("pointercancel", stop, { once: true });
  };
  const key = (end: 0 | 1, e: KeyboardEvent) => {
    const size = (domain[1] - domain[0]) / steps || 1 / steps;
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -8, PageUp: 8 }[e.key];
    if (by === undefined && e.key !== "Home") return;
    e.preventDefault();
    e.stopPropagation();
    onPick(by === undefined ? null : moved(end, limits[end] + by * size, limits));
  };
  return (
    <div class="ky-legend">
      <span class="ky-limit">{short(tidy(shown[0]))}</span>
      <div class="ky-scale" style={{ width: `${width}px` }}>
        <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} />
        {([0, 1] as const).map((end) => (
          <div
            key={end}
            class="ky-handle"
            role="slider"
            tabIndex={0}
            aria-label={end ? "Upper limit of the colours" : "Lower limit of the colours"}
            aria-valuemin={plain(domain[0])}
            aria-valuemax={plain(domain[1])}
            aria-valuenow={plain(shown[end])}
            aria-valuetext={short(tidy(shown[end]))}
            title="Drag, or move with the arrow keys; Home: 1 to 99 % of what is in view"
            style={{ transform: `translateX(${end ? right : left}px)` }}
            onPointerDown={(e) => drag(end, e)}
            onKeyDown={(e) => key(end, e)}
          >
            <span aria-hidden="true">{end ? "◂" : "▸"}</span>
          </div>
        ))}
      </div>
      <span class="ky-limit">{short(tidy(shown[1]))}</span>
      {chosen ? (
        <button type="button" class="link" onClick={() => onPick(null)}>
          1–99 %
        </button>
      ) : (
        <span class="muted" title="The limits are 1 and 99 % of the values in view">
          1–99 %
        </span>
      )}
      <Beyond clipped={clipped} />
    </div>
  );
}

/** Cells that the colours do not tell apart are counted. */
export function Beyond({ clipped: { below, above, nan } }: { clipped: Clipped }) {
  const parts = [
    below ? `◣ ${count(below)} below` : "",
    above ? `◥ ${count(above)} above` : "",
    nan ? `▨ ${count(nan)} NaN` : "",
  ].filter(Boolean);
  if (parts.length === 0) return null;
  return (
    <span class="muted" title="Cells in sight: beyond the limits, and with a NaN">
      {parts.join(" · ")}
    </span>
  );
}

/** A number as an attribute: its text without an exponent, which the value of a slider may not have. */
const plain = (v: number): number =>
  v.toLocaleString("en", { useGrouping: false, maximumSignificantDigits: 17 }) as unknown as number;

const tidy = (v: number): number => Number(v.toPrecision(4));

function domainOf([lo, hi]: [number, number]): [number, number] {
  const span = hi / 2 - lo / 2 || Math.abs(hi) / 4 || 0.5;
  const most = Number.MAX_VALUE / 2;
  return [Math.max(-most, lo - span * 2 * margin), Math.min(most, hi + span * 2 * margin)];
}
