/**
 * What CRIU has found out about this kernel. It probes for tens of milliseconds at every start and remembers the result
 * in /run/criu.kdat, but only where /run lies in memory: elsewhere it could outlive a change of kernel. There, the
 * result is kept for it and shown to it in this server's mount namespace, which does not outlive the kernel either.
 */
import { closeSync, existsSync, openSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { isMountPoint } from "../../mount/mount-namespace.ts";
import { attempt } from "../../system/command.ts";

const PLACE = "/run/criu.kdat";
const TMPFS = 0x01021994;

export async function rememberKernelFacts(criu: readonly string[], runFolder: string): Promise<void> {
  if (statfsSync("/run").type === TMPFS || isMountPoint(PLACE)) return;
  const kept = join(runFolder, "criu.kdat");
  // The place for the result is opened before the folder that it lies in is hidden.
  const probe = 'exec 3> "$0" && mount -t tmpfs tmpfs /run && "$@" check > /dev/null 2>&1; cat /run/criu.kdat >&3';
  const made = await attempt(["unshare", "--mount", "/bin/sh", "-c", probe, kept, ...criu]);
  if (made.exitCode !== 0) return;
  if (!existsSync(PLACE)) closeSync(openSync(PLACE, "w", 0o600));
  await attempt(["mount", "--bind", kept, PLACE]);
}
