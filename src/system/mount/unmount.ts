/** Unmounts a filesystem and waits while it is busy. */
import { scaled } from "../../base/time-factor.ts";
import { attempt, type CommandOptions, commandFailed } from "../command.ts";

const BUSY_MS = scaled(10_000);
const BUSY_POLL_MS = 10;

/**
 * Unmounts a filesystem; when it resolves, everything is in its file. A program that another thread is starting holds
 * this process's open files for a moment, also those that are closed here, and the kernel then says that the filesystem
 * is busy.
 */
export async function unmount(path: string, options: CommandOptions = {}, busyMs = BUSY_MS): Promise<void> {
  const argv = ["umount", path];
  for (const deadline = performance.now() + busyMs; ; await Bun.sleep(BUSY_POLL_MS)) {
    const result = await attempt(argv, options);
    if (result.exitCode === 0) return;
    if (!result.stderr.includes("busy") || performance.now() > deadline) throw commandFailed(argv, result);
  }
}
