/**
 * Two generations of listeners on one port, for the moment in which one takes over from the other. Left alone, the
 * kernel would spread new connections over both, and those that the older one has not taken yet would be reset when it
 * closes. So all new ones are led to the newer, and the older closes when nobody has come to it for a while.
 */
import { FFIType, ptr } from "bun:ffi";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { onFirstUse } from "../base/c-library.ts";

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
 * From now on, as long as anybody listens on it: where two generations of listeners share the port, new connections go
 * to the newer. A generation is one socket of each of `processes`, this one among them. The kernel is told the number
 * of the first socket of the second generation, in the order in which they began to listen. Where there is one
 * generation there is no such number, and it spreads connections over all. When a socket closes, the last takes its
 * number: so while the first generation goes, in whatever order, that number means a socket of the second until none of
 * the first is left. False where the kernel does not do it.
 */
export function leadToNewest(port: number, processes = 1): boolean {
  const instruction = Buffer.alloc(8);
  instruction.writeUInt16LE(BPF_RETURN, 0);
  instruction.writeUInt32LE(processes, 4);
  const program = Buffer.alloc(16);
  program.writeUInt16LE(1, 0);
  program.writeBigUInt64LE(BigInt(ptr(instruction)), 8);
  const results = listenersOf(port).map((fd) =>
    libc().setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ptr(program), program.length),
  );
  return results.length > 0 && results.every((result) => result === 0);
}

/** Descriptors of this process that listen on the port: Bun does not tell those of its servers. */
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
    // The one of the folder itself is closed by now.
    return "";
  }
}
