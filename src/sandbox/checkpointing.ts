/**
 * Writes checkpoints of running sandboxes, in this order:
 *
 *   the runtime stops and writes the processes → disk flushed and cloned → frozen → digests → durable → named
 *
 * A sandbox that continues to run is released as soon as its disk is cloned; data that copies must not share is wiped
 * from the image. A sandbox that is being paused stays frozen until the checkpoint has its name. If a step fails before
 * that, the sandbox runs on and no checkpoint exists. The image is wiped or made durable while the disk is flushed; the
 * remaining steps run while the runtime detaches from the processes.
 */
import { statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Gate } from "../base/gate.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { CheckpointOptions } from "../contract/internal/host.ts";
import type { Disks } from "../images/disk/disks.ts";
import { freeze } from "../system/cgroup/freezer.ts";
import { run } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import type { CheckpointFolder } from "./checkpoint/checkpoint-folder.ts";
import { type Checkpoints, copyOwnFiles, syncPath } from "./checkpoint/checkpoints.ts";
import { listImage, sealImage } from "./checkpoint/image-files.ts";
import { type ImageFiles, MANIFEST_FORMAT, type Manifest, volumesIn } from "./checkpoint/manifest.ts";
import { Finishing } from "./finishing.ts";
import { CHECKPOINT_MS, IMAGE_PER_MEMORY_MAX } from "./limits.ts";
import type { Network } from "./network/network.ts";
import { keptFiles, readsItsSecret } from "./own-files.ts";
import { quiesce } from "./quiesce.ts";
import type { Runtimes } from "./runtime/runtimes.ts";
import { rootOf, runtimeNameOf, type SandboxRecord } from "./sandbox-record.ts";
import type { Volumes } from "./volume/volumes.ts";

/**
 * Limit for the whole machine: each checkpoint keeps a processor and the disk busy. A restore waits for the kernel half
 * of the time, so more restores may run.
 */
export const CHECKPOINTS_AT_ONCE_MAX = Math.max(2, availableParallelism());
/** Timeout for CRIU to write a sandbox: a base, plus time for each byte to write. */
const IMAGE_BASE_MS = scaled(30_000);
const IMAGE_BYTES_PER_SECOND_MIN = 16 * 1024 * 1024;

/** The unit of `blocks` in `stat`. */
const DISK_BLOCK_BYTES = 512;

interface CheckpointingParts {
  data: DataFolder;
  network: Network;
  disks: Disks;
  runtimes: Runtimes;
  checkpoints: Checkpoints;
  volumes: Volumes;
}

interface WriteOptions extends CheckpointOptions {
  /** Data to store in the manifest, computed once the disk is cloned. */
  note?: (written: CheckpointFolder) => unknown;
  /** Aborted when the checkpoint is no longer needed; writing then fails soon. */
  signal?: AbortSignal;
  /** Called when the checkpoint no longer needs the sandbox. */
  onWritten?: () => void;
}

/** The state of the sandbox after the checkpoint. */
type After = "stays frozen" | "goes on";

export class Checkpointing {
  readonly #gate = new Gate(CHECKPOINTS_AT_ONCE_MAX);

  constructor(readonly parts: CheckpointingParts) {}

