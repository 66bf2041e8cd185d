/**
 * The floor of pause and resume: CRIU with the server's options on the same sandboxes, and no other work. It restores
 * its own images or those of the server. Runs inside the server's mount namespace.
 */
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Disks } from "../../src/images/disk/disks.ts";
import { checkpointFolder } from "../../src/sandbox/checkpoint/checkpoint-folder.ts";
import { copyOwnFiles } from "../../src/sandbox/checkpoint/checkpoints.ts";
import { type Manifest, OWN_FOLDER } from "../../src/sandbox/checkpoint/manifest.ts";
import {
  BOOT_ID_FILE,
  keptFiles,
  makeControlSecret,
  meminfoMount,
  writeMeminfoFile,
} from "../../src/sandbox/mounted-files.ts";
import { CRIU_CONFIG_FILE } from "../../src/sandbox/runtime/crun/criu-config.ts";
import { adaptImage } from "../../src/sandbox/runtime/crun/image/adapted-image.ts";
import type { OutsideMount } from "../../src/sandbox/runtime/runtime.ts";
import { readRecord } from "../../src/sandbox/sandbox-record.ts";
import { removeCgroups } from "../../src/system/cgroup/removal.ts";
import { MINIMAL_ENV, run } from "../../src/system/command.ts";
import { HOST_ID_FIRST, SHARED_IDS } from "../../src/system/id-range.ts";
import { Mounts } from "../../src/system/mount/mounts.ts";
import type { Context } from "../context.ts";
import { inTurns, timed } from "../figures/samples.ts";
import { runBare } from "./program.ts";

const ID = "bench-criu";
const LOG = "criu.log";
const LOG_SHOWN_CHARS = 1000;

/** A prepared restore of a checkpoint: everything that CRIU needs exists. */
interface Prepared extends AsyncDisposable {
  restore(): Promise<void>;
}

/** CRIU's images of some sandboxes, until released, and the time to write them. */
interface Dumped extends AsyncDisposable {
  ms: number;
  /** Image folders by boot id, which a sandbox shares only with its checkpoints. */
  images: ReadonlyMap<string, string>;
}

