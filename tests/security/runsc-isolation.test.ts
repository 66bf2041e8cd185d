/**
 * The isolation of sandboxes with runsc. gVisor decides the outcome of attempts inside; the isolation around it is
 * inspected from the machine. SANDLOT_TEST_LONG=1 also tries resumed and forked sandboxes.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync, readlinkSync } from "node:fs";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { cgroupTrees } from "../../src/system/cgroup/cgroups.ts";
import { freezerOf, processesBelow } from "../../src/system/cgroup/freezer.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { HOST_ID_FIRST } from "../../src/system/id-range.ts";
import { recordOf } from "../support/inside.ts";
import { sharedServer } from "../support/shared-server.ts";
import { until } from "../support/until.ts";
import { brought, forked, resumed } from "./attacks/ways-to-start.ts";
import { testIsolation } from "./isolation.ts";
import { testNetworkIsolation } from "./network-isolation.ts";

const server = sharedServer("runsc");
const MIB = 1024 * 1024;

/** After a restore the guest ends during its first steps and is started again. The test waits this long for it. */
const GUEST_ENDS_WITHIN_MS = 20_000;
const LIVES = LONG ? (["booted", "resumed", "forked"] as const) : (["booted"] as const);

describe.each(LIVES)("a sandbox with runsc, %s", (life) => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    const original = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
    const first = await guestIn(original);
    sandbox = await brought(life, original, server().options);
    if (life === "booted") return;
    const isNew = async () => (await guestIn(sandbox).catch(() => first)) !== first;
    await until("the guest is new", isNew, GUEST_ENDS_WITHIN_MS);
  });

  test("attacks 9, 13, 14 and 16: gVisor's kernel is unprivileged, filtered, and limited by its cgroup", async () => {
    const { cgroup } = recordOf(new DataFolder(server().dataFolder), sandbox.sandboxId);
    // Some are there for as long as a process inside is.
    const looks = (await processesBelow(freezerOf(cgroup))).flatMap(lookAt);
    expect(looks).not.toBeEmpty();
    for (const { status, users } of looks) {
      const [, uid = "0"] = /^Uid:\s+(\d+)/m.exec(status) ?? [];
      expect({ status, isNobody: Number(uid) >= HOST_ID_FIRST }).toEqual({ status, isNobody: true });
      expect(status).toMatch(/^Seccomp:\s+2$/m);
      expect(users).not.toBe(readlinkSync("/proc/self/ns/user"));
    }
    const limit = (...names: string[]) => {
      const files = cgroupTrees().flatMap((tree) => names.map((name) => `${tree}/${cgroup}/${name}`));
      const [text] = files.flatMap((file) => textOf(file));
      return text?.trim().split(" ")[0];
    };
    expect(Number(limit("memory.max", "memory.limit_in_bytes"))).toBeLessThanOrEqual(2 * BASE_TEMPLATE.memoryMB * MIB);
    expect(limit("cpu.max", "cpu.cfs_quota_us")).toBe(String(BASE_TEMPLATE.cpuCount * 100_000));
    expect(Number(limit("pids.max"))).toBeGreaterThan(0);
  });

  testIsolation({ runtime: "runsc", life, server, sandbox: () => sandbox });
});

describe("the network of sandboxes with runsc", () => {
  const make = (more: { allowInternetAccess?: boolean } = {}) =>
    Sandbox.create({ ...server().options, timeoutMs: 600_000, ...more });
  testNetworkIsolation(
    server,
    async () => {
      const [first, second, neighbour] = await Promise.all([make(), make({ allowInternetAccess: false }), make()]);
      // Otherwise tests/functional/isolation/runsc-network.test.ts alone tries those lives.
      if (!LONG) return { open: first, offline: second, neighbour };
      return { open: await forked(first), offline: await resumed(second), neighbour };
    },
    "runsc",
  );
});

/** The guest is the parent of root's commands. */
async function guestIn(sandbox: Sandbox): Promise<string> {
  return (await sandbox.commands.run("echo $PPID", { user: "root" })).stdout;
}

/** Empty for a process that has ended meanwhile. */
function lookAt(pid: number): { status: string; users: string }[] {
  try {
    return [{ status: readFileSync(`/proc/${pid}/status`, "utf8"), users: readlinkSync(`/proc/${pid}/ns/user`) }];
  } catch (error) {
    if (existsSync(`/proc/${pid}/exe`)) throw error;
    return [];
  }
}

function textOf(file: string): string[] {
  try {
    return [readFileSync(file, "utf8")];
  } catch {
    return [];
  }
}
