/** Undoes a server's setup, while it does not run: ends its sandboxes and reverts its changes to the host. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { dropImageMarks } from "../images/cached-images.ts";
import { dropGuestMarks } from "../images/guest-folders.ts";
import { Network } from "../sandbox/network/network.ts";
import { removeEdgeCgroups } from "../system/cgroup/edge-memory.ts";
import { removeEmptyParents } from "../system/cgroup/parents.ts";
import { ProcessesRemain, removeCgroups } from "../system/cgroup/removal.ts";
import { attempt } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { detachBelow, MountNamespace } from "../system/mount/mount-namespace.ts";
import { undoSettings } from "./host-changes.ts";

const PROGRAM = join(import.meta.dir, "teardown-program.ts");
const TEARDOWN_MS = scaled(300_000);

export async function teardown(data: DataFolder, cacheFolder: string, options: { keepData: boolean }): Promise<void> {
  if (existsSync(data.runFolder)) {
    const namespace = new MountNamespace(data);
    // Sandboxes may have outlived their mount namespace; any namespace can end them.
    await namespace.make();
    const command = [...namespace.enterCommand, process.execPath, PROGRAM, data.path, cacheFolder];
    const result = await attempt(command, { timeoutMs: TEARDOWN_MS });
    if (result.exitCode !== 0) throw new Fault(500, `cannot end all sandboxes: ${result.stderr.trim()}`);
    await new Network(data).remove();
    await removeCgroups(data.cgroup).catch((cause: unknown) => {
      if (!(cause instanceof ProcessesRemain)) throw cause;
      throw new Fault(500, `cannot end all sandboxes: ${cause.message}: ${cause.processes}`, { cause });
    });
    await removeEdgeCgroups(data.tag);
    removeEmptyParents();
    namespace.remove();
    undoSettings(data);
    // A killed server may have left mounts in this very namespace.
    detachBelow(data.runFolder);
    await rm(data.runFolder, { recursive: true, force: true });
  }
  if (options.keepData) return;
  await rm(data.path, { recursive: true, force: true });
  dropGuestMarks(cacheFolder, data.tag);
  dropImageMarks(cacheFolder, data.tag);
}
