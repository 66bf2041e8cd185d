/**
 * Limits for memory that no process holds and that killing processes does not free: tmpfs files and System V IPC
 * objects. All of it counts as the sandbox's memory. Without these limits it could use all of that memory, and the OOM
 * killer would only find the guest to kill, again and again.
 */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { release as osRelease } from "node:os";
import { MIB } from "../../../../contract/limit.ts";
import { pageSize } from "../../../../system/page-size.ts";
import { setIpcNamespace } from "../../../../system/syscalls.ts";

/** Maximum tmpfs sizes, in a sandbox with much memory. */
export const SHM_MAX_MB = 256;
export const RUN_MAX_MB = 64;

/** Enough for devices and a few links. */
const DEV_MAX_INODES = 1024;
/** Approximate memory of a tmpfs file besides its content. */
const INODE_BYTES = 1024;
/** Memory of a queue of one-byte messages, and of a semaphore. */
const QUEUE_BYTES = MIB;
const SEMAPHORE_BYTES = 128;

/** Mount options of each tmpfs. Together they get less than half of the memory, however small it is. */
export function tmpfsBounds(memoryMB: number): Record<"/dev" | "/dev/shm" | "/run", string[]> {
  const inodes = (part: number) => `nr_inodes=${Math.floor((memoryMB * MIB * part) / INODE_BYTES)}`;
  return {
    "/dev": ["size=1m", `nr_inodes=${DEV_MAX_INODES}`],
    "/dev/shm": [`size=${Math.min(SHM_MAX_MB, Math.floor(memoryMB / 4))}m`, inodes(1 / 16)],
    "/run": [`size=${Math.min(RUN_MAX_MB, Math.floor(memoryMB / 16))}m`, inodes(1 / 32)],
  };
}

/** Settings of the IPC namespace: an eighth of the memory for segments, less for queues and semaphores. */
export function ipcBounds(memoryMB: number, pageBytes = pageSize()): Record<string, string> {
  const bytes = memoryMB * MIB;
  return {
    "kernel.shmall": String(Math.floor(bytes / 8 / pageBytes)),
    "kernel.msgmni": String(Math.floor(bytes / 16 / QUEUE_BYTES)),
    "kernel.sem": `32000 ${Math.floor(bytes / 32 / SEMAPHORE_BYTES)} 500 1024`,
  };
}

/** Since Linux 6.9 the sandbox's own root may write them; before, only the host's root. */
export function areIpcBoundsOwn(release = osRelease()): boolean {
  const [major = 0, minor = 0] = release.split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 9);
}

/**
 * Sets the limits on kernels where crun cannot; CRIU stores them on all kernels. The thread enters the namespace for a
 * moment, which is safe because the server uses no IPC objects.
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
