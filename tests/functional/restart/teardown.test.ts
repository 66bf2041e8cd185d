/** Tears down a server whose sandboxes still run, with its disks mounted in the mount namespace of the teardown. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { attempt } from "../../../src/system/command.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { until } from "../../support/until.ts";

const here = new MachineOfFile("teardown");

test("nothing is left of a data folder on which a sandbox still runs", async () => {
  await here.machine.create(request);
  expect(readFileSync("/proc/self/mountinfo", "utf8")).toContain(`${here.dataFolder}/disks`);
  await here.teardown({ keepData: false });
  expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(here.dataFolder);
  expect(existsSync(here.dataFolder)).toBe(false);
  await until("no device is left of it", async () => {
    const { stdout } = await attempt(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]);
    return !stdout.includes(here.dataFolder);
  });
});
