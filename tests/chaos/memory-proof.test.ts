/**
 * A program that keeps changing 16 MiB of memory, a mapped file and a written file goes through pauses, resumes and
 * forks. Each time all of it is compared byte for byte with the expected content.
 *
 * SANDLOT_TEST_LONG=1 runs 1 000 cycles. Guards against flushing the disk before the processes are frozen
 * (checkpointing.ts): memory is then right, both files are not.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { RUNTIME_NAMES } from "../../src/contract/runtime-name.ts";
import { sharedServer } from "../support/shared-server.ts";
import { until } from "../support/until.ts";
import { LEDGER_PORT, Ledger, type LedgerReport } from "./ledger.ts";

const CYCLES = Number(process.env.SANDLOT_TEST_CYCLES ?? (LONG ? 1_000 : 4));
const FORK_EVERY = 4;
const LIFE_MS = 3_600_000;

/** With runsc a pause takes three times as long. */
const LIVES = {
  crun: { cycles: CYCLES, ms: LONG ? LIFE_MS : 600_000 },
  runsc: { cycles: Math.ceil(CYCLES / 10), ms: LIFE_MS },
} as const;

describe.each(LONG ? RUNTIME_NAMES : (["crun"] as const))("with %s", (runtime) => {
  const { cycles, ms } = LIVES[runtime];
  const server = sharedServer(runtime);

  async function reportOf(id: string): Promise<LedgerReport> {
    const headers = { "e2b-sandbox-id": id, "e2b-sandbox-port": String(LEDGER_PORT) };
    const response = await fetch(server().url, { headers, keepalive: false, signal: AbortSignal.timeout(30_000) });
    if (response.status !== 200) throw new Error(`the program is not reached: ${response.status}`);
    return (await response.json()) as LedgerReport;
  }

  test(
    `memory and files are the same after each of ${cycles} pauses`,
    async () => {
      const sandbox = await Sandbox.create({ ...server().options, timeoutMs: LIFE_MS });
      await sandbox.files.write("/tmp/ledger.py", await Bun.file(join(import.meta.dir, "ledger.py")).text());
      await sandbox.commands.run("setsid python3 /tmp/ledger.py </dev/null >/dev/null 2>&1 &");
      await until("the program answers", () =>
        reportOf(sandbox.sandboxId).then(
          () => true,
          () => false,
        ),
      );

      const ledger = Ledger.empty();
      let before = 0;
      for (let cycle = 1; cycle <= cycles; cycle++) {
        if (cycle % FORK_EVERY === 0) {
          const [fork] = await sandbox.fork({ count: 1, timeoutMs: LIFE_MS });
          if (!(fork instanceof Sandbox)) throw fork;
          const copy = ledger.copy();
          const report = await reportOf(fork.sandboxId);
          expect(report, `the fork in cycle ${cycle}`).toEqual(copy.after(report.steps));
          await fork.kill();
        }
        expect(await sandbox.pause()).toBe(true);
        await sandbox.connect({ timeoutMs: LIFE_MS });
        const report = await reportOf(sandbox.sandboxId);
        expect(report, `cycle ${cycle}`).toEqual(ledger.after(report.steps));
        // It never began anew, and goes on.
        expect(report.steps).toBeGreaterThanOrEqual(before);
        const hasGoneOn = async () => report.steps > before || (await reportOf(sandbox.sandboxId)).steps > before;
        await until("it goes on", hasGoneOn);
        before = report.steps;
      }
      await sandbox.kill();
    },
    ms,
  );
});
