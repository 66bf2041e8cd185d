import { expect, test } from "bun:test";
import { type Claim, type Room, shareOut } from "./shares.ts";

interface Named extends Claim {
  name: string;
}

function claim(name: string, owners: Record<string, number>, other: Partial<Claim> = {}): Named {
  const each = Object.entries(owners).map(([owner, count], at) => ({ owner, count, lastAt: at }));
  const most = each.reduce((sum, { count }) => sum + count, 0);
  return { name, floor: 0, bytesEach: 10, most, owners: each, ...other };
}

function shared(claims: Named[], room: Partial<Room>): Record<string, number> {
  const shares = shareOut(claims, { places: 1000, bytes: 100_000, ...room });
  return Object.fromEntries([...shares].map(([{ name }, count]) => [name, count]));
}

test.each<[string, Named[], Partial<Room>, Record<string, number>]>([
  ["nothing wanted", [claim("a", {})], {}, { a: 0 }],
  ["as many as are wanted", [claim("a", { x: 20 }), claim("b", { y: 3 })], {}, { a: 20, b: 3 }],
  ["no more than all together ask for", [claim("a", { x: 20, y: 20 }, { most: 25 })], {}, { a: 25 }],
  ["what is kept in any case, without room", [claim("a", { x: 20 }, { floor: 2 })], { places: 0, bytes: 0 }, { a: 2 }],
  ["what is kept in any case is not added", [claim("a", { x: 5 }, { floor: 2 })], {}, { a: 5 }],
  ["nobody has all", [claim("a", { x: 50 })], { places: 10 }, { a: 8 }],
  ["nor all of the memory", [claim("a", { x: 50 })], { bytes: 100 }, { a: 8 }],
  ["nor with many templates", ["a", "b", "c"].map((n) => claim(n, { x: 5 })), { places: 10 }, { a: 5, b: 3, c: 0 }],
  ["owners take turns", [claim("a", { x: 50 }), claim("b", { y: 50 })], { places: 10 }, { a: 5, b: 5 }],
  ["what one leaves is the other's", [claim("a", { x: 50 }), claim("b", { y: 2 })], { places: 10 }, { a: 8, b: 2 }],
  [
    "what does not fit leaves the rest",
    [claim("a", { x: 2 }, { bytesEach: 900 }), claim("b", { x: 2 })],
    { bytes: 50 },
    { a: 0, b: 2 },
  ],
  [
    "what is kept in any case takes of the room",
    [claim("a", {}, { floor: 4 }), claim("b", { y: 9 })],
    { places: 10 },
    { a: 4, b: 6 },
  ],
])("%s", (_, claims, room, expected) => {
  expect(shared(claims, room)).toEqual(expected);
});

test("what was asked for last comes first", () => {
  const at = (lastAt: number, count: number) => ({ owners: [{ owner: "x", count, lastAt }], most: count });
  const claims = [claim("old", {}, at(1, 8)), claim("new", {}, at(2, 8))];
  expect(shared(claims, { places: 10 })).toEqual({ old: 0, new: 8 });
});
