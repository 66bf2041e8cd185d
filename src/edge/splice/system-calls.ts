/**
 * System calls for moving bytes between connections without reading them. None blocks except `Events.await`, which is
 * for a dedicated thread. Negative results are errno values.
 */
import { FFIType } from "bun:ffi";
import { closeSync } from "node:fs";
import { errorNumber, onFirstUse, openPipe, pointerTo } from "../../base/c-library.ts";
import { LOCAL_CONGESTION } from "../../base/local-congestion.ts";

const { i32, u32, u64, i64_fast: count, ptr: address } = FFIType;

const libc = onFirstUse({
  splice: { args: [i32, address, i32, address, u64, u32], returns: count },
  fcntl: { args: [i32, i32, u64], returns: i32 },
  epoll_create1: { args: [i32], returns: i32 },
  epoll_ctl: { args: [i32, i32, i32, address], returns: i32 },
  epoll_wait: { args: [i32, address, i32, i32], returns: i32 },
  connect: { args: [i32, address, u32], returns: i32 },
  recv: { args: [i32, address, u64, i32], returns: count },
  setsockopt: { args: [i32, i32, i32, address, u32], returns: i32 },
  poll: { args: [address, u64, i32], returns: i32 },
});

const O_CLOEXEC = 0o2000000;
const F_DUPFD_CLOEXEC = 1030;
const F_SETPIPE_SZ = 1031;
const SPLICE_F_MOVE_NONBLOCK = 1 | 2;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 1;
const EPOLLOUT = 4;
const EPOLLET = 2 ** 31;
const AF_UNSPEC = 0;
const IPPROTO_TCP = 6;
const TCP_CONGESTION = 13;
const TCP_NOTSENT_LOWAT = 25;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const INT_BYTES = 4;
const MSG_PEEK_DONTWAIT = 0x02 | 0x40;

export const EAGAIN = 11;
export const EINVAL = 22;
export const ENOSYS = 38;
export const ECONNRESET = 104;
const EINTR = 4;

/** The struct is packed on x64 only. */
const EVENT_BYTES = process.arch === "x64" ? 12 : 16;
const EVENT_DATA_AT = process.arch === "x64" ? 4 : 8;

function checked(result: number | bigint): number {
  const number = Number(result);
  return number < 0 ? -errorNumber() : number;
}

/** Moves up to this many bytes; one of the two is a pipe. 0: the source has ended. */
export function splice(from: number, to: number, bytes: number): number {
  for (;;) {
    const moved = checked(libc().splice(from, null, to, null, bytes, SPLICE_F_MOVE_NONBLOCK));
    if (moved !== -EINTR) return moved;
  }
}

/** Reads ahead on a connection, up to the length of the buffer, without consuming. 0: it has ended. */
export function peek(from: number, buffer: Uint8Array): number {
  for (;;) {
    const seen = checked(libc().recv(from, pointerTo(buffer), buffer.length, MSG_PEEK_DONTWAIT));
    if (seen !== -EINTR) return seen;
  }
}

/** Both ends of a pipe: the read end and the write end. Throws when there are too many. */
export function pipe(bytes: number): [number, number] {
  const { readEnd, writeEnd } = openPipe();
  // If the pipe cannot be enlarged it is only slower: a user with many large pipes gets no more of them.
  libc().fcntl(writeEnd, F_SETPIPE_SZ, bytes);
  return [readEnd, writeEnd];
}

/** Another descriptor of the same connection, which stays open when the first is closed. */
export function duplicate(fd: number): number {
  return checked(libc().fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

/**
 * Resets the connection at once, whatever other descriptors of it exist: buffered bytes are dropped, and no more can be
 * sent.
 */
export function disconnect(fd: number): void {
  const nowhere = new Uint8Array(16);
  nowhere[0] = AF_UNSPEC;
  libc().connect(fd, pointerTo(nowhere), nowhere.length);
}

/** For a listener that only programs of this machine can reach: applies to connections accepted from now on. */
export function withoutPacing(listener: number): void {
  const name = Buffer.from(LOCAL_CONGESTION);
  libc().setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, pointerTo(name), name.length);
}

/** Limits unsent bytes of a connection; of a listener, those of each connection accepted from now on. */
export function boundUnsent(fd: number, bytes: number): void {
  libc().setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, pointerTo(new Int32Array([bytes])), INT_BYTES);
}

/** Limits received but unread bytes of a connection. With overhead the kernel takes twice as much. */
export function boundReceived(fd: number, bytes: number): void {
  libc().setsockopt(fd, SOL_SOCKET, SO_RCVBUF, pointerTo(new Int32Array([bytes])), INT_BYTES);
}

/** A pollfd: a descriptor and no requested events. The kernel always reports a hangup. */
const POLLED = new Int32Array(2);

/** The other side has reset the connection, or both have ended it. */
export function isHungUp(fd: number): boolean {
  POLLED.set([fd, 0]);
  return libc().poll(pointerTo(POLLED), 1n, 0) > 0;
}

const WATCHED = { orders: EPOLLIN, read: EPOLLIN + EPOLLET, write: EPOLLOUT + EPOLLET } as const;

/** Events on descriptors, each identified by a number. Connections are edge-triggered. */
export class Events {
  readonly #fd: number;
  readonly #buffer: Uint8Array;
  readonly #view: DataView;

  constructor(private readonly maxEvents: number) {
    this.#fd = checked(libc().epoll_create1(O_CLOEXEC));
    if (this.#fd < 0) throw new Error(`the kernel tells no events: error ${-this.#fd}`);
    this.#buffer = new Uint8Array(maxEvents * EVENT_BYTES);
    this.#view = new DataView(this.#buffer.buffer);
  }

  /** `what` to watch for. Orders are level-triggered. */
  add(fd: number, number: number, what: keyof typeof WATCHED): boolean {
    const event = new DataView(new ArrayBuffer(EVENT_BYTES));
    event.setUint32(0, WATCHED[what], true);
    event.setUint32(EVENT_DATA_AT, number, true);
    return libc().epoll_ctl(this.#fd, EPOLL_CTL_ADD, fd, pointerTo(event)) === 0;
  }

  remove(fd: number): void {
    libc().epoll_ctl(this.#fd, EPOLL_CTL_DEL, fd, null);
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** Waits up to this time, -1: without limit; calls back with the number of each event. */
  await(timeoutMs: number, each: (number: number) => void): void {
    const there = libc().epoll_wait(this.#fd, pointerTo(this.#buffer), this.maxEvents, timeoutMs);
    for (let at = 0; at < there; at += 1) each(this.#view.getUint32(at * EVENT_BYTES + EVENT_DATA_AT, true));
  }
}
