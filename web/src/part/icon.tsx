/** Icons as 16-unit strokes; each is beside a text or has a label of its own. */
const paths = {
  runs: "M2 4h12M2 8h12M2 12h8",
  views: "M2 2.5h5v5H2zM9 2.5h5v5H9zM2 9.5h5v4H2zM9 9.5h5v4H9z",
  compare: "M4 2v12M8 2v12M12 2v12M2 5l4 5 4-6 4 4",
  chart: "M2 13V3M2 13h12M4 10l3-4 3 2 4-5",
  help: "M6 6.2a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M8 12v.2",
  sun: "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5",
  expand: "M9.5 2H14v4.5M14 2L9.5 6.5M6.5 14H2V9.5M2 14l4.5-4.5",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  log: "M3 2v12h11M5 11c1-5 4-6 8-7",
  range: "M8 2v12M8 2L5.5 4.5M8 2l2.5 2.5M8 14l-2.5-2.5M8 14l2.5-2.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8M8 6a2 2 0 1 0 0 4a2 2 0 0 0 0-4",
  eyeOff: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8M2.5 13.5l11-11",
  share:
    "M6.5 9.5l3-3M7 4.5l1.4-1.4a2.5 2.5 0 0 1 3.5 3.5L10.5 8M9 11.5l-1.4 1.4a2.5 2.5 0 0 1-3.5-3.5L5.5 8",
  exit: "M6.5 2.5H3v11h3.5M10 5l3 3-3 3M13 8H6.5",
  columns: "M2 3h12v10H2zM6 3v10M10 3v10",
  chevron: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  check: "M3 8.5l3.2 3.2L13 5",
  copy: "M5.5 5.5h8v8h-8zM3 10.5H2.5v-8h8V3",
  prev: "M10 3L5 8l5 5",
  next: "M6 3l5 5-5 5",
  kymograph: "M2 3h5M9 3h5M2 6.3h8M12 6.3h2M2 9.6h3M7 9.6h7M2 13h7M11 13h3",
  pin: "M6 2h4l-.5 4.5L12 9H4l2.5-2.5zM8 9v5",
  up: "M4 10l4-4 4 4",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3zM9 4.7L11.3 7",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  plus: "M8 3v10M3 8h10",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
