/**
 * Dangerous: takes TCP sockets of other processes out of CRIU's repair mode, with pidfd_getfd(2) through bun:ffi. A
 * CRIU that fails in the middle of a socket leaves it in that mode, and every later use of it fails.
 */
import { FFIType } from "bun:ffi";
import { closeSync, readdirSync, readlinkSync } from "node:fs";
import { onFirstUse, pointerTo } from "../../base/c-library.ts";

const libc = onFirstUse({
  syscall: { args: [FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64], returns: FFIType.i64 },
  getsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
  setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
});

/** The same on x64 and arm64. */
const PIDFD_OPEN = 434;
const PIDFD_GETFD = 438;
const IPPROTO_TCP = 6;
const TCP_REPAIR = 19;
const ON = 1;
/** Ends the repair mode without a window probe to the peer. */
const OFF_QUIETLY = -1;
const INT_BYTES = 4;

/** Handles all sockets of these processes. Processes that have ended are skipped. */
export function endTcpRepair(pids: readonly number[]): void {
  const seen = new Set<string>();
  for (const pid of pids) {
    const process = Number(libc().syscall(PIDFD_OPEN, pid, 0, 0));
    if (process < 0) continue;
    try {
      for (const fd of socketsOf(pid, seen)) endRepairOf(process, fd);
    } finally {
      closeSync(process);
    }
  }
}

/** Descriptors of sockets that no earlier process had. */
function socketsOf(pid: number, seen: Set<string>): number[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
      const link = readlinkSync(`/proc/${pid}/fd/${name}`);
      if (!link.startsWith("socket:") || seen.has(link)) return [];
      seen.add(link);
      return [Number(name)];
    });
  } catch {
    // The process has ended, or closed one of them.
    return [];
  }
}

function endRepairOf(process: number, fd: number): void {
  const own = Number(libc().syscall(PIDFD_GETFD, process, fd, 0));
  if (own < 0) return;
  try {
    const [value, bytes] = [new Int32Array(1), new Uint32Array([INT_BYTES])];
    const isTcp = libc().getsockopt(own, IPPROTO_TCP, TCP_REPAIR, pointerTo(value), pointerTo(bytes)) === 0;
    if (!isTcp || value[0] !== ON) return;
    value[0] = OFF_QUIETLY;
    libc().setsockopt(own, IPPROTO_TCP, TCP_REPAIR, pointerTo(value), INT_BYTES);
  } finally {
    closeSync(own);
  }
}
