import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Message } from "./message.tsx";

/** Loads a page's code when it is first shown, so that the others do not carry it. */
export function Lazy<P extends object>({ load, props }: { load: () => Promise<ComponentType<P>>; props: P }) {
  const page = useSignal<{ view: ComponentType<P> } | null>(null);
  const failed = useSignal(false);
  useEffect(() => {
    load().then(
      (view) => {
        page.value = { view };
      },
      () => {
        failed.value = true;
      },
    );
  }, []);
  if (failed.value)
    return (
      <Message>
        The page's code did not arrive.{" "}
        <button type="button" class="link" onClick={() => location.reload()}>
          Try again
        </button>
      </Message>
    );
  const View = page.value?.view;
  return View ? <View {...props} /> : null;
}
