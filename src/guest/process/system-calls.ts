/** C library calls on raw descriptors, which Bun has no function for. Unchecked, so only for this folder. */
import { FFIType } from "bun:ffi";
import { statSync } from "node:fs";
import { onFirstUse, pointerTo } from "../../base/c-library.ts";
import { systemCode } from "../../base/system-code.ts";
import type { Account } from "../users/accounts.ts";

const O_NONBLOCK = 0o4000;
const F_SETFL = 4;
const F_SETPIPE_SZ = 1031;
const TCXONC = 0x540a;
const FIONREAD = 0x541b;
const RLIMIT_NPROC = 6;
const PRIO_PROCESS = 0;
const SCHED_OTHER = 0;
const SCHED_RESET_ON_FORK = 0x40000000;
const PER_LINUX = 0n;

/** System calls by number, because the C library's functions change all threads. */
const CALLS = process.arch === "arm64" ? { setgroups: 159n, prctl: 167n } : { setgroups: 116n, prctl: 157n };
const PR_SET_DUMPABLE = 4n;

/** User and groups of a process. */
export interface Identity {
  uid: number;
  gid: number;
  groups: readonly number[];
}

const library = onFirstUse({
  fcntl: { args: ["int", "int", "int"], returns: "int" },
  ioctl: { args: ["int", "u64", "u64"], returns: "int" },
  getrlimit: { args: ["int", "ptr"], returns: "int" },
  setrlimit: { args: ["int", "ptr"], returns: "int" },
  sched_setscheduler: { args: ["int", "int", "ptr"], returns: "int" },
  setpriority: { args: ["int", "int", "int"], returns: "int" },
  getgroups: { args: ["int", "ptr"], returns: "int" },
  personality: { args: ["u64"], returns: "int" },
  setfsuid: { args: ["int"], returns: "int" },
  setfsgid: { args: ["int"], returns: "int" },
  syscall: { args: ["u64", "u64", "u64", "u64"], returns: FFIType.i64_fast },
});

/** Only for the guest's end of a pipe: programs at the other end expect blocking reads and writes. */
export function setNonBlocking(fd: number): void {
  if (library().fcntl(fd, F_SETFL, O_NONBLOCK) !== 0) throw new Error("a pipe could not be made non-blocking");
}

/** For a reader that takes over the pipe and expects blocking reads. */
export function setBlocking(fd: number): void {
  if (library().fcntl(fd, F_SETFL, 0) !== 0) throw new Error("a pipe could not be made blocking");
}

/** Returns false if the kernel refuses. */
export function resizePipe(fd: number, bytes: number): boolean {
  return library().fcntl(fd, F_SETPIPE_SZ, bytes) >= bytes;
}

const waiting = new Int32Array(1);

/** Number of unread bytes in a pipe. */
export function waitingInPipe(fd: number): number {
  return library().ioctl(fd, BigInt(FIONREAD), BigInt(pointerTo(waiting))) === 0 ? (waiting[0] ?? 0) : 0;
}

/** Suspends or resumes the output of a terminal. Returns false if the kernel refuses. */
export function setTerminalOutput(fd: number, action: "suspend" | "resume"): boolean {
  return library().ioctl(fd, BigInt(TCXONC), action === "suspend" ? 0n : 1n) === 0;
}

/** Lowers the process limit of this process and its children until the returned function is called. */
export function lowerProcessesMax(count: number): (() => void) | undefined {
  const [now, hardest] = [0, 1];
  const before = new BigUint64Array(2);
  if (library().getrlimit(RLIMIT_NPROC, pointerTo(before)) !== 0) return undefined;
  if ((before[now] ?? 0n) <= BigInt(count)) return undefined;
  const lower = new BigUint64Array([BigInt(count), before[hardest] ?? 0n]);
  if (library().setrlimit(RLIMIT_NPROC, pointerTo(lower)) !== 0) return undefined;
  return () => void library().setrlimit(RLIMIT_NPROC, pointerTo(before));
}

/** Children of this thread start at niceness 0 if the thread itself has a higher priority. This cannot be undone. */
export function resetPriorityOnFork(): boolean {
  return library().sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, pointerTo(new Int32Array(1))) === 0;
}

/** Programs that this thread starts get random addresses; the guest of a sandbox that shares memory has none. */
export function randomizeAddressesOnExec(): boolean {
  return library().personality(PER_LINUX) !== -1;
}

/** Returns false if the kernel refuses or the process is gone. */
export function setNiceness(pid: number, niceness: number): boolean {
  return library().setpriority(PRIO_PROCESS, pid, niceness) === 0;
}

/** Why a user cannot enter a directory. The kernel decides: this thread briefly takes the user's rights. */
export function entryRefusal(directory: string, { uid, gid, groups }: Account): string | undefined {
  const own = { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0, groups: ownGroups() };
  setRights(uid, gid, groups);
  try {
    // Looking up "." requires the right to enter the directory.
    statSync(`${directory}/.`);
    return undefined;
  } catch (thrown) {
    return systemCode(thrown);
  } finally {
    setRights(own.uid, own.gid, own.groups);
    openMemoryAgain();
  }
}

/** The exact list: Node's always includes the primary group. */
function ownGroups(): number[] {
  const groups = new Uint32Array(Math.max(1, library().getgroups(0, null)));
  return [...groups.subarray(0, Math.max(0, library().getgroups(groups.length, pointerTo(groups))))];
}

/** Applies to this thread only. */
function setRights(uid: number, gid: number, groups: readonly number[]): void {
  const list = Uint32Array.of(...groups, 0);
  library().syscall(CALLS.setgroups, BigInt(groups.length), BigInt(pointerTo(list)), 0n);
  library().setfsgid(gid);
  library().setfsuid(uid);
}

/**
 * Restores the dumpable flag, which a change of rights clears. Without it /proc/self belongs to the owner of the
 * memory, and after a restore that owner does not exist in the sandbox.
 */
function openMemoryAgain(): void {
  library().syscall(CALLS.prctl, PR_SET_DUMPABLE, 1n, 0n);
}
