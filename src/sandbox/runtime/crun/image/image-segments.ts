/**
 * System V shared memory in a CRIU image. A segment that was removed while attached disappears with its last process
 * (SHM_DEST). CRIU restores such a segment without that flag, because a flagged segment that no process has attached
 * would vanish at once. So such segments are removed again after the restore.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../../../../system/command.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

const SEGMENTS_IMAGE = /^ipcns-shm-\d+\.img$/;
/** Field numbers in a segment's entry and in its System V object. */
const OBJECT = 1;
const MODE = 6;
const ID = 7;
/** Mode bit of a segment that disappears with its last process. */
const SHM_DEST = 0o1000;
/** Segments per call of ipcrm; the length of a command line is limited. */
const AT_ONCE = 1024;

/** Ids of segments in the image that disappear with their last process. */
export function removedSegments(images: string): number[] {
  const names = readdirSync(images).filter((name) => SEGMENTS_IMAGE.test(name));
  const messages = names.flatMap((name) => messagesIn(readFileSync(join(images, name))));
  return messages.flatMap((message) => {
    const object = fieldsOf(message).find(({ number }) => number === OBJECT)?.bytes;
    const fields = object === undefined ? [] : fieldsOf(object);
    return ((numberIn(fields, MODE) ?? 0) & SHM_DEST) === 0 ? [] : [numberIn(fields, ID) ?? 0];
  });
}

/**
 * Removes the segments in the IPC namespace of a process; attached ones stay until they are detached. The sandbox is
 * already running and may have removed some itself, so an error is ignored.
 */
export async function removeSegments(pid: number, segments: readonly number[]): Promise<void> {
  for (let at = 0; at < segments.length; at += AT_ONCE) {
    const ids = segments.slice(at, at + AT_ONCE).flatMap((id) => ["--shmem-id", String(id)]);
    await attempt(["nsenter", `--ipc=/proc/${pid}/ns/ipc`, "--", "ipcrm", ...ids]);
  }
}
