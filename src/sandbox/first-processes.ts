/**
 * Which first processes of sandboxes have ended: one question to the kernel for all of them, however many there are.
 * Each is held by a descriptor, which never means another process that has got its number.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { onFirstUse } from "../base/c-library.ts";
import { isAlive, type SandboxRecord } from "./sandbox-record.ts";

const { i32, i64, u64, ptr: pointer } = FFIType;
const libc = onFirstUse({
  syscall: { args: [i64, i64, i64], returns: i64 },
  poll: { args: [pointer, u64, i32], returns: i32 },
});

const PIDFD_OPEN = 434;
/** A descriptor, what is asked of it, and what is answered. */
const POLLED_BYTES = 8;
const ASKED_AT = 4;
const ANSWER_AT = 6;
const HAS_ENDED = 1;

type Process = Pick<SandboxRecord, "pid" | "pidStartTicks">;

interface Watched {
  process: Process;
  /** Undefined where the kernel gives none: then its number and its beginning are looked at. */
  fd: number | undefined;
}

export class FirstProcesses {
  readonly #watched = new Map<string, Watched>();
  /** Those with a descriptor, as the kernel is asked, and the others; undefined: it is to be made anew. */
  #list: { ids: string[]; polled: Buffer; others: string[] } | undefined;

  watch(id: string, process: Process): void {
    this.leave(id);
    this.#watched.set(id, { process, fd: descriptorOf(process) });
    this.#list = undefined;
  }

  leave(id: string): void {
    const watched = this.#watched.get(id);
    if (watched === undefined) return;
    this.#watched.delete(id);
    this.#list = undefined;
    if (watched.fd !== undefined) closeSync(watched.fd);
  }

  /** One that is watched and has not ended: with a descriptor a twentieth of the work that it is without. */
  isAlive(id: string): boolean {
    const watched = this.#watched.get(id);
    if (watched === undefined) return false;
    if (watched.fd === undefined) return isAlive(watched.process);
    const polled = entriesOf([watched.fd]);
    return libc().poll(ptr(polled), 1n, 0) === 0 || isAlive(watched.process);
  }

  /** Ids of those whose process has ended. */
  ended(): string[] {
    this.#list ??= this.#made();
    const { ids, polled, others } = this.#list;
    const asked = [...others];
    // Those that cannot be asked, such as for want of memory, are asked again soon.
    if (ids.length > 0 && libc().poll(ptr(polled), BigInt(ids.length), 0) > 0) {
      asked.push(...ids.filter((_, at) => polled.readInt16LE(at * POLLED_BYTES + ANSWER_AT) !== 0));
    }
    // By two witnesses: what is taken for lost is destroyed.
    return asked.filter((id) => {
      const watched = this.#watched.get(id);
      return watched !== undefined && !isAlive(watched.process);
    });
  }

  #made() {
    const held = [...this.#watched].filter(([, { fd }]) => fd !== undefined);
    const polled = entriesOf(held.map(([, { fd = -1 }]) => fd));
    const others = [...this.#watched].flatMap(([id, { fd }]) => (fd === undefined ? [id] : []));
    return { ids: held.map(([id]) => id), polled, others };
  }
}

/** As the kernel is asked whether they have ended. */
function entriesOf(fds: readonly number[]): Buffer {
  const polled = Buffer.alloc(Math.max(1, fds.length) * POLLED_BYTES);
  for (const [at, fd] of fds.entries()) {
    polled.writeInt32LE(fd, at * POLLED_BYTES);
    polled.writeInt16LE(HAS_ENDED, at * POLLED_BYTES + ASKED_AT);
  }
  return polled;
}

function descriptorOf(process: Process): number | undefined {
  const fd = Number(libc().syscall(PIDFD_OPEN, process.pid, 0));
  if (fd < 0) return undefined;
  // Now that its number cannot pass to another: it is the one that is meant.
  if (isAlive(process)) return fd;
  closeSync(fd);
  return undefined;
}
