/** Settings of the test's own network namespace. tests/functional/host/host-contract.test.ts has the others. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "../system/command.ts";

const PROGRAM = `
  import { writeFileSync } from "node:fs";
  import { applySettings, readSetting } from ${JSON.stringify(join(import.meta.dir, "host-changes.ts"))};
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "0");
  let failed = false;
  try {
    applySettings({ runFolder: "/run/sandlot/none/at/all", tag: "none" });
  } catch {
    failed = true;
  }
  console.log(JSON.stringify({ failed, forward: readSetting("net.ipv4.ip_forward") }));
`;

// Guards against taking changes of a killed server for the machine's original settings.
test("earlier values are recorded before any change", async () => {
  const output = await run(["unshare", "--net", process.execPath, "-e", PROGRAM]);
  expect(JSON.parse(output)).toEqual({ failed: true, forward: "0" });
});
