/**
 * Every attempt of every attack, in a sandbox without isolation, where each must succeed. An attempt that is refused
 * even there could never fail, and would prove nothing elsewhere.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { createServer } from "node:net";
import { ownCapabilities } from "../../../src/host/testing/spec-edits.ts";
import { ATTACKS } from "../attacks/attacks.ts";
import type { Found } from "../attacks/attempts.ts";
import { BareSandbox } from "../attacks/bare-sandbox.ts";

/** Attempts that the kernel refuses whatever rights a sandbox has. */
const REFUSED_BY_KERNEL: Record<string, string> = {
  "CVE-2022-0847 (Dirty Pipe)": "the kernel has no such hole any more",
  SCHED_FIFO: "no share of realtime is given to a cgroup of the first version",
  SCHED_RR: "likewise",
};
/** Attempts that need a power, which the machine's own root may lack. */
const NEEDS: Record<string, string> = {
  SYS_RESOURCE: "CAP_SYS_RESOURCE",
  "write to /proc/sys/user": "CAP_SYS_RESOURCE",
  "more open files than a process may have": "CAP_SYS_RESOURCE",
};

/** A socket without a file, reachable from the machine's network, and a folder that a process holds open. */
const door = createServer();
const held = openSync("/", "r");
const sandbox = new BareSandbox("weakened");
let found: Found;
beforeAll(async () => {
  await new Promise<void>((resolve) => door.listen("\0sandlot-test-door", resolve));
  found = JSON.parse(await sandbox.attacked(["attacks", "weakened"]));
});
afterAll(async () => {
  door.close();
  closeSync(held);
  await sandbox[Symbol.asyncDispose]();
});

const isExcused = (attempt: string) => {
  const power = NEEDS[attempt];
  return attempt in REFUSED_BY_KERNEL || (power !== undefined && !ownCapabilities().includes(power));
};

describe("without isolation, attack", () => {
  test("no system call is filtered", () => {
    expect(found.filtered).toBe(false);
  });

  test.each(ATTACKS.filter(({ inside }) => inside === true).map(({ number, name }) => ({ number, name })))(
    "$number succeeds: $name",
    ({ number }) => {
      const attempts = Object.entries(found.found[number] ?? {});
      expect(attempts.filter(([, outcome]) => outcome.startsWith("open"))).not.toBeEmpty();
      expect(attempts.filter(([attempt, outcome]) => outcome === "refused" && !isExcused(attempt))).toEqual([]);
    },
  );
});