  /** When it throws, the sandbox runs on and there is no checkpoint. */
  async write(record: SandboxRecord, name: string, options: WriteOptions, after: After): Promise<void> {
    const { checkpoints, runtimes } = this.parts;
    // Before queueing, so that a rejected checkpoint holds no place.
    if (options.memory) await runtimes.of(runtimeNameOf(record)).demandSoonWritten?.(record.cgroup);
    using _place = await this.#gate.enter(options.owner);
    const bytes = await this.#demandSpace(record, options);
    try {
      const draft = checkpoints.begin(name);
      await using finishing = this.#finishing(record, options, draft, after);
      if (options.memory) await this.#writeMemory(record, draft, { bytes, finishing, signal: options.signal });
      else await this.#writeDisk(record, draft);
      if (after === "goes on") await this.#letGo(record);
      options.onWritten?.();
      options.signal?.throwIfAborted();
      await finishing.done();
      await checkpoints.commit(name, draft, !options.temporary);
    } catch (cause) {
      // Remove first: while a checkpoint with this name exists, the sandbox counts as paused in it.
      await checkpoints.remove(name).finally(() => this.#letGo(record));
      throw withStatus(cause);
    }
  }

  async #writeMemory(
    record: SandboxRecord,
    draft: CheckpointFolder,
    { bytes, finishing, signal }: { bytes: number; finishing: Finishing; signal: AbortSignal | undefined },
  ): Promise<void> {
    const { runtimes, disks, network } = this.parts;
    const runtime = runtimes.of(runtimeNameOf(record));
    if (!runtime.keepsConnections) await quiesce(network, record);
    // Runs while the runtime prepares.
    const copying = copyOwnFiles(this.#folderOf(record), draft.own, keptFiles(record));
    copying.catch(() => undefined);
    let flushing: Promise<boolean> = Promise.resolve(false);
    const needless = new AbortController();
    const written = runtime.checkpoint({
      id: record.id,
      pid: record.pid,
      cgroup: record.cgroup,
      folder: this.#folderOf(record),
      images: draft.memory,
      mounts: record.mounts,
      bounds: {
        maxBytes: imageMaxBytes(record),
        maxMs: Math.min(CHECKPOINT_MS, IMAGE_BASE_MS + scaled((bytes / IMAGE_BYTES_PER_SECOND_MIN) * 1000)),
        demandRoom() {
          signal?.throwIfAborted();
          demandRoom(() => disks.demandSpace(0));
        },
      },
      // The disk is flushed while the runtime writes the memory.
      onStopped: () => {
        flushing = this.#flushed(record, needless.signal);
      },
      whileStopped: async (givenUp) => {
        givenUp.addEventListener("abort", () => needless.abort());
        await finishing.beginImage();
        await this.#keepDisk(record, draft, { isFlushed: await flushing, signal: givenUp });
        await copying;
        finishing.beginWhole();
      },
    });
    // Nothing may continue in the background after this.
    await Promise.allSettled([written, copying]);
    needless.abort();
    await flushing;
    await copying;
    await written;
  }

  async #writeDisk(record: SandboxRecord, draft: CheckpointFolder): Promise<void> {
    await freeze(record.cgroup);
    await this.#keepDisk(record, draft);
  }

