import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** The width of an element, 0 until it is known. */
export function useWidth(host: RefObject<HTMLElement | null>): number {
  const width = useSignal(0);
  useLayoutEffect(() => {
    const el = host.current;
    if (!el) return;
    const observer = new ResizeObserver(() => {
      width.value = el.clientWidth;
    });
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  return width.value;
}
