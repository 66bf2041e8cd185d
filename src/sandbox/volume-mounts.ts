/** The volumes of a starting sandbox, held until it holds them itself. Records name volumes, not paths. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import type { VolumeMount } from "../contract/internal/host.ts";
import { type IdRange, SHARED_IDS } from "../system/id-range.ts";
import type { Mounts } from "../system/mount/mounts.ts";
import { VOLUME } from "./checkpoint/manifest.ts";
import type { OutsideMount } from "./runtime/runtime.ts";
import type { HeldVolume, Volumes } from "./volume/volume-disks.ts";

/** Prefix of the folder that shows a volume with the sandbox's ids, followed by a number. */
const PLACE = "volume-";

export class VolumeMounts implements Disposable {
  private constructor(private readonly held: readonly (HeldVolume & { inside: string })[]) {}

  static async hold(volumes: Pick<Volumes, "hold">, wanted: readonly VolumeMount[]): Promise<VolumeMounts> {
    using held = new DisposableStack();
    const mounts: (HeldVolume & { inside: string })[] = [];
    for (const { volume, path } of wanted) {
      const one = await volumes.hold(volume).catch((cause: unknown) => {
        const fault = Fault.from(cause);
        // A missing volume must not look like a missing sandbox or template (404).
        throw fault.status === 404 ? new Fault(422, fault.message, { cause }) : fault;
      });
      held.use(one);
      mounts.push({ ...one, inside: path });
    }
    held.move();
    return new VolumeMounts(mounts);
  }

  /** Shows each volume below this folder, mapped to the sandbox's ids, until it is released. */
  async mapTo(ids: IdRange, folder: string, mounts: Pick<Mounts, "do">): Promise<void> {
    if (ids.first === SHARED_IDS.first) return;
    for (const [number, held] of this.held.entries()) {
      const target = join(folder, `${PLACE}${number}`);
      mkdirSync(target, { mode: 0o711 });
      await mounts.do({ kind: "map", source: held.path, target, firstId: ids.first });
      held.path = target;
    }
  }

  get mounts(): OutsideMount[] {
    return this.held.map(({ inside, path }) => ({ inside, outside: path }));
  }

  /** The mount as stored in a record. */
  named({ inside, outside }: OutsideMount): OutsideMount {
    const volume = this.held.find(({ path }) => path === outside);
    return { inside, outside: volume === undefined ? outside : VOLUME + volume.name };
  }

  /** The mount as a path on this machine. */
  placed({ inside, outside }: OutsideMount): OutsideMount {
    const volume = this.held.find(({ name }) => outside === VOLUME + name);
    return { inside, outside: volume?.path ?? outside };
  }

  [Symbol.dispose](): void {
    for (const one of this.held) one[Symbol.dispose]();
  }
}
