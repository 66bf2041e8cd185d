/** A copy of another sandbox is a machine of its own: programs that tell machines apart by this file must see two. */
import { renameSync, writeFileSync } from "node:fs";
import { kernelUuid } from "./kernel-random.ts";
import { logNotice } from "./log.ts";
import { systemCode } from "./rpc-fault.ts";

export function takeOwnIdentity(etc = "/etc"): void {
  try {
    // Renamed into place: whatever is there now, also a link to elsewhere, is replaced and not written through.
    writeFileSync(`${etc}/machine-id.new`, `${kernelUuid().replaceAll("-", "")}\n`, { mode: 0o444 });
    renameSync(`${etc}/machine-id.new`, `${etc}/machine-id`);
  } catch (thrown) {
    logNotice("the copy kept the machine id of its original", { reason: systemCode(thrown) });
  }
}
