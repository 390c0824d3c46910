import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import "../style/console.css";
import type { Line } from "../api/console.ts";
import { count, dateTime } from "../chart/number.ts";
import { Console, isSame, mostLines, placesOf, sourceOf, visible } from "../state/console.ts";
import { bind } from "../state/keys.ts";
import { param, setParams } from "../state/route.ts";
import { Message } from "./message.tsx";

const rowPx = 18;
const spare = 20; // rows drawn above and below those in view
const nearTop = 40 * rowPx;
const mostDrawn = 10_000; // characters of a line: a browser stands still over a million, or as many marks

export interface ConsoleProps {
  run: string;
  /** Grows with what the run logs. */
  tick: number;
}

/** ConsoleView shows what a run's program printed: the newest lines, earlier ones as one scrolls up, and a search. */
export function ConsoleView({ run, tick }: ConsoleProps) {
  const held = useMemo(() => new Console(sourceOf(run)), [run]);
  useEffect(() => () => held.close(), [held]);
  useEffect(() => void held.refresh(), [held, tick]);
  const off = param("streams-off").split(",").filter(Boolean);
  const lines = useMemo(
    () => (off.length ? held.shown.value.filter((l) => !off.includes(l.stream)) : held.shown.value),
    [held.shown.value, off.join()],
  );
  const find = useFind(held, lines);
  const names = held.names.value;
  if (names?.length === 0 && !held.failure.value)
    return (
      <Message>
        Nothing that the program printed was kept. Python: <code>kymogram.init(capture_console=True)</code>,
        or the variable <code>KYMOGRAM_CAPTURE_CONSOLE=1</code>. Go: <code>kymogram.NewHandler</code>.
      </Message>
    );
  return (
    <div class="console">
      <div class="bar">
        <Find find={find} />
        {(names?.length ?? 0) > 1 &&
          names!.map((name) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={!off.includes(name)}
                onChange={(e) => {
                  const rest = off.filter((n) => n !== name);
                  setParams({ "streams-off": (e.currentTarget.checked ? rest : [...rest, name]).join() });
                }}
              />{" "}
              {name}
            </label>
          ))}
        <label>
          <input
            type="checkbox"
            checked={param("times") === "1"}
            onChange={(e) => setParams({ times: e.currentTarget.checked ? "1" : "" })}
          />{" "}
          times
        </label>
        <button type="button" class="button" onClick={() => save(lines, run)} disabled={lines.length === 0}>
          save as text
        </button>
        {held.failure.value && <span role="alert">{held.failure.value}</span>}
      </div>
      <Rows held={held} lines={lines} find={find} />
    </div>
  );
}

interface Finding {
  word: string;
  /** The lines with the word, by their place. */
  found: number[];
  /** Which of them is in front, -1 for none. */
  at: number;
  /** Earlier lines that are not searched yet. */
  left: number;
  isFull: boolean;
  next(by: number): void;
}

/** The search: over what is held at once, then page by page over what is before. */
function useFind(held: Console, lines: Line[]): Finding {
  const word = param("find");
  const front = useSignal<Line | null>(null);
  const found = useMemo(() => {
    const out: number[] = [];
    if (word)
      for (const [i, line] of lines.entries()) if (placesOf(visible(line.text), word).length > 0) out.push(i);
    return out;
  }, [lines, word]);
  const left = held.earlierCount();
  useEffect(() => {
    if (word && left > 0 && !held.isFull() && !held.failure.value) void held.earlier();
  }, [held, word, lines]);
  useEffect(() => {
    front.value = null;
  }, [word]);
  const inFront = front.value;
  const at = inFront ? found.findIndex((i) => isSame(lines[i]!, inFront)) : -1;
  const next = (by: number) => {
    if (found.length === 0) return;
    // The first step is to the newest: there the reader is.
    const to = at < 0 ? found.length - 1 : (at + by + found.length) % found.length;
    front.value = lines[found[to]!]!;
  };
  return { word, found, at, left, isFull: held.isFull(), next };
}

function Find({ find }: { find: Finding }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => bind({ "/": () => input.current?.select() }), []);
  const { word, found, at, left, isFull } = find;
  return (
    <>
      <input
        ref={input}
        class="search"
        type="search"
        placeholder="Find in the output"
        aria-label="Find in the output"
        title="Enter: the match before; Shift+Enter: the one after"
        value={word}
        onInput={(e) => setParams({ find: e.currentTarget.value })}
        onKeyDown={(e) => {
          if (e.key === "Enter") find.next(e.shiftKey ? 1 : -1);
          if (e.key === "Escape") e.currentTarget.blur();
        }}
      />
      {word && (
        <>
          <button type="button" class="button" aria-label="The match before" onClick={() => find.next(-1)}>
            ↑
          </button>
          <button type="button" class="button" aria-label="The match after" onClick={() => find.next(1)}>
            ↓
          </button>
          <span class="muted" role="status">
            {at >= 0 ? `${count(at + 1)} of ${count(found.length)}` : `${count(found.length)} lines`}
            {left > 0 && !isFull && `, ${count(left)} lines left to search`}
            {left > 0 &&
              isFull &&
              `; the first ${count(left)} lines are not searched: kymogram logs RUN | grep`}
          </span>
        </>
      )}
    </>
  );
}

