/**
 * Caches CRIU's probe results about this kernel. CRIU probes for tens of milliseconds at every start and caches the
 * result in /run/criu.kdat, but only where /run is a tmpfs: elsewhere the file could outlive a change of kernel. In
 * that case the server keeps the result and mounts it in its own mount namespace, which does not outlive the kernel
 * either.
 *
 * The mounted file is on a tmpfs of its own, not in the run folder. A concurrent server in the same namespace mounts on
 * top of it, and a file that is a mount point cannot be removed from its folder.
 */
import { closeSync, copyFileSync, existsSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../../../system/command.ts";
import { isMountPoint } from "../../../system/mount/mount-namespace.ts";
import { detachMount, MS_BIND, mount } from "../../../system/syscalls.ts";

const PLACE = "/run/criu.kdat";
const TMPFS = 0x01021994;

export async function rememberKernelFacts(criu: readonly string[], runFolder: string): Promise<void> {
  if (statfsSync("/run").type === TMPFS || isMountPoint(PLACE)) return;
  const found = join(runFolder, "criu.kdat");
  // The result file is opened before the mount hides its folder.
  const probe = 'exec 3> "$0" && mount -t tmpfs tmpfs /run && "$@" check > /dev/null 2>&1; cat /run/criu.kdat >&3';
  const made = await attempt(["unshare", "--mount", "/bin/sh", "-c", probe, found, ...criu]);
  if (made.exitCode === 0) show(found, runFolder);
  rmSync(found, { force: true });
}

function show(found: string, runFolder: string): void {
  if (!existsSync(PLACE)) closeSync(openSync(PLACE, "w", 0o600));
  const memory = mkdtempSync(join(runFolder, "criu-"));
  mount("tmpfs", memory, "tmpfs", 0, "size=64k,mode=700");
  try {
    const shown = join(memory, "criu.kdat");
    copyFileSync(found, shown);
    mount(shown, PLACE, "none", MS_BIND, "");
  } finally {
    detachMount(memory);
    rmdirSync(memory);
  }
}
