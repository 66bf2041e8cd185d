/** What a plot is made of: it is a picture, and what is looked at here is what a reader would miss. */
import { expect, test } from "bun:test";
import { roundTop, svgOf } from "./svg.ts";

const plot = {
  title: "a < b & c",
  x: "sandboxes",
  y: "ms",
  lines: [
    {
      name: "ours",
      points: [
        { x: 0, y: 0 },
        { x: 100, y: 50 },
      ],
    },
    { name: "peer", points: [{ x: 50, y: 25 }] },
  ],
  note: "here",
};

test("an axis ends at a round number that covers all values", () => {
  expect([0.3, 1, 1.2, 3, 99, 101, 1000].map(roundTop)).toEqual([0.5, 1, 2, 5, 100, 200, 1000]);
  expect([0, Number.NaN, Number.NEGATIVE_INFINITY].map(roundTop)).toEqual([1, 1, 1]);
});

test("points lie within the axes, the lowest at the origin and the highest at the ends", () => {
  const svg = svgOf(plot);
  expect(svg).toContain('<polyline class="line s0" points="70,310 620,50"/>');
  expect(svg).toContain('<circle class="f1" cx="345" cy="180" r="3"/>');
});

test("a plot names all series, escapes names, has its figures as text, and supports dark mode", () => {
  const svg = svgOf(plot);
  for (const part of ["a &lt; b &amp; c", ">sandboxes<", ">ms<", ">ours<", ">peer<", ">here<"])
    expect(svg).toContain(part);
  expect(svg).toContain("<desc>ours: 0 0, 100 50; peer: 50 25</desc>");
  expect(svg).toContain("prefers-color-scheme: dark");
  expect(svg).not.toContain("a < b");
});
