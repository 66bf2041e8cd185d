import { beforeEach, expect, test } from "bun:test";
import { giveTurns } from "./turns.ts";

/** It moves one thing in a turn, then others go first. */
class Body {
  left = 3;
  isOver = false;

  constructor(readonly name: string) {}

  turn(): boolean {
    moved.push(this.name);
    this.left -= 1;
    othersGoFirst = true;
    return this.left > 0;
  }
}

let moved: string[];
let othersGoFirst: boolean;
let waiting: Set<Body>;
const round = () => giveTurns(waiting, () => othersGoFirst);
beforeEach(() => {
  moved = [];
  othersGoFirst = false;
  waiting = new Set(["a", "b", "c"].map((name) => new Body(name)));
});

test("each has as many turns as any other, though all stand back after each", () => {
  for (let nth = 0; nth < 9; nth++) {
    othersGoFirst = false;
    round();
  }
  expect(moved.join("")).toBe("abcabcabc");
  expect(waiting.size).toBe(0);
});

test("while all stand back nobody has one, and all wait", () => {
  othersGoFirst = true;
  round();
  expect([moved.length, waiting.size]).toEqual([0, 3]);
});

test("who is over waits no longer, and has none", () => {
  for (const body of waiting) body.isOver = body.name === "b";
  for (let nth = 0; nth < 2; nth++) {
    othersGoFirst = false;
    round();
  }
  expect(moved.join("")).toBe("ac");
});
