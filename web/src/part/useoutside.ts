import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

const leaving = ["pointerdown", "focusin"];

/** Closes what is open when somebody presses or goes to something outside of its host. */
export function useOutside(host: RefObject<Element | null>, open: boolean, close: () => void): void {
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event) => {
      if (!host.current?.contains(e.target as Node)) close();
    };
    for (const type of leaving) document.addEventListener(type, outside);
    return () => {
      for (const type of leaving) document.removeEventListener(type, outside);
    };
  }, [open]);
}
