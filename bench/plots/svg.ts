/**
 * Draws plots as SVG: lines over a numeric axis, with a legend. In a browser, colours follow the reader's light or dark
 * setting.
 */

export interface Plot {
  title: string;
  /** Labels of the axes, with units. */
  x: string;
  y: string;
  lines: Line[];
  /** How and where it was measured, shown below the plot. */
  note: string;
}

export interface Line {
  name: string;
  points: Point[];
}

interface Point {
  x: number;
  y: number;
}

const WIDTH = 640;
const HEIGHT = 400;
const PLACE = { left: 70, right: 620, top: 50, bottom: 310 };
const LEGEND_TOP = 364;
const NOTE_TOP = 388;
const TICKS = 5;
const STYLE = [
  "text { font: 12px sans-serif; fill: #24292f; } .title { font-size: 15px; font-weight: bold; }",
  ".note { font-size: 10px; } .grid { stroke: #d0d7de; } .axis { stroke: #57606a; } .line { fill: none; stroke-width: 2; }",
  ".s0 { stroke: #0969da; } .s1 { stroke: #bc4c00; } .f0 { fill: #0969da; } .f1 { fill: #bc4c00; } .paper { fill: #ffffff; }",
  "@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .grid { stroke: #30363d; } .axis { stroke: #8b949e; }",
  ".s0 { stroke: #58a6ff; } .s1 { stroke: #f0883e; } .f0 { fill: #58a6ff; } .f1 { fill: #f0883e; } .paper { fill: #0d1117; } }",
].join("\n");

export function svgOf(plot: Plot): string {
  const all = plot.lines.flatMap(({ points }) => points);
  const [xTop, yTop] = [roundTop(Math.max(...all.map(({ x }) => x))), roundTop(Math.max(...all.map(({ y }) => y)))];
  const { left, right, top, bottom } = PLACE;
  const across = (x: number) => left + ((right - left) * x) / xTop;
  const up = (y: number) => bottom - ((bottom - top) * y) / yTop;
  const ticks = (most: number) => Array.from({ length: TICKS + 1 }, (_, nth) => (most * nth) / TICKS);
  const xTicks = ticks(xTop).map((x) => text(across(x), bottom + 18, label(x), "middle"));
  const yTicks = ticks(yTop).flatMap((y) => [
    `<line class="grid" x1="${left}" y1="${near(up(y))}" x2="${right}" y2="${near(up(y))}"/>`,
    text(left - 8, up(y) + 4, label(y), "end"),
  ]);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">`,
    `<title>${escaped(plot.title)}</title>`,
    `<desc>${escaped(described(plot))}</desc>`,
    `<style>\n${STYLE}\n</style>`,
    `<rect class="paper" width="${WIDTH}" height="${HEIGHT}"/>`,
    text(left, 28, plot.title, "start", "title"),
    ...yTicks,
    ...xTicks,
    `<line class="axis" x1="${left}" y1="${bottom}" x2="${right}" y2="${bottom}"/>`,
    text((left + right) / 2, bottom + 36, plot.x, "middle"),
    `<text x="16" y="${(top + bottom) / 2}" text-anchor="middle" transform="rotate(-90 16 ${(top + bottom) / 2})">${escaped(plot.y)}</text>`,
    ...plot.lines.flatMap(({ points }, nth) =>
      drawn(
        points.map(({ x, y }) => ({ x: across(x), y: up(y) })),
        nth,
      ),
    ),
    ...plot.lines.flatMap(({ name }, nth) => legend(name, nth)),
    text(left, NOTE_TOP, plot.note, "start", "note"),
    "</svg>",
    "",
  ].join("\n");
}

function drawn(points: readonly Point[], nth: number): string[] {
  const at = points.map(({ x, y }) => `${near(x)},${near(y)}`).join(" ");
  const dots = points.map(({ x, y }) => `<circle class="f${nth}" cx="${near(x)}" cy="${near(y)}" r="3"/>`);
  return [`<polyline class="line s${nth}" points="${at}"/>`, ...dots];
}

function legend(name: string, nth: number): string[] {
  const x = PLACE.left + nth * 280;
  return [
    `<rect class="f${nth}" x="${x}" y="${LEGEND_TOP - 9}" width="10" height="10"/>`,
    text(x + 16, LEGEND_TOP, name),
  ];
}

/** The figures as text, for readers that cannot see the lines. */
function described({ lines }: Plot): string {
  const output = lines.map(({ name, points }) => `${name}: ${points.map(({ x, y }) => `${x} ${near(y)}`).join(", ")}`);
  return output.join("; ");
}

function text(x: number, y: number, content: string, anchor = "start", kind = ""): string {
  const named = kind === "" ? "" : ` class="${kind}"`;
  return `<text${named} x="${near(x)}" y="${near(y)}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

/** Rounds up to 1, 2, 2.5, 5 or 10 times a power of ten, so that each fifth of it is a readable number. */
export function roundTop(most: number): number {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= most) ?? 10;
  return step * power;
}

function label(value: number): string {
  return String(near(value));
}

function near(value: number): number {
  return Math.round(value * 100) / 100;
}

function escaped(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
