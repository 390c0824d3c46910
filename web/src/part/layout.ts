import type { Card } from "../state/session.ts";

export const gap = 8;
export const groupHead = 28;
const minWidth = 260;

/** Block is the place of one group in the grid. */
export interface Block {
  group: string;
  cards: Card[];
  top: number;
  height: number;
  columns: number;
  cardWidth: number;
  rowHeight: number;
}

export interface Plan {
  blocks: Block[];
  height: number;
  cardWidth: number;
}

/** Where every card lies, from counts alone: a hundred thousand cards cost no element until they are in view. */
export function layout(
  cards: Card[],
  width: number,
  cardHeight: number,
  collapsed: ReadonlySet<string>,
): Plan {
  const fitting = Math.max(1, Math.floor((width + gap) / (minWidth + gap)));
  const columns = cards.length <= 2 ? Math.min(2, fitting) : fitting;
  const cardWidth = Math.floor((width - gap * (columns - 1)) / columns);
  const rowHeight = cardHeight + gap;
  const blocks: Block[] = [];
  let top = 0;
  for (const [group, list] of grouped(cards)) {
    const rows = collapsed.has(group) ? 0 : Math.ceil(list.length / columns);
    const height = groupHead + rows * rowHeight + gap;
    blocks.push({ group, cards: list, top, height, columns, cardWidth, rowHeight });
    top += height;
  }
  return { blocks, height: top, cardWidth };
}

function grouped(cards: Card[]): Map<string, Card[]> {
  const groups = new Map<string, Card[]>();
  for (const card of cards) {
    const list = groups.get(card.group);
    if (list) list.push(card);
    else groups.set(card.group, [card]);
  }
  return groups;
}

export interface Place {
  card: Card;
  left: number;
  top: number;
}

/** The cards of a block whose rows meet from…to, with their place under the group's head. */
export function cardsBetween(block: Block, from: number, to: number): Place[] {
  const first = Math.max(0, Math.floor((from - block.top - groupHead) / block.rowHeight));
  const last = Math.floor((to - block.top - groupHead) / block.rowHeight);
  const out: Place[] = [];
  for (let i = first * block.columns; i < Math.min(block.cards.length, (last + 1) * block.columns); i++) {
    const column = i % block.columns;
    const row = Math.floor(i / block.columns);
    out.push({ card: block.cards[i]!, left: column * (block.cardWidth + gap), top: row * block.rowHeight });
  }
  return out;
}
