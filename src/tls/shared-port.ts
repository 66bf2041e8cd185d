/**
 * Lets two generations of listeners share one port while one takes over from the other. By default the kernel would
 * spread new connections over both, and connections that the older one has not accepted would be reset when it closes.
 * So all new connections go to the newer one, and the older one closes when none has arrived for a while.
 */
import { FFIType } from "bun:ffi";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { onFirstUse, pointerTo } from "../base/c-library.ts";

const libc = onFirstUse({
  setsockopt: {
    args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32],
    returns: FFIType.i32,
  },
});

const SOL_SOCKET = 1;
const SO_ATTACH_REUSEPORT_CBPF = 51;
const BPF_RETURN = 6;
const LISTENING = "0A";

/**
 * Sends new connections to the newer of two generations of listeners on a port, for as long as the port has listeners.
 * A generation is one socket of each of `processes`, including this one. The kernel gets the index of the first socket
 * of the second generation, in the order in which they began to listen. With one generation there is no such index, and
 * the kernel spreads connections over all sockets. When a socket closes, the last one takes its index: so while the
 * first generation closes, in whatever order, that index refers to a socket of the second until the first is gone.
 * False where the kernel does not support it.
 */
export function routeToNewestListener(port: number, processes = 1): boolean {
  const instruction = Buffer.alloc(8);
  instruction.writeUInt16LE(BPF_RETURN, 0);
  instruction.writeUInt32LE(processes, 4);
  const program = Buffer.alloc(16);
  program.writeUInt16LE(1, 0);
  program.writeBigUInt64LE(BigInt(pointerTo(instruction)), 8);
  const results = listenersOf(port).map((fd) =>
    libc().setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, pointerTo(program), program.length),
  );
  return results.length > 0 && results.every((result) => result === 0);
}

/** Descriptors of this process that listen on the port; Bun does not expose those of its servers. */
function listenersOf(port: number): number[] {
  const ending = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = ["tcp", "tcp6"].flatMap((table) => readFileSync(`/proc/self/net/${table}`, "utf8").split("\n"));
  const inodes = new Set(
    rows.flatMap((row) => {
      const [, local = "", , state, , , , , , inode = ""] = row.trim().split(/\s+/);
      return local.endsWith(ending) && state === LISTENING ? [`socket:[${inode}]`] : [];
    }),
  );
  return readdirSync("/proc/self/fd").flatMap((fd) => (inodes.has(target(fd)) ? [Number(fd)] : []));
}

function target(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    // The descriptor of the listed folder itself is already closed.
    return "";
  }
}
