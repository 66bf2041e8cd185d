/**
 * The floor of pause and resume: CRIU with the options that the server gives it, on the same sandboxes and the same
 * images, with nothing before and after. Run inside the server's mount namespace.
 */
import { chownSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { removeCgroups } from "../../src/host/cgroup/removal.ts";
import { checkpointFolder } from "../../src/host/checkpoint/checkpoint-folder.ts";
import { copyOwnFiles } from "../../src/host/checkpoint/checkpoints.ts";
import { type Manifest, OWN_FOLDER } from "../../src/host/checkpoint/manifest.ts";
import { Disks } from "../../src/host/disk/disks.ts";
import { Mounts } from "../../src/host/mount/mounts.ts";
import { adaptImage } from "../../src/host/runtime/crun/adapted-image.ts";
import { CRIU_CONFIG_FILE } from "../../src/host/runtime/crun/criu-config.ts";
import type { OutsideMount } from "../../src/host/runtime/runtime.ts";
import { makeMeminfoFile } from "../../src/host/sandbox/meminfo-file.ts";
import { keptFiles, makeControlSecret } from "../../src/host/sandbox/own-files.ts";
import { readRecord } from "../../src/host/sandbox/sandbox-record.ts";
import { MINIMAL_ENV, run } from "../../src/host/system/command.ts";
import { HOST_ID_FIRST, SHARED_IDS } from "../../src/host/system/id-range.ts";
import type { Context } from "../context.ts";
import { timed } from "../figures/samples.ts";
import { runBare } from "./program.ts";

const ID = "bench-criu";

export class BareCriu implements AsyncDisposable {
  readonly #folder: string;
  readonly #cgroup: string;

  private constructor(
    readonly context: Context,
    readonly mounts: Mounts,
    readonly disks: Disks,
  ) {
    this.#folder = join(context.data.runFolder, ID);
    this.#cgroup = `${context.data.cgroup}/${ID}`;
  }

  static async make(context: Context): Promise<BareCriu> {
    const mounts = new Mounts();
    return new BareCriu(context, mounts, await Disks.open(context.data.path, mounts));
  }

  /** Writes a running sandbox, which goes on, and makes what was written durable. */
  async dump(id: string): Promise<number> {
    const record = readRecord(join(this.context.data.sandboxesFolder, id));
    if (record === undefined) throw new Error(`the sandbox ${id} has no record`);
    const images = join(this.disks.checkpointsFolder, `.unfinished-${ID}`);
    mkdirSync(images, { mode: 0o750 });
    chownSync(images, 0, HOST_ID_FIRST);
    mkdirSync(this.#folder, { mode: 0o711 });
    try {
      return await timed(async () => {
        await runBare([
          ...this.#criu,
          "dump",
          "--tree",
          String(record.pid),
          "--leave-running",
          ...this.#options(images),
          ...record.mounts.flatMap(({ inside }) => ["--external", `mnt[${inside}]:${inside}`]),
        ]);
        await run(["sync", ...(await readdir(images)).map((name) => join(images, name)), images]);
      });
    } finally {
      await rm(images, { recursive: true, force: true });
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  /** Restores a checkpoint of the server on a copy of its disk, without a network, and ends it again. */
  async restore(name: string): Promise<number> {
    const checkpoint = checkpointFolder(join(this.disks.checkpointsFolder, name));
    const { memory, kind } = JSON.parse(readFileSync(checkpoint.manifest, "utf8")) as Manifest;
    if (memory === undefined) throw new Error(`the checkpoint ${name} has no memory`);
    const diskName = Disks.newName();
    mkdirSync(this.#folder, { mode: 0o711 });
    const pidFile = join(this.#folder, "pid");
    const lowers = [{ folder: this.context.image, ids: "shifted" } as const];
    try {
      const ids = SHARED_IDS;
      await using adapted = await adaptImage(checkpoint.memory, { ids, folder: this.#folder }, this.mounts);
      const disk = await this.disks.attachCopy(diskName, checkpoint.disk, lowers, this.#folder, ids);
      const outside = ({ outside: from }: OutsideMount) => from.replace(OWN_FOLDER, this.#folder);
      await copyOwnFiles(checkpoint.own, this.#folder, keptFiles(memory));
      makeControlSecret(this.#folder, ids);
      await makeMeminfoFile(this.#folder, kind.memoryMB, this.mounts, ids);
      return await timed(() =>
        runBare([
          ...this.#criu,
          "restore",
          "--restore-detached",
          "--pidfile",
          pidFile,
          "--root",
          disk.root,
          "--cgroup-root",
          this.#cgroup,
          ...this.#options(adapted.folder),
          ...memory.mounts.flatMap((mount) => ["--external", `mnt[${mount.inside}]:${outside(mount)}`]),
        ]),
      );
    } finally {
      if (existsSync(pidFile)) process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
      await removeCgroups(this.#cgroup);
      await this.disks.releaseMounts(this.#folder);
      await this.disks.remove(diskName);
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  /** Finds what the server's finds: images are written without compression. */
  get #criu(): string[] {
    const { binFolder, criu } = this.context.toolbox;
    return ["env", `PATH=${binFolder}:${MINIMAL_ENV.PATH}`, ...criu];
  }

  #options(images: string): string[] {
    const config = join(this.context.data.runFolder, CRIU_CONFIG_FILE);
    const folders = ["--images-dir", images, "--work-dir", this.#folder, "--log-file", "criu.log", "-v1"];
    return [...folders, "--config", config, "--file-locks", "--manage-cgroups=soft"];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.mounts.close();
  }
}
