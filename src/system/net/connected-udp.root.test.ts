/** The kernel's own tables for real sockets, and those of a kernel that has only one table. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../command.ts";
import { hasConnectedUdp } from "./connected-udp.ts";

type Family = "udp4" | "udp6";

/** Whether it is seen that sockets of this family, alone in a network of their own, do this. */
async function isSeen(family: Family, act: "connect" | "bind", kernelHasIpv6 = true): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-udp-"));
  const script = `
    const { copyFileSync } = require("node:fs");
    const { createSocket } = require("node:dgram");
    createSocket("udp4").bind(999, "127.0.0.1", () => {
      createSocket("${family}").${act}(53, "${family === "udp4" ? "127.0.0.1" : "::1"}", () => {
        for (const name of ["udp", "udp6"]) copyFileSync("/proc/self/net/" + name, "${folder}/" + name);
        process.exit();
      });
    });`;
  try {
    await run(["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", process.execPath, "-e", script]);
    if (!kernelHasIpv6) rmSync(join(folder, "udp6"));
    return await hasConnectedUdp(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test.each<Family>(["udp4", "udp6"])("a connected %s socket is found, a bound one is not", async (family) => {
  expect(await isSeen(family, "connect")).toBe(true);
  expect(await isSeen(family, "bind")).toBe(false);
});

// Guards against requiring both tables.
test("a kernel without IPv6 has no second table", async () => {
  expect(await isSeen("udp4", "bind", false)).toBe(false);
  expect(await isSeen("udp4", "connect", false)).toBe(true);
});

test("an ended process has no sockets", async () => {
  expect(await hasConnectedUdp("/proc/4194304/net")).toBe(false);
});
