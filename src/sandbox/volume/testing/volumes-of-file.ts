/** Volumes on their own data folder, for the tests of one file. */
import { afterAll, beforeAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { DataFolder } from "../../../system/data-folder.ts";
import { Mounts } from "../../../system/mount/mounts.ts";
import { VolumeContentProcesses } from "../content.ts";
import { Volumes } from "../volume-disks.ts";
import { volumeImage } from "../volume-image.ts";

/** On a real disk: images are stored here. */
const ROOT = "/var/tmp";
export const SIZE_MB = 64;

export class VolumesOfFile {
  data!: DataFolder;
  mounts!: Mounts;
  volumes!: Volumes;
  content!: VolumeContentProcesses;

  constructor() {
    beforeAll(async () => {
      this.data = new DataFolder(mkdtempSync(join(ROOT, "sandlot-volumes-")));
      this.data.makeRunFolder();
      await this.open();
    });
    afterAll(async () => {
      await this.close();
      rmSync(this.data.path, { recursive: true });
      rmSync(this.data.runFolder, { recursive: true });
    });
  }

  async open(clock?: Clock): Promise<void> {
    this.mounts = new Mounts();
    this.volumes = await Volumes.open(this.data, this.mounts, clock);
    this.content = new VolumeContentProcesses(this.volumes, join(this.data.runFolder, "volume-content"));
  }

  async close(): Promise<void> {
    await this.content.close();
    await this.volumes.close();
    this.mounts.close();
  }

  get mountFolder(): string {
    return join(this.data.runFolder, "volumes");
  }

  imageOf(name: string): string {
    return volumeImage(join(this.data.volumesFolder, name));
  }
}
