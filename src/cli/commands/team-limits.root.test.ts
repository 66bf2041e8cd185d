/** `sandlot limits` on its own store, without a server. */
import { describe, expect, test } from "bun:test";
import { loadConfig } from "../settings/config.ts";
import { commandOnStore } from "../testing/command-on-store.ts";
import { limits as limitsCommand, parseLimits } from "./team-limits.ts";

const UNLIMITED =
  "sandboxes=none  hours=none  builds=usual  reads=usual  changes=usual  secrets=usual  secretVersions=usual  private=usual  sharedMemory=usual  blocked=no";

const sandlot = commandOnStore((store) =>
  store.people.addTeam({ id: "team-2", name: "Second", slug: "second", limits: {}, createdAt: 0 }),
);
const limits = (...args: string[]) => sandlot("limits", ...args);

describe("sandlot limits", () => {
  test("shows all teams, and changes and shows only the given limits", async () => {
    expect((await limits()).out).toEqual([`default  ${UNLIMITED}`, `second  ${UNLIMITED}`]);
    expect(await limits("second", "sandboxes=10", "hours=0.5", "changes=7")).toEqual({
      code: 0,
      out: [
        "second  sandboxes=10  hours=0.5  builds=usual  reads=usual  changes=7  secrets=usual  secretVersions=usual  private=usual  sharedMemory=usual  blocked=no",
      ],
      error: "",
    });
    const blocked =
      "second  sandboxes=10  hours=0.5  builds=usual  reads=usual  changes=7  secrets=usual  secretVersions=usual  private=usual  sharedMemory=usual  blocked=yes";
    expect((await limits("second", "blocked=yes")).out).toEqual([blocked]);
    expect((await limits("second")).out).toEqual([blocked]);
    await limits("second", "sandboxes=none", "hours=none", "changes=usual", "builds=3", "blocked=no");
    expect((await limits()).out).toEqual([
      `default  ${UNLIMITED}`,
      `second  ${UNLIMITED.replace("builds=usual", "builds=3")}`,
    ]);
  });

  test("rejects invalid arguments and changes nothing", async () => {
    const before = (await limits()).out;
    expect(await limits("third", "sandboxes=1")).toMatchObject({
      code: 1,
      error: 'sandlot: there is no team "third"; `sandlot limits` shows them',
    });
    expect(await limits("default", "sandboxes=1", "hours=-1")).toMatchObject({
      code: 1,
      error: expect.stringContaining('hours must be a number such as 24 or 0.5, at least a second, or none, not "-1"'),
    });
    expect((await limits()).out).toEqual(before);
  });
});

test("sharedMemory=on is refused where sandboxes cannot share memory", async () => {
  const config = { ...loadConfig({}), runtime: "runsc" } as const;
  await expect(limitsCommand(config, ["default", "sharedMemory=on"])).rejects.toThrow(
    "sharedMemory=on has no effect with SANDLOT_WALL=runsc",
  );
});

describe("a value", () => {
  test.each([
    [["sandboxes=1"], { sandboxes: 1 }],
    [["sandboxes=none"], { sandboxes: undefined }],
    [["hours=24"], { runSeconds: 86_400 }],
    [["hours=0.0003"], { runSeconds: 1 }],
    [["hours=none", "blocked=yes"], { runSeconds: undefined, blocked: true }],
    [["blocked=no"], { blocked: undefined }],
    [["builds=2", "reads=50", "changes=usual"], { builds: 2, reads: 50, changes: undefined }],
    [["secrets=5", "secretVersions=usual"], { secrets: 5, secretVersions: undefined }],
    [["private=10.1.0.0/16, git.test"], { private: ["10.1.0.0/16", "git.test"] }],
    [["private=none"], { private: [] }],
    [["private=usual"], { private: undefined }],
    [["sharedMemory=on"], { sharedMemory: true }],
    [["sharedMemory=off"], { sharedMemory: false }],
    [["sharedMemory=usual"], { sharedMemory: undefined }],
    [[], {}],
  ])("%j is read as %j", (words, changes) => {
    expect(parseLimits(words)).toStrictEqual(changes);
  });

  test.each([
    ["sandboxes=0", "blocked=yes allows none"],
    ["sandboxes=1.5", "whole number"],
    ["sandboxes=", "whole number"],
    ["sandboxes=-3", "whole number"],
    ["sandboxes=1e3", "whole number"],
    ["sandboxes=2147483648", "whole number"],
    ["changes=0", "changes must be a whole number from 1 on, or usual"],
    ["reads=none", 'not "none"'],
    ["hours=0", "at least a second"],
    ["hours=0.0001", "at least a second"],
    ["hours=24h", 'not "24h"'],
    ["hours=600000", 'not "600000"'],
    ["private=127.0.0.1", 'private: "127.0.0.1" is never open to sandboxes'],
    ["private=", 'private: "" is not an IPv4 address'],
    ["sharedMemory=yes", 'sharedMemory must be on, off or usual, not "yes"'],
    ["blocked=true", 'blocked must be yes or no, not "true"'],
    ["sandbox=3", 'not "sandbox=3"'],
    ["sandboxes", 'sharedMemory=on|off|usual and blocked=yes|no, not "sandboxes"'],
  ])("%s is refused", (word, message) => {
    expect(() => parseLimits([word])).toThrow(message);
  });
});
