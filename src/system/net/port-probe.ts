/**
 * Dangerous: whether somebody listens at an address, by connect(2) through bun:ffi, without waiting. On a veth pair the
 * answer is there when the call returns: to ask takes a twentieth of what a request takes.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { callResult, errorNumber, onFirstUse, SystemError } from "../../base/c-library.ts";

/** How long a question whether somebody listens may be under way before it is asked anew. */
const PROBE_ANSWER_MS = 50;

const libc = onFirstUse({
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  connect: { args: [FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
});

const AF_INET = 2;
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0o4000 | 0o2000000;
const EISCONN = 106;
/** Of a connection that is on its way, at the first question and at the next ones. */
const EINPROGRESS = 115;
const EALREADY = 114;

export class DoorProbe implements Disposable {
  readonly #to: Uint8Array;
  #fd: number | undefined;
  #since = 0;

  constructor(address: string, port: number) {
    this.#to = new Uint8Array([
      AF_INET,
      0,
      port >> 8,
      port & 255,
      ...address.split(".").map(Number),
      ...Array(8).fill(0),
    ]);
  }

  /** Whether it is known by now that somebody takes connections there. Asked again until it is. */
  isOpen(): boolean {
    const isNew = this.#fd === undefined;
    this.#fd ??= this.#begin();
    let outcome = this.#connect(this.#fd);
    // Said again of the same socket, it tells what became of it.
    if (isNew && outcome === EINPROGRESS) outcome = this.#connect(this.#fd);
    // A first packet that is lost is sent again after a second: another question is answered sooner.
    const isOnItsWay = outcome === EINPROGRESS || outcome === EALREADY;
    if (!isOnItsWay || performance.now() - this.#since > PROBE_ANSWER_MS) this[Symbol.dispose]();
    return outcome === 0 || outcome === EISCONN;
  }

  /** The kernel's number of why it is not connected; 0: it is. */
  #connect(fd: number): number {
    return libc().connect(fd, ptr(this.#to), this.#to.length) === 0 ? 0 : errorNumber();
  }

  #begin(): number {
    const fd = callResult("socket", () => libc().socket(AF_INET, SOCK_STREAM_NONBLOCK_CLOEXEC, 0));
    if (fd instanceof SystemError) throw fd;
    this.#since = performance.now();
    return fd;
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
