import { expect, test } from "bun:test";
import { publicNames } from "./public-names.ts";

const entries = (text: string) =>
  text.split(" ").map((entry) => {
    const [server = "", name = ""] = entry.split(":");
    return { server, name };
  });

test.each([
  ["a:x b:y", ["x", "y"]],
  ["a:x b:x", ["a__x", "b__x"]],
  ["a:x b:x c:y", ["a__x", "b__x", "y"]],
  // A name that looks like a prefixed one keeps its place.
  ["a:x b:x c:a__x", ["a__x_2", "b__x", "a__x"]],
  ["github/o/r.js:x b:x", ["github_o_r_js__x", "b__x"]],
  // A server that lists a tool twice.
  ["a:x a:x", ["a__x", "a__x_2"]],
])("%s", (given, names) => {
  expect(publicNames(entries(given))).toEqual(names);
});
