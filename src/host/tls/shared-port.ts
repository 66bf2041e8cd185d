/**
 * Two listeners on one port, for the moment in which one takes over from the other. Left alone, the kernel would spread
 * new connections over both, and those that the older one has not taken yet would be reset when it closes. So all new
 * ones are led to the newer, and the older closes when nobody has come to it for a while.
 */
import { FFIType, ptr } from "bun:ffi";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { onFirstUse } from "../../work/c-library.ts";

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
/** Of the sockets of one port in the order in which they began to listen: the newer of two. */
const SECOND = 1;

/**
 * From now on, as long as anybody listens on it: where two listeners share the port, new connections go to the newer.
 * (Where there is one, the kernel finds no second and takes that one.) False where the kernel does not do it.
 */
export function leadToNewest(port: number): boolean {
  const instruction = Buffer.alloc(8);
  instruction.writeUInt16LE(BPF_RETURN, 0);
  instruction.writeUInt32LE(SECOND, 4);
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
