/**
 * Dangerous: checks whether a port is open with a non-blocking connect(2) through bun:ffi. On a veth pair the result is
 * known when the call returns: a probe takes a twentieth of the time of a request.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { callResult, errorNumber, onFirstUse, SystemError } from "../../base/c-library.ts";

/** How long a connection attempt may be pending before a new one starts. */
const PROBE_ANSWER_MS = 50;

const libc = onFirstUse({
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  connect: { args: [FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
});

const AF_INET = 2;
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0o4000 | 0o2000000;
const EISCONN = 106;
/** Errors of a pending connection: at the first call, and at later ones. */
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

  /** Whether the port is known to be open by now. To be called again until it is. */
  isOpen(): boolean {
    const isNew = this.#fd === undefined;
    this.#fd ??= this.#begin();
    let outcome = this.#connect(this.#fd);
    // A second connect on the same socket returns its state.
    if (isNew && outcome === EINPROGRESS) outcome = this.#connect(this.#fd);
    // A lost first packet is sent again only after a second; a new attempt succeeds sooner.
    const isOnItsWay = outcome === EINPROGRESS || outcome === EALREADY;
    if (!isOnItsWay || performance.now() - this.#since > PROBE_ANSWER_MS) this[Symbol.dispose]();
    return outcome === 0 || outcome === EISCONN;
  }

  /** The kernel's error number; 0: connected. */
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
