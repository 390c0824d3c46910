import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, asApiError, locked, login, setKey } from "../api/client.ts";
import { Failure, Message } from "../part/message.tsx";
import { go } from "../state/route.ts";

/** LoginPage trades the one-time link's token, which never leaves the fragment, for the cookie. */
export function LoginPage() {
  const error = useSignal<ApiError | null>(null);
  useEffect(() => {
    const token = decodeURIComponent(location.hash.slice(1));
    if (!token) {
      locked.value = true;
      return;
    }
    // The link is good once; it has no place in the history.
    history.replaceState(null, "", "/login");
    login(token).then(
      () => {
        locked.value = false;
        go("/");
      },
      (cause) => {
        error.value = asApiError(cause);
      },
    );
  }, []);
  if (locked.value || error.value?.status === 401) return <KeyPrompt note={error.value?.message ?? ""} />;
  return (
    <div class="login">{error.value ? <Failure error={error.value} /> : <Message>Signing in…</Message>}</div>
  );
}

/** KeyPrompt asks for a key when the server wants one. */
export function KeyPrompt({ note }: { note?: string }) {
  const key = useSignal("");
  const ready = /^[0-9a-f]{40}$/.test(key.value.trim());
  const submit = (e: Event) => {
    e.preventDefault();
    if (!ready) return;
    setKey(key.value.trim());
    if (location.pathname === "/login") go("/");
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>
          <img src="/icon.svg" width="28" height="28" alt="" /> Kymogram
        </h1>
        {note && <p role="alert">{note}</p>}
        <label for="key">This server wants a key.</label>
        <input
          id="key"
          type="password"
          autocomplete="current-password"
          placeholder="40 hexadecimal characters"
          value={key.value}
          onInput={(e) => {
            key.value = e.currentTarget.value;
          }}
        />
        <p class="muted">
          <code>kymogram serve</code> prints a one-time link when it starts, and keeps the admin key in{" "}
          <code>admin.key</code> of its data folder.
        </p>
        <button type="submit" class="button primary" disabled={!ready}>
          Sign in
        </button>
      </form>
    </main>
  );
}
