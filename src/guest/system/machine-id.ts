/** Gives a copy of a sandbox its own machine id, because programs tell machines apart by /etc/machine-id. */
import { renameSync, writeFileSync } from "node:fs";
import { kernelUuid } from "../../base/kernel-random.ts";
import { systemCode } from "../../base/system-code.ts";
import { logNotice } from "./log.ts";

export function renewMachineId(etc = "/etc"): void {
  try {
    // Renames into place, so that an existing link is replaced and not written through.
    writeFileSync(`${etc}/machine-id.new`, `${kernelUuid().replaceAll("-", "")}\n`, { mode: 0o444 });
    renameSync(`${etc}/machine-id.new`, `${etc}/machine-id`);
  } catch (thrown) {
    logNotice("the copy kept the machine id of its original", { reason: systemCode(thrown) });
  }
}
