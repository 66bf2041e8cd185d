/** Variables and folders of a step, derived from the steps before it. */
import { expect, test } from "bun:test";
import { placeOf, withVariables } from "./build-context.ts";
import { BUILD_VARIABLES_MAX_BYTES } from "./limits.ts";

const context = { user: "user", home: "/home/user", workdir: "/app", envVars: { A: "1" } };

test("variables can use those of earlier steps and of every process", () => {
  const after = withVariables(context, [
    ["A", "2"],
    ["B", "$A $HOME $USER"],
    ["PATH", "/opt/bin:$PATH"],
  ]);
  expect(after.envVars).toEqual({
    A: "2",
    B: "1 /home/user user",
    PATH: "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  });
  expect(withVariables(after, [["C", "$A"]]).envVars.C).toBe("2");
  expect(context.envVars).toEqual({ A: "1" });
});

test.each(["", "A=B", "A\0"])("%j is not a variable name", (name) => {
  expect(() => withVariables(context, [[name, "1"]])).toThrow("cannot name a variable");
});

test("all variables together are bounded", () => {
  const value = "x".repeat(100_000);
  const many = Array.from({ length: BUILD_VARIABLES_MAX_BYTES / 100_000 }, (_, at): [string, string] => [
    `V${at}`,
    value,
  ]);
  expect(() => withVariables(context, many)).not.toThrow();
  expect(() => withVariables(withVariables(context, many), [["LAST", value]])).toThrow("bytes together");
});

test.each([
  ["sub", "/app/sub"],
  ["/other", "/other"],
  ["../../..", "/"],
  ["/a/../b//c/", "/b/c/"],
  ["~", "/home/user/"],
  ["~/x", "/home/user/x"],
  ["$HOME/y", "/home/user/y"],
  [".", "/app"],
])("%j resolves to %j", (given, place) => {
  expect(placeOf(context, given)).toBe(place);
});

test("without a working directory a path is relative to the root", () => {
  expect(placeOf({ ...context, workdir: "" }, "x")).toBe("/x");
});
