/** Reads the steps that the server recorded and detects when it is idle. */
import { existsSync, readFileSync, statSync } from "node:fs";
import type { Step } from "../../src/base/steps.ts";

/** The server writes every tenth of a second. */
const QUIET_MS = 400;
const POLL_MS = 50;
/** The server may have endless work of its own, such as metrics. */
const QUIET_WAIT_MAX_MS = 10_000;
const TICK_MS = 10;

export class StepFile {
  constructor(readonly path: string) {}

  read(): Step[] {
    if (!existsSync(this.path)) return [];
    const lines = readFileSync(this.path, "utf8").split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Step);
  }

  async untilQuiet(): Promise<void> {
    const deadline = performance.now() + QUIET_WAIT_MAX_MS;
    let [size, since] = [this.#size(), performance.now()];
    while (performance.now() - since < QUIET_MS && performance.now() < deadline) {
      await Bun.sleep(POLL_MS);
      const now = this.#size();
      if (now !== size) [size, since] = [now, performance.now()];
    }
  }

  #size(): number {
    return existsSync(this.path) ? statSync(this.path).size : 0;
  }
}

/** Processor time that this machine has used so far, for whatever purpose. */
export function machineMs(): number {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (
    readFileSync("/proc/stat", "utf8").split("\n")[0] ?? ""
  )
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq) * TICK_MS;
}
