import { useEffect } from "preact/hooks";
import type { Card, Session } from "../state/session.ts";

interface Props {
  session: Session;
  card: Card;
  width: number;
  height: number;
}

/** The place of a card whose series are not read yet: that it is in view makes the session read them. */
export function Awaited({ session, card, width, height }: Props) {
  useEffect(() => session.watch(card.metric), [session, card.metric]);
  return <div class="card" style={{ width: `${width}px`, height: `${height}px` }} />;
}