export class BareCriu implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly mounts: Mounts,
    readonly disks: Disks,
  ) {}

  static async make(context: Context): Promise<BareCriu> {
    const mounts = new Mounts();
    return new BareCriu(context, mounts, await Disks.open(context.data.path, mounts));
  }

  /** Names of the server's checkpoints. */
  checkpoints(): string[] {
    return readdirSync(this.disks.checkpointsFolder).filter((entry) => !entry.startsWith("."));
  }

  /** Checkpoints a running sandbox, which continues, and syncs the images to disk. */
  async dump(id: string): Promise<number> {
    await using dumped = await this.dumpTogether([id], 1);
    return dumped.ms;
  }

  /** Checkpoints many sandboxes with this concurrency and returns after the last; synced to disk if `durable`. */
  async dumpTogether(ids: readonly string[], atOnce: number, durable = true): Promise<Dumped> {
    const folders = ids.map((id) => this.#makeImages(id));
    const release = async () => {
      for (const { images, work } of folders) {
        await rm(images, { recursive: true, force: true });
        await rm(work, { recursive: true, force: true });
      }
    };
    try {
      const ms = await timed(() => inTurns(folders, atOnce, ({ id, ...folder }) => this.#dump(id, folder, durable)));
      const bootOf = (id: string) => bootIn(join(this.context.data.sandboxesFolder, id));
      return {
        ms,
        images: new Map(folders.map(({ id, images }) => [bootOf(id), images])),
        [Symbol.asyncDispose]: release,
      };
    } catch (cause) {
      await release();
      throw cause;
    }
  }

  /**
   * Restores a sandbox on a copy of its disk, without a network, and kills it. It uses CRIU's own images if given,
   * otherwise the server's checkpoint.
   */
  async restore(name: string, dumped?: Dumped): Promise<number> {
    return await this.restoreTogether([name], 1, dumped);
  }

  /** Restores many with this concurrency and returns after the last. The same checkpoint may occur more than once. */
  async restoreTogether(names: readonly string[], atOnce: number, dumped?: Dumped): Promise<number> {
    const prepared: Prepared[] = [];
    try {
      for (const [nth, name] of names.entries()) prepared.push(await this.#prepare(name, `${ID}-${nth}`, dumped));
      return await timed(() => inTurns(prepared, atOnce, (one) => one.restore()));
    } finally {
      for (const one of prepared) await one[Symbol.asyncDispose]();
    }
  }

  #makeImages(id: string): { id: string; images: string; work: string } {
    const images = join(this.disks.checkpointsFolder, `.unfinished-${ID}-${id}`);
    const work = join(this.context.data.runFolder, `${ID}-${id}`);
    mkdirSync(images, { mode: 0o750 });
    chownSync(images, 0, HOST_ID_FIRST);
    mkdirSync(work, { mode: 0o711 });
    return { id, images, work };
  }

  async #dump(id: string, { images, work }: { images: string; work: string }, durable: boolean): Promise<void> {
    const record = readRecord(join(this.context.data.sandboxesFolder, id));
    if (record === undefined) throw new Error(`the sandbox ${id} has no record`);
    const argv = [
      ...this.#criu(),
      "dump",
      "--tree",
      String(record.pid),
      "--leave-running",
      ...this.#options(images, work),
      ...record.mounts.flatMap(({ inside }) => ["--external", `mnt[${inside}]:${inside}`]),
    ];
    await withLog(work, () => runBare(argv));
    if (durable) await run(["sync", ...(await readdir(images)).map((name) => join(images, name)), images]);
  }

  async #prepare(name: string, as: string, dumped: Dumped | undefined): Promise<Prepared> {
    const checkpoint = checkpointFolder(join(this.disks.checkpointsFolder, name));
    const { memory, kind } = JSON.parse(readFileSync(checkpoint.manifest, "utf8")) as Manifest;
    if (memory === undefined) throw new Error(`the checkpoint ${name} has no memory`);
    const images = dumped === undefined ? checkpoint.memory : dumped.images.get(bootIn(checkpoint.own));
    if (images === undefined) throw new Error(`CRIU has not written what the checkpoint ${name} is of`);
    const [folder, cgroup] = [join(this.context.data.runFolder, as), `${this.context.data.cgroup}/${as}`];
    const diskName = Disks.newName();
    mkdirSync(folder, { mode: 0o711 });
    const pidFile = join(folder, "pid");
    const lowers = [{ folder: this.context.image, ids: "shifted" } as const];
    const ids = SHARED_IDS;
    const adapted = await adaptImage(images, { ids, folder }, this.mounts);
    const disk = await this.disks.attachCopy(diskName, checkpoint.disk, lowers, folder, ids);
    const outside = ({ outside: from }: OutsideMount) => from.replace(OWN_FOLDER, folder);
    await copyOwnFiles(checkpoint.own, folder, keptFiles(memory));
    makeControlSecret(folder, ids);
    await this.mounts.do(meminfoMount(folder));
    writeMeminfoFile(folder, kind.memoryMB, ids);
    const argv = [
      ...this.#criu(),
      "restore",
      "--restore-detached",
      // There is no network in which the server's connection could be restored.
      "--tcp-close",
      "--pidfile",
      pidFile,
      "--root",
      disk.root,
      "--cgroup-root",
      cgroup,
      ...this.#options(adapted.folder, folder),
      ...memory.mounts.flatMap((mount) => ["--external", `mnt[${mount.inside}]:${outside(mount)}`]),
    ];
    return {
      restore: () => withLog(folder, () => runBare(argv)),
      [Symbol.asyncDispose]: async () => {
        if (existsSync(pidFile)) process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
        await removeCgroups(cgroup);
        await adapted[Symbol.asyncDispose]();
        await this.disks.releaseMounts(folder);
        await this.disks.remove(diskName);
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  /** CRIU with the server's PATH, so that images are written without compression. */
  #criu(): string[] {
    const { binFolder, criu } = this.context.toolbox;
    return ["env", `PATH=${binFolder}:${MINIMAL_ENV.PATH}`, ...criu];
  }

  #options(images: string, work: string): string[] {
    const config = join(this.context.data.runFolder, CRIU_CONFIG_FILE);
    const folders = ["--images-dir", images, "--work-dir", work, "--log-file", LOG, "-v1"];
    return [...folders, "--config", config, "--file-locks", "--manage-cgroups=soft"];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.mounts.close();
  }
}

/** The boot id that its processes see, which is unique per sandbox. */
function bootIn(folder: string): string {
  return readFileSync(join(folder, BOOT_ID_FILE), "utf8");
}

/** Adds CRIU's log to the error, because CRIU itself reports only that it failed. */
async function withLog(work: string, criu: () => Promise<unknown>): Promise<void> {
  try {
    await criu();
  } catch (cause) {
    const log = join(work, LOG);
    const output = existsSync(log) ? readFileSync(log, "utf8").trim().slice(-LOG_SHOWN_CHARS) : "nothing";
    throw new Error(`bare CRIU failed and said: ${output}`, { cause });
  }
}
