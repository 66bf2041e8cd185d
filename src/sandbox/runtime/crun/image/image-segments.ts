/**
 * System V shared memory in a memory image as CRIU writes it. A segment that was removed while processes had it
 * attached goes with the last of them (SHM_DEST). CRIU makes such a segment again without that mark, because a segment
 * that has the mark and is attached by nobody would be gone at once. So the mark is set after the restore.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../../../../system/command.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

const SEGMENTS_IMAGE = /^ipcns-shm-\d+\.img$/;
/** Numbers of the fields in a message about a segment, and in what it says of every object of System V. */
const OBJECT = 1;
const MODE = 6;
const ID = 7;
/** The bit in the mode of a segment that goes with its last process. */
const SHM_DEST = 0o1000;
/** In one call of the tool: a command line has a bound. */
const AT_ONCE = 1024;

/** The ids of segments in the image that go with their last process. */
export function passingSegments(images: string): number[] {
  const names = readdirSync(images).filter((name) => SEGMENTS_IMAGE.test(name));
  const messages = names.flatMap((name) => messagesIn(readFileSync(join(images, name))));
  return messages.flatMap((message) => {
    const object = fieldsOf(message).find(({ number }) => number === OBJECT)?.bytes;
    const fields = object === undefined ? [] : fieldsOf(object);
    return ((numberIn(fields, MODE) ?? 0) & SHM_DEST) === 0 ? [] : [numberIn(fields, ID) ?? 0];
  });
}

/**
 * Removes them in the IPC namespace of a process: those that are attached stay until they are not. The sandbox runs
 * already and may have removed some itself, so a refusal is no failure.
 */
export async function markPassing(pid: number, segments: readonly number[]): Promise<void> {
  for (let at = 0; at < segments.length; at += AT_ONCE) {
    const ids = segments.slice(at, at + AT_ONCE).flatMap((id) => ["--shmem-id", String(id)]);
    await attempt(["nsenter", `--ipc=/proc/${pid}/ns/ipc`, "--", "ipcrm", ...ids]);
  }
}
