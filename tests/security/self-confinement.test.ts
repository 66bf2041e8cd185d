/**
 * Restrictions that a process sets for itself: each survives a pause, or cannot be set. Guards against the loss, on
 * resume, of the store bypass, tagged addresses or the time stamp counter, and against a process whose memory is never
 * both writable and executable and that ends CRIU.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { sharedServer } from "../support/shared-server.ts";

const LIFE = { timeoutMs: 600_000 };
const AS_ROOT = { user: "root" };
const PROGRAM = join(import.meta.dir, "../support/services/self-confinement.py");
const LOST = ["time stamp counter", "store bypass", "tagged addresses", "memory deny write execute", "memory merge"];

const server = sharedServer();

test("restrictions that a process sets for itself survive a pause or cannot be set", async () => {
  const sandbox = await Sandbox.create({ ...server().options, ...LIFE });
  await sandbox.files.write("/tmp/self-confinement.py", await Bun.file(PROGRAM).text());
  await sandbox.commands.run("mkfifo /tmp/in && touch /tmp/out", AS_ROOT);
  await sandbox.commands.run("exec 3<>/tmp/in; exec python3 -u /tmp/self-confinement.py <&3 >/tmp/out 2>&1", {
    ...AS_ROOT,
    background: true,
    timeoutMs: 0,
  });
  /** The program's next report. */
  const requestsMade = async (nth: number): Promise<Record<string, unknown>> => {
    const wait = `echo > /tmp/in; until test $(wc -l < /tmp/out) = ${nth}; do sleep 0.02; done; tail -n 1 /tmp/out`;
    return JSON.parse((await sandbox.commands.run(wait, AS_ROOT)).stdout);
  };
  const before = await requestsMade(1);
  expect(before).toMatchObject({ "no new privileges": 1, securebits: 0x15, dumpable: 0, "bounding set": 0 });
  for (const name of LOST) expect(`${name} ${before[name]}`).toBe(`${name} refused: Invalid argument`);
  await sandbox.pause();
  await sandbox.connect(LIFE);
  expect(await requestsMade(2)).toEqual(before);
  expect(Object.entries(before).filter(([, output]) => output === "made, and nobody can tell")).toEqual([]);
});
