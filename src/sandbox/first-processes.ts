/**
 * Detects which first processes of sandboxes have ended, with one `poll` call for all of them. Each process is held by
 * a pidfd, which never refers to another process that reuses its pid.
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
/** Layout of `struct pollfd`: descriptor, requested events, returned events. */
const POLLED_BYTES = 8;
const ASKED_AT = 4;
const ANSWER_AT = 6;
const HAS_ENDED = 1;

type Process = Pick<SandboxRecord, "pid" | "pidStartTicks">;

interface Watched {
  process: Process;
  /** Undefined where the kernel has no pidfd: then the pid and its start time are compared. */
  fd: number | undefined;
}

export class FirstProcesses {
  readonly #watched = new Map<string, Watched>();
  /** The poll array of processes with a descriptor, and the ids of the others. Undefined: to be rebuilt. */
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

  /** Whether a watched process has not ended. With a pidfd this takes a twentieth of the work. */
  isAlive(id: string): boolean {
    const watched = this.#watched.get(id);
    if (watched === undefined) return false;
    if (watched.fd === undefined) return isAlive(watched.process);
    const polled = entriesOf([watched.fd]);
    return libc().poll(ptr(polled), 1n, 0) === 0 || isAlive(watched.process);
  }

  /** Ids of sandboxes whose process has ended. */
  ended(): string[] {
    this.#list ??= this.#made();
    const { ids, polled, others } = this.#list;
    const asked = [...others];
    // If `poll` fails, for example for lack of memory, the next round asks again.
    if (ids.length > 0 && libc().poll(ptr(polled), BigInt(ids.length), 0) > 0) {
      asked.push(...ids.filter((_, at) => polled.readInt16LE(at * POLLED_BYTES + ANSWER_AT) !== 0));
    }
    // Checked a second way, because a sandbox that counts as lost is destroyed.
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

/** The poll array for these descriptors. */
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
  // The pidfd pins the pid, so this check proves that it is the intended process.
  if (isAlive(process)) return fd;
  closeSync(fd);
  return undefined;
}
