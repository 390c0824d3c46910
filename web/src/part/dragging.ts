/** An element that can be dragged: what it is, under a kind of its own. */
export const drags = (kind: string, what: string) => ({
  draggable: true,
  onDragStart: (e: DragEvent) => e.dataTransfer?.setData(kind, what),
});

/** An element on which things of a kind are dropped; over follows them while they are above it, with null when they left. */
export const drops = (
  kind: string,
  drop: (what: string, e: DragEvent) => void,
  over: (e: DragEvent | null) => void = () => {},
) => ({
  onDragOver: (e: DragEvent) => {
    if (!e.dataTransfer?.types.includes(kind)) return;
    e.preventDefault();
    over(e);
  },
  onDragLeave: () => over(null),
  onDrop: (e: DragEvent) => {
    e.preventDefault();
    over(null);
    const what = e.dataTransfer?.getData(kind);
    if (what) drop(what, e);
  },
});
