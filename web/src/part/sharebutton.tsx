import { say } from "../state/app.ts";
import { Icon } from "./icon.tsx";

/** ShareButton copies the address of what is shown. */
export function ShareButton() {
  return (
    <button
      type="button"
      class="button icon-button"
      onClick={share}
      title="Copy the link to this view"
      aria-label="Copy the link to this view"
    >
      <Icon name="share" />
    </button>
  );
}

async function share(): Promise<void> {
  await navigator.clipboard?.writeText(location.href).then(
    () => say("link copied"),
    () => say("the browser did not allow copying; the address bar has the link", true),
  );
}
