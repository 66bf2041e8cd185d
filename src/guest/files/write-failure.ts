/** Handles a write that failed midway: removes the partial file and explains the failure to the client. */
import { type FileHandle, lstat, unlink } from "node:fs/promises";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { logError } from "../system/log.ts";
import { quote } from "../system/quote.ts";

const DISK_FULL = new Set(["ENOSPC", "EDQUOT"]);

/** Removes only the file that was being written, not another one that replaced it meanwhile. */
export async function removePartial(path: string, file: FileHandle): Promise<void> {
  try {
    const [ours, present] = await Promise.all([file.stat({ bigint: true }), lstat(path, { bigint: true })]);
    if (ours.dev === present.dev && ours.ino === present.ino) await unlink(path);
  } catch (thrown) {
    if (systemCode(thrown) !== "ENOENT")
      logError("a file that was not written to its end could not be removed", thrown);
  }
}

export function writeFault(path: string, thrown: unknown): unknown {
  const code = systemCode(thrown);
  if (code === "" || code === "ABORT_ERR") return thrown;
  if (DISK_FULL.has(code)) {
    return new Fault(507, `the sandbox's disk is full; ${quote(path)} could not be written`, {
      cause: thrown,
    });
  }
  if (code === "ELOOP") return linkLoopFault(path, thrown);
  // Links on the way may make a short path too long.
  if (code === "ENAMETOOLONG") return new Fault(400, `the path ${quote(path)} is too long`, { cause: thrown });
  return new Fault(500, `${quote(path)} could not be written: ${code}`, { cause: thrown });
}

export function linkLoopFault(path: string, cause: unknown): Fault {
  return new Fault(400, `the symbolic links of ${quote(path)} lead back to themselves`, { cause });
}

export function notRegular(path: string): Fault {
  return new Fault(400, `${quote(path)} is not a regular file`);
}
