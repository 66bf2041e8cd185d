/**
 * The few calls into the C library that Bun has no function for. Everything here works on raw descriptors: a wrong
 * number is not caught by anybody, so nothing but this folder may use it.
 */
import { FFIType, ptr } from "bun:ffi";
import { statSync } from "node:fs";
import { callResult, onFirstUse, SystemError } from "../../base/c-library.ts";
import { systemCode } from "../system/rpc-fault.ts";
import type { Account } from "../users/accounts.ts";

const O_CLOEXEC = 0o2000000;
const O_NONBLOCK = 0o4000;
const F_SETFL = 4;
const F_SETPIPE_SZ = 1031;
const TCXONC = 0x540a;
const FIONREAD = 0x541b;
const RLIMIT_NPROC = 6;
const PRIO_PROCESS = 0;
const SCHED_OTHER = 0;
const SCHED_RESET_ON_FORK = 0x40000000;

/** By number: the C library's own functions change all threads. */
const CALLS = process.arch === "arm64" ? { setgroups: 159n, prctl: 167n } : { setgroups: 116n, prctl: 157n };
const PR_SET_DUMPABLE = 4n;

/** As whom a process runs. */
export interface Identity {
  uid: number;
  gid: number;
  groups: readonly number[];
}

const library = onFirstUse({
  pipe2: { args: ["ptr", "int"], returns: "int" },
  fcntl: { args: ["int", "int", "int"], returns: "int" },
  ioctl: { args: ["int", "u64", "u64"], returns: "int" },
  getrlimit: { args: ["int", "ptr"], returns: "int" },
  setrlimit: { args: ["int", "ptr"], returns: "int" },
  sched_setscheduler: { args: ["int", "int", "ptr"], returns: "int" },
  setpriority: { args: ["int", "int", "int"], returns: "int" },
  getgroups: { args: ["int", "ptr"], returns: "int" },
  setfsuid: { args: ["int"], returns: "int" },
  setfsgid: { args: ["int"], returns: "int" },
  syscall: { args: ["u64", "u64", "u64", "u64"], returns: FFIType.i64_fast },
});

/** A pipe whose ends are closed on exec. */
export function openPipe(): { readEnd: number; writeEnd: number } {
  const ends = new Int32Array(2);
  const made = callResult("making a pipe", () => library().pipe2(ptr(ends), O_CLOEXEC));
  if (made instanceof SystemError) throw made;
  return { readEnd: ends[0] ?? -1, writeEnd: ends[1] ?? -1 };
}

/** For our end of a pipe only: programs at the other end expect to wait. */
export function setNonBlocking(fd: number): void {
  if (library().fcntl(fd, F_SETFL, O_NONBLOCK) !== 0) throw new Error("a pipe could not be made non-blocking");
}

/** For who reads after us, and expects to wait. */
export function setBlocking(fd: number): void {
  if (library().fcntl(fd, F_SETFL, 0) !== 0) throw new Error("a pipe could not be made blocking");
}

/** False when the kernel refuses. */
export function resizePipe(fd: number, bytes: number): boolean {
  return library().fcntl(fd, F_SETPIPE_SZ, bytes) >= bytes;
}

const waiting = new Int32Array(1);

/** How many bytes wait to be read from a pipe. */
export function waitingInPipe(fd: number): number {
  return library().ioctl(fd, BigInt(FIONREAD), BigInt(ptr(waiting))) === 0 ? (waiting[0] ?? 0) : 0;
}

/** Suspends or resumes the output of a terminal. False when the kernel refuses. */
export function setTerminalOutput(fd: number, action: "suspend" | "resume"): boolean {
  return library().ioctl(fd, BigInt(TCXONC), action === "suspend" ? 0n : 1n) === 0;
}

/**
 * Lowers how many processes its user may have, for this one and what it starts, until the returned function is called.
 */
export function lowerProcessesMax(count: number): (() => void) | undefined {
  const [now, hardest] = [0, 1];
  const before = new BigUint64Array(2);
  if (library().getrlimit(RLIMIT_NPROC, ptr(before)) !== 0) return undefined;
  if ((before[now] ?? 0n) <= BigInt(count)) return undefined;
  const lower = new BigUint64Array([BigInt(count), before[hardest] ?? 0n]);
  if (library().setrlimit(RLIMIT_NPROC, ptr(lower)) !== 0) return undefined;
  return () => void library().setrlimit(RLIMIT_NPROC, ptr(before));
}

/**
 * What this thread starts from now on begins at niceness 0, if the thread itself is ahead of that. It cannot be taken
 * back.
 */
export function keepPriorityToOneself(): boolean {
  return library().sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, ptr(new Int32Array(1))) === 0;
}

/** False when the kernel refuses, or the process is gone. */
export function setNiceness(pid: number, niceness: number): boolean {
  return library().setpriority(PRIO_PROCESS, pid, niceness) === 0;
}

/**
 * Why a user cannot enter a directory, as the system's code. Asked of the kernel, with the user's rights to files in
 * place of ours for the moment, in this thread alone.
 */
export function whyBarred(directory: string, { uid, gid, groups }: Account): string | undefined {
  const own = { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0, groups: ownGroups() };
  setRights(uid, gid, groups);
  try {
    // The last step is a look for a name in it, which takes the right to enter it.
    statSync(`${directory}/.`);
    return undefined;
  } catch (thrown) {
    return systemCode(thrown);
  } finally {
    setRights(own.uid, own.gid, own.groups);
    openMemoryAgain();
  }
}

/** As they are: Node's list has the primary one in any case. */
function ownGroups(): number[] {
  const groups = new Uint32Array(Math.max(1, library().getgroups(0, null)));
  return [...groups.subarray(0, Math.max(0, library().getgroups(groups.length, ptr(groups))))];
}

/** Of this thread alone. */
function setRights(uid: number, gid: number, groups: readonly number[]): void {
  const list = Uint32Array.of(...groups, 0);
  library().syscall(CALLS.setgroups, BigInt(groups.length), BigInt(ptr(list)), 0n);
  library().setfsgid(gid);
  library().setfsuid(uid);
}

/**
 * After another's rights: since then, what the kernel shows of this program belongs to whoever made its memory. If the
 * program was restored, that is nobody in the sandbox.
 */
function openMemoryAgain(): void {
  library().syscall(CALLS.prctl, PR_SET_DUMPABLE, 1n, 0n);
}
