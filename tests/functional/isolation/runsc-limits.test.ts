/**
 * Resource bombs with runsc, in long runs only. The limits are around gVisor's kernel: exceeding them may end the
 * sandbox with its kernel, and never affects others.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { SANDBOX_PIDS_MAX } from "../../../src/contract/runtime/limits.ts";
import { freezerOf, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { memoryInUse } from "../../../src/system/cgroup/memory-in-use.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { recordOf } from "../../support/inside.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
const MIB = 1024 * 1024;
/** The template has 1 GiB. */
const MEMORY_MAX = 1.1 * 1024 * MIB;
const WATCHED_MS = 20_000;

const BOMBS: Readonly<Record<string, string>> = {
  "of processes": "bomb() { bomb | bomb & }; bomb; sleep 600",
  "of memory": "python3 -c 'held = [bytearray(8 << 20) for _ in range(500)]'; sleep 600",
  "of threads": `python3 -c '
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(600,)).start()
    except RuntimeError: time.sleep(0.1)'`,
};

describe.if(LONG)("a bomb with runsc", () => {
  const server = sharedServer("runsc");
  let neighbour: Sandbox;
  beforeAll(async () => {
    neighbour = await Sandbox.create({ ...server().options, ...LIFE });
  });

  test.each(Object.keys(BOMBS))(
    "%s stays within its cgroup, ends at the first kill, and others continue",
    async (name) => {
      const sandbox = await Sandbox.create({ ...server().options, ...LIFE });
      const { cgroup } = recordOf(new DataFolder(server().dataFolder), sandbox.sandboxId);
      const bomb = sandbox.commands.run(BOMBS[name] ?? "", { background: true, timeoutMs: 0 });
      const most = { memory: 0, threads: 0 };
      const end = performance.now() + WATCHED_MS;
      while (performance.now() < end) {
        most.memory = Math.max(most.memory, memoryInUse(cgroup));
        most.threads = Math.max(most.threads, await threadsOf(cgroup));
        expect((await neighbour.commands.run("echo fine")).stdout).toBe("fine\n");
      }
      const runs = await sandbox.isRunning().catch(() => false);
      console.log(`${name}: ${(most.memory / MIB).toFixed(0)} MiB, ${most.threads} threads; it runs: ${runs}`);
      await bomb.catch(() => undefined);
      expect(most.memory).toBeLessThan(MEMORY_MAX);
      expect(most.threads).toBeLessThanOrEqual(2 * SANDBOX_PIDS_MAX);
      await Sandbox.kill(sandbox.sandboxId, server().options);
      await until("nothing of it is left", async () => (await threadsOf(cgroup)) === 0);
      expect((await neighbour.commands.run("echo fine")).stdout).toBe("fine\n");
    },
  );
});

async function threadsOf(cgroup: string): Promise<number> {
  const pids = await processesBelow(freezerOf(cgroup)).catch(() => []);
  return pids.map(threadsOfProcess).reduce((sum, count) => sum + count, 0);
}

function threadsOfProcess(pid: number): number {
  try {
    return Number(/^Threads:\s+(\d+)$/m.exec(readFileSync(join("/proc", String(pid), "status"), "utf8"))?.[1] ?? 0);
  } catch {
    // It has ended.
    return 0;
  }
}
