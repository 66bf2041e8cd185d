/**
 * Bounds on memory of a sandbox that no process of it holds, and that ending processes does not give back: files in
 * memory and what System V's calls keep. All of it counts as the sandbox's memory. Without bounds of its own it could
 * be all of that, and the guest would be the only one left to end, again and again.
 */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { release as osRelease } from "node:os";
import { pageSize } from "../../../../system/page-size.ts";
import { setIpcNamespace } from "../../../../system/syscalls.ts";

/** Of files in memory, in a sandbox of much memory. */
export const SHM_MAX_MB = 256;
export const RUN_MAX_MB = 64;

const MIB = 1024 * 1024;
/** Devices, and a few links. */
const DEV_MAX_INODES = 1024;
/** A file in memory takes about so much besides what is in it. */
const INODE_BYTES = 1024;
/** A queue of messages of one byte each, and a semaphore. */
const QUEUE_BYTES = MIB;
const SEMAPHORE_BYTES = 128;

/** Options of a tmpfs, by where it is. Together they have less than half of the memory, however small it is. */
export function tmpfsBounds(memoryMB: number): Record<"/dev" | "/dev/shm" | "/run", string[]> {
  const inodes = (part: number) => `nr_inodes=${Math.floor((memoryMB * MIB * part) / INODE_BYTES)}`;
  return {
    "/dev": ["size=1m", `nr_inodes=${DEV_MAX_INODES}`],
    "/dev/shm": [`size=${Math.min(SHM_MAX_MB, Math.floor(memoryMB / 4))}m`, inodes(1 / 16)],
    "/run": [`size=${Math.min(RUN_MAX_MB, Math.floor(memoryMB / 16))}m`, inodes(1 / 32)],
  };
}

/** Settings of its IPC namespace: an eighth of the memory for segments, less for queues and semaphores. */
export function ipcBounds(memoryMB: number, pageBytes = pageSize()): Record<string, string> {
  const bytes = memoryMB * MIB;
  return {
    "kernel.shmall": String(Math.floor(bytes / 8 / pageBytes)),
    "kernel.msgmni": String(Math.floor(bytes / 16 / QUEUE_BYTES)),
    "kernel.sem": `32000 ${Math.floor(bytes / 32 / SEMAPHORE_BYTES)} 500 1024`,
  };
}

/** Since Linux 6.9 they are its own root's to write; before, the machine's. */
export function areIpcBoundsOwn(release = osRelease()): boolean {
  const [major = 0, minor = 0] = release.split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 9);
}

/**
 * For kernels on which crun cannot. CRIU keeps them on all. This thread is in that namespace for the moment; nothing
 * here uses any.
 */
export function boundIpc(pid: number, memoryMB: number): void {
  const own = openSync("/proc/thread-self/ns/ipc", "r");
  try {
    const theirs = openSync(`/proc/${pid}/ns/ipc`, "r");
    try {
      setIpcNamespace(theirs);
    } finally {
      closeSync(theirs);
    }
    try {
      for (const [name, value] of Object.entries(ipcBounds(memoryMB))) writeFileSync(settingFile(name), value);
    } finally {
      setIpcNamespace(own);
    }
  } finally {
    closeSync(own);
  }
}

function settingFile(name: string): string {
  return `/proc/sys/${name.replaceAll(".", "/")}`;
}
