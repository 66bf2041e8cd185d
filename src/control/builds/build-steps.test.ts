/** Build steps as clients send them, and which of them are rejected. */
import { describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { RequestedStep } from "../../contract/management/template-build.ts";
import { parseSteps, STEP_ARGUMENT_MAX_BYTES } from "./build-steps.ts";

const HASH = "0".repeat(64);
const step = (type: string, ...args: string[]): RequestedStep => ({ type, args });
const parse = (...steps: RequestedStep[]) => parseSteps("team", steps, 100);

describe("a step becomes a host step:", () => {
  test.each([
    [step("RUN", "echo $X"), { type: "run", command: "echo $X", user: null }],
    [step("run", "id", "root"), { type: "run", command: "id", user: "root" }],
    [step("RUN", "id", ""), { type: "run", command: "id", user: null }],
    [
      step("ENV", "A", "1", "B", "$A-x"),
      {
        type: "env",
        variables: [
          ["A", "1"],
          ["B", "$A-x"],
        ],
      },
    ],
    [step("ARG", "A", ""), { type: "env", variables: [["A", ""]] }],
    [step("WORKDIR", "app"), { type: "workdir", path: "app" }],
    [step("USER", "node"), { type: "user", name: "node", sudo: false }],
    [step("USER", "node:node"), { type: "user", name: "node:node", sudo: false }],
    [step("USER", "$APP_USER"), { type: "user", name: "$APP_USER", sudo: false }],
    [step("USER", "node", "true"), { type: "user", name: "node", sudo: true }],
    [
      { ...step("COPY", "src/*.txt", "dest/", "", ""), filesHash: HASH },
      { type: "copy", files: `files/team/${HASH}`, source: "src/*.txt", target: "dest/", owner: null, mode: null },
    ],
    [
      { ...step("ADD", ".", "/app", "app:users", "0755"), filesHash: HASH },
      { type: "copy", files: `files/team/${HASH}`, source: ".", target: "/app", owner: "app:users", mode: "0755" },
    ],
  ] as [RequestedStep, object][])("%j", (written, expected) => {
    expect(parse(written)).toEqual([{ ...expected, force: false } as never]);
    expect(parse({ ...written, force: true })[0]?.force).toBe(true);
  });
});

describe("a step is rejected with its number:", () => {
  test.each([
    [step("FROM", "x"), 'step 2 is of the unknown type "FROM"; known types are COPY, ADD, RUN'],
    [step("RUN"), "step 2, RUN, takes a command"],
    [step("RUN", " "), "step 2, RUN, takes a command"],
    [step("RUN", "a", "b", "c"), "takes a command"],
    [step("RUN", "a", "b c"), '"b c", which is not a user name'],
    [step("RUN", "a\0b"), "a NUL character in argument 1"],
    [step("RUN", "a".repeat(STEP_ARGUMENT_MAX_BYTES + 1)), `the bound is ${STEP_ARGUMENT_MAX_BYTES}`],
    [step("ENV"), "takes names and values in turn, got 0"],
    [step("ENV", "A"), "takes names and values in turn, got 1"],
    [step("ENV", "A=B", "1"), '"A=B", which is not a variable name'],
    [step("WORKDIR"), "takes a path, got 0"],
    [step("WORKDIR", "a", "b"), "takes a path, got 2"],
    [step("WORKDIR", ""), "an empty path"],
    [step("WORKDIR", "a".repeat(4096)), "a path of 4096 bytes"],
    [step("USER", "-x"), '"-x", which is not a user name'],
    [step("USER", "a", "yes"), '"true" if it may use sudo'],
    [step("USER"), '"", which is not a user name'],
    [step("COPY", "a", "b"), "has no filesHash"],
    [{ ...step("COPY", "a"), filesHash: HASH }, "takes a source, a target"],
    [{ ...step("COPY", "", "b"), filesHash: HASH }, "an empty source"],
    [{ ...step("COPY", "a", "b", "-R x"), filesHash: HASH }, 'the owner "-R x"'],
    [{ ...step("COPY", "a", "b", "", "u+s"), filesHash: HASH }, 'the mode "u+s"'],
  ] as [RequestedStep, string][])("%j", (written, message) => {
    expect(() => parse(step("RUN", "true"), written)).toThrow(Fault);
    expect(() => parse(step("RUN", "true"), written)).toThrow(message);
  });

  test("more steps than the bound", () => {
    expect(() => parse(...Array.from({ length: 101 }, () => step("RUN", "true")))).toThrow(
      expect.objectContaining({ status: 400, message: "the build has 101 steps; at most 100 are taken" }),
    );
    expect(parse(...Array.from({ length: 100 }, () => step("RUN", "true")))).toHaveLength(100);
  });
});
