/** A copy of another sandbox is a machine of its own: programs that tell machines apart by these files must see two. */
import { appendFileSync, renameSync, writeFileSync } from "node:fs";
import { kernelUuid } from "./kernel-random.ts";
import { logNotice } from "./log.ts";
import { systemCode } from "./rpc-fault.ts";

/** The host has given it its name already; here the files follow. */
export function takeOwnIdentity(etc = "/etc"): void {
  try {
    // Here and not for every boot: few sandboxes are copies.
    const hostname = process.getBuiltinModule("node:os").hostname();
    replace(`${etc}/machine-id`, kernelUuid().replaceAll("-", ""), 0o444);
    replace(`${etc}/hostname`, hostname, 0o644);
    appendFileSync(`${etc}/hosts`, `127.0.1.1 ${hostname}\n`);
  } catch (thrown) {
    logNotice("the copy kept files that tell of its original", { reason: systemCode(thrown) });
  }
}

/** Renamed into place: whatever is there now, also a link to elsewhere, is replaced and not written through. */
function replace(path: string, line: string, mode: number): void {
  writeFileSync(`${path}.new`, `${line}\n`, { mode });
  renameSync(`${path}.new`, path);
}
