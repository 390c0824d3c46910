import type { Card } from "../state/session.ts";

export const gap = 8;
export const groupHead = 24;
const minWidth = 260;

/** Block is the place of one group in the grid. */
export interface Block {
  group: string;
  cards: Card[];
  /** Of the strip with the group's name; its first card lies under it. */
  top: number;
  /** From top to the end of the last row. */
  height: number;
  /** The place of the first card, counted over all rows. */
  first: number;
  /** The column of the first card: a group flows on in the row that the one before began. */
  column: number;
  columns: number;
  cardWidth: number;
  rowHeight: number;
  /** The tops of all rows of the grid. */
  rows: number[];
}

export interface Plan {
  blocks: Block[];
  height: number;
  cardWidth: number;
}

/**
 * Where every card lies, from counts alone: a hundred thousand cards cost no element until they are in view. Groups flow
 * on from one another, so that no row but the last has a hole. A row has a strip for names where a group begins in it; a
 * closed group is a strip between two rows.
 */
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
  const rows: number[] = [];
  const blocks: Block[] = [];
  const shared = { columns, cardWidth, rowHeight, rows };
  let slot = 0;
  let bottom = 0; // of what is placed
  let named = 0; // the first row that has no strip for names yet
  for (const [group, list] of grouped(cards)) {
    if (collapsed.has(group)) {
      slot = rows.length * columns;
      blocks.push({ group, cards: list, top: bottom, height: groupHead, first: slot, column: 0, ...shared });
      bottom += groupHead;
      continue;
    }
    const row = Math.floor(slot / columns);
    if (row >= named) {
      const top = rows[row] ?? bottom;
      rows[row] = top + groupHead;
      named = row + 1;
      bottom = rows[row]! + rowHeight;
    }
    const last = Math.floor((slot + list.length - 1) / columns);
    for (; rows.length <= last; bottom += rowHeight) rows.push(bottom);
    blocks.push({ group, cards: list, top: 0, height: 0, first: slot, column: slot % columns, ...shared });
    slot += list.length;
  }
  for (const block of blocks) if (!collapsed.has(block.group)) span(block);
  return { blocks, height: bottom + gap, cardWidth };
}

/** From the name of an open group to the end of its last row; the rows are known when all groups have a place. */
function span(block: Block): void {
  const { rows, columns, first, cards } = block;
  block.top = rows[Math.floor(first / columns)]! - groupHead;
  block.height = rows[Math.floor((first + cards.length - 1) / columns)]! + block.rowHeight - block.top;
}

function grouped(cards: Card[]): Map<string, Card[]> {
  const groups = new Map<string, Card[]>();
  let list: Card[] = [];
  let at: string | undefined;
  for (const card of cards) {
    // Cards of a group mostly follow one another.
    if (card.group !== at) {
      at = card.group;
      list = groups.get(at) ?? [];
      groups.set(at, list);
    }
    list.push(card);
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
  const slot = block.first + n;
  return {
    card: block.cards[n]!,
    left: (slot % block.columns) * (block.cardWidth + gap),
    top: block.rows[Math.floor(slot / block.columns)]!,
  };
}

/** The cards of a block whose rows meet from…to. */
export function cardsBetween(block: Block, from: number, to: number): Place[] {
  const { rows, columns, first } = block;
  const begin = rowAfter(rows, from - block.rowHeight) * columns - first;
  const end = Math.min(block.cards.length, rowAfter(rows, to) * columns - first);
  const out: Place[] = [];
  for (let n = Math.max(0, begin); n < end; n++) out.push(placeOf(block, n));
  return out;
}

/** The first row whose top lies below y. */
function rowAfter(rows: number[], y: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (rows[mid]! > y) high = mid;
    else low = mid + 1;
  }
  return low;
}
