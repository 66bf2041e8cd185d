/**
 * Tells systemd how the server is doing, if systemd started it: sd_notify(3). The messages are datagrams to a socket
 * that the environment names.
 */
import { FFIType } from "bun:ffi";
import { closeSync, existsSync } from "node:fs";
import { onFirstUse, pointerTo, requireResult } from "../base/c-library.ts";
import { described, type Log } from "../base/log.ts";

const libc = onFirstUse({
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  sendto: {
    args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32, FFIType.ptr, FFIType.u32],
    returns: FFIType.i64,
  },
});
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const ADDRESS_FAMILY_BYTES = 2;

/** A late turn of the event loop must not count as a hang. */
const PINGS_PER_TIMEOUT = 3;

/** Whether systemd manages the services of this machine: sd_booted(3). */
export function isRunningSystemd(): boolean {
  return existsSync("/run/systemd/system");
}

type Environment = Readonly<Record<string, string | undefined>>;

export class ServiceNotices {
  readonly #socket: string | undefined;
  readonly #timeoutMs: number;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(
    env: Environment,
    private readonly log: Log,
  ) {
    this.#socket = env.NOTIFY_SOCKET || undefined;
    const isOurs = env.WATCHDOG_PID === undefined || Number(env.WATCHDOG_PID) === process.pid;
    this.#timeoutMs = isOurs ? Number(env.WATCHDOG_USEC ?? 0) / 1000 : 0;
  }

  /** From now on systemd also kills and restarts a server whose event loop hangs. */
  ready(status: string): void {
    this.#send(`READY=1\nSTATUS=${status}`);
    if (this.#timeoutMs > 0) {
      this.#timer = setInterval(() => this.#send("WATCHDOG=1"), this.#timeoutMs / PINGS_PER_TIMEOUT);
    }
  }

  stopping(): void {
    clearInterval(this.#timer);
    this.#send("STOPPING=1");
  }

  #send(message: string): void {
    if (this.#socket === undefined) return;
    try {
      send(this.#socket, message);
    } catch (error) {
      this.log.write({ level: "warn", event: "systemd could not be notified", error: described(error) });
    }
  }
}

function send(socket: string, message: string): void {
  // "@" stands for the zero byte of an abstract name.
  const name = Buffer.from(socket.replace(/^@/, "\0"));
  const address = Buffer.alloc(ADDRESS_FAMILY_BYTES + name.length);
  address.writeUInt16LE(AF_UNIX);
  name.copy(address, ADDRESS_FAMILY_BYTES);
  const bytes = Buffer.from(message);
  const fd = requireResult("socket", () => libc().socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  try {
    const flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    requireResult(`sendto ${socket}`, () =>
      Number(libc().sendto(fd, pointerTo(bytes), BigInt(bytes.length), flags, pointerTo(address), address.length)),
    );
  } finally {
    closeSync(fd);
  }
}