interface RowsProps {
  held: Console;
  lines: Line[];
  find: Finding;
}

function Rows({ held, lines, find }: RowsProps) {
  const host = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const follows = useSignal(true);
  const loading = useRef(false);
  const anchor = useRef<{ line: Line; px: number } | null>(null);
  const range = useComputed(() => [
    Math.max(0, Math.floor(top.value / rowPx) - spare),
    Math.ceil((top.value + height.value) / rowPx) + spare,
  ]);
  useEffect(() => {
    const seen = new ResizeObserver(() => {
      height.value = host.current!.clientHeight;
      if (follows.value) host.current!.scrollTop = host.current!.scrollHeight;
    });
    seen.observe(host.current!);
    return () => seen.disconnect();
  }, []);
  // What is read stays where it is when lines come before it, and the newest stay in view for who follows.
  const early = async () => {
    if (loading.current || held.earlierCount() === 0 || held.isFull()) return;
    loading.current = true;
    await held.earlier();
    loading.current = false;
  };
  useEffect(() => {
    if (lines.length * rowPx < height.value && !held.failure.value) void early();
  }, [lines]);
  useLayoutEffect(() => {
    const el = host.current!;
    if (follows.value) el.scrollTop = el.scrollHeight;
    else if (anchor.current) {
      const { line, px } = anchor.current;
      const i = lines.findIndex((l) => isSame(l, line));
      if (i >= 0) el.scrollTop = i * rowPx + px;
    }
    top.value = el.scrollTop;
  }, [lines]);
  const inFront = find.at >= 0 ? find.found[find.at]! : -1;
  useLayoutEffect(() => {
    if (inFront < 0) return;
    follows.value = false;
    const el = host.current!;
    el.scrollTop = Math.max(0, inFront * rowPx - el.clientHeight / 2);
  }, [inFront]);
  const scrolled = () => {
    const el = host.current!;
    top.value = el.scrollTop;
    follows.value = el.scrollTop + el.clientHeight >= el.scrollHeight - rowPx;
    const first = Math.floor(el.scrollTop / rowPx);
    anchor.current = lines[first] ? { line: lines[first]!, px: el.scrollTop - first * rowPx } : null;
    if (el.scrollTop < nearTop) void early();
  };
  const [from, to] = range.value as [number, number];
  const left = held.earlierCount();
  return (
    <>
      <div
        class="console-rows"
        ref={host}
        onScroll={scrolled}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reached by keys
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Output"
      >
        <div style={{ height: `${lines.length * rowPx}px` }}>
          {lines.slice(from, to).map((line, i) => (
            <Row
              key={`${line.stream} ${line.step}`}
              line={line}
              place={from + i}
              isFront={from + i === inFront}
              word={find.word}
            />
          ))}
        </div>
      </div>
      <div class="console-foot muted">
        <span>
          {count(lines.length)} lines
          {left > 0 &&
            `, ${count(left)} before them${held.isFull() ? `: a tab holds ${count(mostLines)}` : ""}`}
        </span>
        {!follows.value && (
          <button
            type="button"
            class="button"
            onClick={() => {
              follows.value = true;
              host.current!.scrollTop = host.current!.scrollHeight;
            }}
          >
            newest ↓
          </button>
        )}
      </div>
    </>
  );
}

interface RowProps {
  line: Line;
  place: number;
  isFront: boolean;
  word: string;
}

function Row({ line, place, isFront, word }: RowProps) {
  const more = line.text.length - mostDrawn;
  return (
    <div class={`console-row ${isFront ? "front" : ""}`} style={{ top: `${place * rowPx}px` }}>
      {param("times") === "1" && <span class="muted">{dateTime(Number(line.timeNs), true)}</span>}
      {line.stream !== "output" && line.stream !== "stdout" && <span class="stream">{line.stream}</span>}
      <Marked text={visible(line.text.slice(0, mostDrawn))} word={word} />
      {more > 0 && <span class="muted">… {count(more)} more characters: save as text</span>}
    </div>
  );
}

function Marked({ text, word }: { text: string; word: string }) {
  const parts: (string | preact.JSX.Element)[] = [];
  let end = 0;
  for (const at of placesOf(text, word)) {
    parts.push(text.slice(end, at), <mark key={at}>{text.slice(at, at + word.length)}</mark>);
    end = at + word.length;
  }
  parts.push(text.slice(end));
  return <span class="text">{parts}</span>;
}

function save(lines: Line[], run: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob(
      lines.map((l) => `${l.text}\n`),
      { type: "text/plain" },
    ),
  );
  link.download = `console-${run}.txt`;
  link.click();
  URL.revokeObjectURL(link.href);
}
