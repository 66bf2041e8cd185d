/** `sandlot limits` on a store of its own, without a server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createIds } from "../control/access/ids.ts";
import { ensureFirstRun } from "../control/first-run.ts";
import { attempt } from "../host/system/command.ts";
import { DataFolder } from "../host/system/data-folder.ts";
import { openStore } from "../store/store.ts";
import { systemClock } from "../work/clock.ts";
import { parseLimits } from "./team-limits.ts";

const MAIN = join(import.meta.dir, "main.ts");
const UNLIMITED = "sandboxes=none  hours=none  blocked=no";
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandlot-limits-"));
  const store = await openStore(`sqlite://${new DataFolder(folder).storeFile}`, systemClock.now());
  await ensureFirstRun({ store, ids: createIds(), clock: systemClock }, []);
  await store.people.addTeam({ id: "team-2", name: "Second", slug: "second", limits: {}, createdAt: 0 });
  await store.close();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function limits(...args: string[]) {
  const { PATH = "" } = process.env;
  const result = await attempt([process.execPath, MAIN, "limits", ...args], { env: { PATH, SANDLOT_DATA: folder } });
  return { code: result.exitCode, out: result.stdout.trim().split("\n"), error: result.stderr.trim() };
}

describe("sandlot limits", () => {
  test("shows all teams, changes what it is told to and nothing else, and shows that", async () => {
    expect((await limits()).out).toEqual([`default  ${UNLIMITED}`, `second  ${UNLIMITED}`]);
    expect(await limits("second", "sandboxes=10", "hours=0.5")).toEqual({
      code: 0,
      out: ["second  sandboxes=10  hours=0.5  blocked=no"],
      error: "",
    });
    expect((await limits("second", "blocked=yes")).out).toEqual(["second  sandboxes=10  hours=0.5  blocked=yes"]);
    expect((await limits("second")).out).toEqual(["second  sandboxes=10  hours=0.5  blocked=yes"]);
    await limits("second", "sandboxes=none", "blocked=no");
    expect((await limits()).out).toEqual([`default  ${UNLIMITED}`, "second  sandboxes=none  hours=0.5  blocked=no"]);
  });

  test("refuses what it does not understand and changes nothing", async () => {
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

describe("what is given", () => {
  test.each([
    [["sandboxes=1"], { sandboxes: 1 }],
    [["sandboxes=none"], { sandboxes: undefined }],
    [["hours=24"], { runSeconds: 86_400 }],
    [["hours=0.0003"], { runSeconds: 1 }],
    [["hours=none", "blocked=yes"], { runSeconds: undefined, blocked: true }],
    [["blocked=no"], { blocked: undefined }],
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
    ["hours=0", "at least a second"],
    ["hours=0.0001", "at least a second"],
    ["hours=24h", 'not "24h"'],
    ["hours=600000", 'not "600000"'],
    ["blocked=true", 'blocked must be yes or no, not "true"'],
    ["sandbox=3", 'not "sandbox=3"'],
    ["sandboxes", 'takes sandboxes=N, hours=H and blocked=yes|no, not "sandboxes"'],
  ])("%s is refused", (word, message) => {
    expect(() => parseLimits([word])).toThrow(message);
  });
});
