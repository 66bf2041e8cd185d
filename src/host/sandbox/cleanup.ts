/** Takes away what sandboxes had on this machine: of one that ends, and of all that nobody claims after a restart. */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { removeCgroups } from "../cgroup/cgroups.ts";
import type { Checkpoints } from "../checkpoint/checkpoints.ts";
import type { Disks } from "../disk/disks.ts";
import type { Network } from "../network/network.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { readRecord, type SandboxRecord } from "./sandbox-record.ts";

interface CleanupParts {
  data: DataFolder;
  runtime: Runtime;
  network: Network;
  disks: Disks;
  checkpoints: Checkpoints;
}

export class Cleanup {
  constructor(readonly parts: CleanupParts) {}

  /**
   * Removes all there may be of a sandbox, whatever step it was in. The slot comes last: once it is free it may be
   * another's, and the record, which would have it freed again, must be gone by then.
   */
  async unmake(id: string, slot: number | undefined, disk: string | undefined): Promise<void> {
    const { network } = this.parts;
    // The kernel takes its time with an interface, in which the rest is done.
    await Promise.all([slot === undefined ? undefined : network.unplug(slot), this.#takeAway(id, disk)]);
    if (slot !== undefined) await network.free(slot);
  }

  async #takeAway(id: string, disk: string | undefined): Promise<void> {
    const { data, runtime, disks } = this.parts;
    const folder = join(data.sandboxesFolder, id);
    await runtime.remove(id);
    await disks.releaseMounts(folder);
    if (disk !== undefined) await disks.remove(disk);
    await rm(folder, { recursive: true, force: true });
  }

  /** The same for one of which only the id is known. */
  async unmakeById(id: string): Promise<void> {
    const record = readRecord(join(this.parts.data.sandboxesFolder, id));
    await this.unmake(id, record?.slot, record?.disk);
  }

  /** Removes everything that carries this server's name and belongs to no sandbox in `keep`. */
  async reap(keep: ReadonlyMap<string, SandboxRecord>): Promise<void> {
    const { data, runtime, network, disks } = this.parts;
    const traces = new Set([...(await runtime.list()), ...(await readdir(data.sandboxesFolder))]);
    for (const id of traces) if (!keep.has(id)) await this.unmakeById(id);
    const kept = [...keep.values()];
    const keptDisks = new Set(kept.map(({ disk }) => disk));
    for (const name of await disks.list()) if (!keptDisks.has(name)) await disks.remove(name);
    await removeCgroups(data.cgroup, new Set(keep.keys()));
    await network.removeInterfaces(new Set(kept.map(({ slot }) => slot)));
  }

  /** Removes all checkpoints but those in `keep`, and answers which of these there are. */
  async reapCheckpoints(keep: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { checkpoints } = this.parts;
    await checkpoints.removeUnfinished();
    const found = new Set<string>();
    for (const name of await checkpoints.list()) {
      if (keep.has(name)) found.add(name);
      else await checkpoints.remove(name);
    }
    return found;
  }
}
