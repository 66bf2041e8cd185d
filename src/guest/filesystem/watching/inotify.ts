/**
 * The three inotify calls that Bun has no function for, and the layout of the events. A wrong descriptor number would
 * go unnoticed, so the descriptor never leaves this file.
 */
import { closeSync } from "node:fs";
import { cString, onFirstUse, requireResult } from "../../../base/c-library.ts";

const IN_CLOEXEC = 0o2000000;
const IN_NONBLOCK = 0o4000;
const HEAD_BYTES = 16;

/** Event bits, as in <sys/inotify.h>. */
export const IN = {
  MODIFY: 0x2,
  ATTRIB: 0x4,
  MOVED_FROM: 0x40,
  MOVED_TO: 0x80,
  CREATE: 0x100,
  DELETE: 0x200,
  DELETE_SELF: 0x400,
  MOVE_SELF: 0x800,
  UNMOUNT: 0x2000,
  Q_OVERFLOW: 0x4000,
  IGNORED: 0x8000,
  ONLYDIR: 0x1000000,
  ISDIR: 0x40000000,
} as const;

const DIRECTORY_MASK =
  IN.MODIFY |
  IN.ATTRIB |
  IN.MOVED_FROM |
  IN.MOVED_TO |
  IN.CREATE |
  IN.DELETE |
  IN.DELETE_SELF |
  IN.MOVE_SELF |
  IN.ONLYDIR;

/** A regular file, so it is never one of the watched directories. It exists as long as this program runs. */
const FENCE_FILE = "/proc/self/exe";

export interface InotifyEvent {
  wd: number;
  mask: number;
  /** Equal for the two halves of one rename. */
  cookie: number;
  /** Empty if the event is about the watched directory itself. */
  name: string;
}

const library = onFirstUse({
  inotify_init1: { args: ["int"], returns: "int" },
  inotify_add_watch: { args: ["int", "cstring", "u32"], returns: "int" },
  inotify_rm_watch: { args: ["int", "int"], returns: "int" },
});

/** One inotify instance. After `close` it does nothing. */
export class Inotify {
  readonly #fd: number;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #closed = false;

  constructor() {
    this.#fd = requireResult("inotify_init1", () => library().inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    // Bun polls a duplicate of the descriptor in its event loop, so no thread blocks in a read.
    this.#reader = Bun.file(this.#fd).stream().getReader();
  }

  /** Watches a directory. The same directory by another path gets the same number. */
  add(path: string): number {
    return this.#add(path, DIRECTORY_MASK);
  }

  /** An error is ignored: the kernel has already dropped the watches of deleted directories. */
  remove(wd: number): void {
    if (!this.#closed) library().inotify_rm_watch(this.#fd, wd);
  }

  /** Places a mark in the queue after all events so far: an IGNORED event with the returned number. */
  fence(): number {
    const wd = this.#add(FENCE_FILE, IN.DELETE_SELF);
    this.remove(wd);
    return wd;
  }

  /** Batches of events, each as large as the kernel's queue at that time. Ends after `close`. */
  async *batches(): AsyncGenerator<InotifyEvent[]> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      yield parseEvents(value);
    }
  }

  /** Also ends a pending read. Safe to call more than once. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#fd);
    await this.#reader.cancel();
  }

  #add(path: string, mask: number): number {
    if (this.#closed) throw new Error("this inotify instance is closed");
    const place = cString(path);
    return requireResult("inotify_add_watch", () => library().inotify_add_watch(this.#fd, place, mask));
  }
}

function parseEvents(bytes: Uint8Array): InotifyEvent[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const events: InotifyEvent[] = [];
  for (let at = 0; at < buffer.length; ) {
    const nameAt = at + HEAD_BYTES;
    const end = nameAt + buffer.readUInt32LE(at + 12);
    const zero = buffer.indexOf(0, nameAt);
    events.push({
      wd: buffer.readInt32LE(at),
      mask: buffer.readUInt32LE(at + 4),
      cookie: buffer.readUInt32LE(at + 8),
      name: buffer.toString("utf8", nameAt, zero < 0 ? end : Math.min(zero, end)),
    });
    at = end;
  }
  return events;
}
