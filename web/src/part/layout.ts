import type { Card } from "../state/session.ts";

export const gap = 8;
export const groupHead = 24;
const minWidth = 260;
const small = 2; // a group of so many cards is never torn, and what follows it may begin in its row

/** Block is the place of one group in the grid. */
export interface Block {
  group: string;
  cards: Card[];
  /** Of the strip with the group's name; the first row lies under it. */
  top: number;
  /** From top to the end of the last row. */
  height: number;
  /** The column of the first card: small groups flow on in a row that others began. */
  column: number;
  columns: number;
  cardWidth: number;
  rowHeight: number;
  /** The last row lies lower by this, because another group's name stands above it. */
  lastDown: number;
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
    const open = !collapsed.has(group);
    const before = blocks.at(-1);
    const free = before && open && !collapsed.has(before.group) ? columns - endColumn(before) : 0;
    const column = before && shares(before, list.length, free) ? columns - free : 0;
    if (before && column > 0) {
      if (rowsOf(before) > 1 && before.lastDown === 0) {
        before.lastDown = groupHead;
        before.height += groupHead;
      }
      top = before.top + before.height - groupHead - rowHeight;
    }
    const block = {
      ...{ group, cards: list, top, height: groupHead, column, columns, cardWidth, rowHeight },
      lastDown: 0,
    };
    if (open) block.height += rowsOf(block) * rowHeight;
    blocks.push(block);
    top = Math.max(top + block.height, before ? before.top + before.height : 0);
  }
  return { blocks, height: top + gap, cardWidth };
}

/** A group begins beside the one before when it fits there whole, or flows on from a small one. */
function shares(before: Block, size: number, free: number): boolean {
  if (size <= small || size <= free) return free >= size;
  return before.cards.length <= small && free > 0;
}

function rowsOf(block: Block): number {
  return Math.ceil((block.column + block.cards.length) / block.columns);
}

/** The first free column after a block; all are taken when its last row is full. */
function endColumn(block: Block): number {
  return (block.column + block.cards.length) % block.columns || block.columns;
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

/** The place of a block's nth card in the grid. */
export function placeOf(block: Block, n: number): Place {
  const slot = block.column + n;
  const row = Math.floor(slot / block.columns);
  const down = row > 0 && row === rowsOf(block) - 1 ? block.lastDown : 0;
  return {
    card: block.cards[n]!,
    left: (slot % block.columns) * (block.cardWidth + gap),
    top: block.top + groupHead + row * block.rowHeight + down,
  };
}

/** The cards of a block whose rows meet from…to. */
export function cardsBetween(block: Block, from: number, to: number): Place[] {
  const row = (y: number) => Math.floor((y - block.top - groupHead) / block.rowHeight);
  // A row more on either side, as the last one may lie lower; then what does not meet is left out.
  const first = Math.max(0, (row(from) - 1) * block.columns - block.column);
  const last = Math.min(block.cards.length, (row(to) + 1) * block.columns - block.column);
  const out: Place[] = [];
  for (let n = first; n < last; n++) {
    const place = placeOf(block, n);
    if (place.top <= to && place.top + block.rowHeight > from) out.push(place);
  }
  return out;
}
