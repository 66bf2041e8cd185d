/** Translates runsc's checkpoint errors into messages for the client. */
import { Fault } from "../../../contract/fault.ts";

/** runsc names each deleted file by its path below the root or below a mount. */
const DELETED = /gofer\.dentry\("([^"]*)"\)\.beforeSave: deleted and invalidated dentries can't be restored/;
const NO_ROOM = /no space left on device|disk quota exceeded/i;
/** The part of the message with the reason, without runsc's internal details. */
const REASON = /(?:encoding error: )?([^\n]{1,300})/;

export function explain(cause: unknown): Fault {
  const fault = Fault.from(cause);
  if (fault.status !== 500) return fault;
  const { message } = fault;
  const deleted = DELETED.exec(message)?.[1];
  if (deleted !== undefined) {
    return new Fault(
      422,
      `the memory of this sandbox cannot be kept: a process has ${JSON.stringify(`/${deleted}`)} open, which was ` +
        "deleted, and runsc cannot checkpoint that. Close the file, or keep only the files with memory: false",
      { cause },
    );
  }
  if (NO_ROOM.test(message)) {
    return new Fault(507, "the disk has no space for this checkpoint; the sandbox is still running", { cause });
  }
  const reason = REASON.exec(message)?.[1] ?? "it said nothing";
  return new Fault(422, `the memory of this sandbox cannot be kept: ${reason}. memory: false keeps only the files`, {
    cause,
  });
}