  /** Flushes the sandbox's filesystem to the disk image file, and that file to the machine's disk. Never throws. */
  async #flushed(record: SandboxRecord, signal: AbortSignal): Promise<boolean> {
    const { disks } = this.parts;
    if (!disks.reflink) return false;
    try {
      await run(["sync", "-f", rootOf(record)], { timeoutMs: CHECKPOINT_MS, signal });
      await syncPath(disks.imageOf(record.disk));
      return true;
    } catch {
      // The flush is retried later, and that failure is reported.
      return false;
    }
  }

  /**
   * Flushes the sandbox's filesystem to the disk image file and clones that file, without copying where the filesystem
   * allows it. If the disk was flushed while the processes were stopped, hardly anything is left to write: only names
   * that the runtime creates for files it keeps.
   */
  async #keepDisk(
    record: SandboxRecord,
    draft: CheckpointFolder,
    { isFlushed, signal }: { isFlushed: boolean; signal?: AbortSignal } = { isFlushed: false },
  ): Promise<void> {
    const { disks } = this.parts;
    const file = disks.imageOf(record.disk);
    const options = { timeoutMs: CHECKPOINT_MS, ...(signal === undefined ? {} : { signal }) };
    if (isFlushed && (await disks.cloneWritten(file, draft.disk, rootOf(record)))) return;
    await run(["sync", "-f", rootOf(record)], options);
    if (!disks.reflink) {
      await run(["cp", "--reflink=auto", file, draft.disk], options);
      return;
    }
    if (await disks.cloneWritten(file, draft.disk)) return;
    await syncPath(file);
    signal?.throwIfAborted();
    await disks.clone(file, draft.disk);
  }

  /** Data that the processes believe to be on a volume must survive a crash of the machine, too. */
  async #syncVolumes({ mounts }: SandboxRecord): Promise<void> {
    for (const { volume } of volumesIn(mounts)) await this.parts.volumes.sync(volume);
  }

  #finishing(record: SandboxRecord, options: WriteOptions, draft: CheckpointFolder, after: After): Finishing {
    const { checkpoints, runtimes } = this.parts;
    const lasting = !options.temporary;
    return new Finishing({
      image: async () => {
        if (!options.memory) return undefined;
        // The sandbox itself continues, so only copies will start from this image.
        if (after === "goes on") await runtimes.of(runtimeNameOf(record)).wipeForCopies?.(draft.memory);
        return await (lasting ? sealImage(draft) : listImage(draft));
      },
      whole: async (image) => {
        checkpoints.describe(draft, this.#manifest(record, options, draft, image?.files));
        if (!lasting) return;
        await Promise.all([image?.durable, checkpoints.makeLasting(draft), this.#syncVolumes(record)]);
      },
    });
  }

  #manifest(
    record: SandboxRecord,
    options: WriteOptions,
    draft: CheckpointFolder,
    files: ImageFiles | undefined,
  ): Manifest {
    const { network, runtimes } = this.parts;
    const manifest: Manifest = {
      format: MANIFEST_FORMAT,
      createdAt: new Date().toISOString(),
      kind: record.kind,
      ids: record.ids ?? "shifted",
      ...(options.note === undefined ? {} : { note: options.note(draft) }),
    };
    if (files === undefined) return manifest;
    const { guestFolder, mounts, slot } = record;
    const secret = readsItsSecret(record) ? {} : { controlSecret: record.controlSecret };
    const wall = runtimeNameOf(record);
    const { imageFacts } = runtimes.of(wall);
    return {
      ...manifest,
      memory: { ...imageFacts, wall, guestFolder, ...secret, address: network.address(slot), mounts, files },
    };
  }

  /** Returns the bytes to write, as far as they are known in advance. Throws when there is no room for them. */
  async #demandSpace(record: SandboxRecord, options: CheckpointOptions): Promise<number> {
    const maxBytes = imageMaxBytes(record);
    const { disks, runtimes } = this.parts;
    const memory = options.memory ? await runtimes.of(runtimeNameOf(record)).imageBytes(record.cgroup, maxBytes) : 0;
    const disk = disks.reflink ? 0 : statSync(disks.imageOf(record.disk)).blocks * DISK_BLOCK_BYTES;
    demandRoom(() => disks.demandSpace(memory + disk));
    return memory + disk;
  }

  /** After a server restart: waits for a checkpoint that a killed server was writing, then lets the sandbox run on. */
  async recover(record: SandboxRecord): Promise<void> {
    await this.parts.runtimes.of(runtimeNameOf(record)).untilWritten(record.id);
    await this.#letGo(record);
  }

  async #letGo(record: SandboxRecord): Promise<void> {
    const { runtimes, network } = this.parts;
    const runtime = runtimes.of(runtimeNameOf(record));
    await runtime.letGo(record.id, record.cgroup);
    if (!runtime.keepsConnections) await network.quiesce(record.slot).end();
  }

  #folderOf(record: SandboxRecord): string {
    return join(this.parts.data.sandboxesFolder, record.id);
  }
}

function imageMaxBytes({ kind }: SandboxRecord): number {
  return kind.memoryMB * 1024 * 1024 * IMAGE_PER_MEMORY_MAX;
}

/** The same check rejects creates with another status; clients expect 507 for checkpoints. */
function demandRoom(demand: () => void): void {
  try {
    demand();
  } catch (cause) {
    throw new Fault(507, `the disk has no space for a checkpoint: ${Fault.from(cause).message}`, { cause });
  }
}

function withStatus(cause: unknown): Fault {
  const code = (cause as NodeJS.ErrnoException | null)?.code;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new Fault(507, "the disk has no space for this checkpoint; the sandbox is still running", { cause });
  }
  if (cause instanceof Fault) return cause;
  return new Fault(500, "the checkpoint could not be written; the sandbox is still running", { cause });
}
