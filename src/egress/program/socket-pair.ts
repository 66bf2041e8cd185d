/** Two connected sockets within this process, so that bytes that were read can be read again as a connection. */
import { FFIType } from "bun:ffi";
import { closeSync } from "node:fs";
import { onFirstUse, pointerTo, requireResult } from "../../base/c-library.ts";
import { Peer } from "./peer.ts";

const libc = onFirstUse({
  socketpair: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;

type PeerSocket = Bun.Socket<Peer | undefined>;

/** Neither end is read until it has an owner. */
export async function socketPair(): Promise<[PeerSocket, PeerSocket]> {
  const place = new Int32Array(2);
  const kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  requireResult("socketpair", () => libc().socketpair(AF_UNIX, kind, 0, pointerTo(place)));
  const [one = -1, other = -1] = place;
  const opened = await Promise.allSettled([adopted(one), adopted(other)]);
  const [first, second] = opened;
  if (first?.status === "fulfilled" && second?.status === "fulfilled") return [first.value, second.value];
  for (const [at, end] of opened.entries()) {
    if (end.status === "fulfilled") end.value.terminate();
    else closeSync(place[at] ?? -1);
  }
  throw new Error("a pair of sockets could not be opened");
}

async function adopted(fd: number): Promise<PeerSocket> {
  const socket: Bun.SocketHandler<Peer | undefined> = { ...Peer.handlers, open: (end) => end.pause() };
  const options = { fd, allowHalfOpen: true, data: undefined, socket };
  // The declared overloads lack this form.
  return await Bun.connect<Peer | undefined>(options as unknown as Bun.UnixSocketOptions<Peer | undefined>);
}
