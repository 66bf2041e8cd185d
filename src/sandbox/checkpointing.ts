/**
 * Writes checkpoints of running sandboxes, stage by stage:
 *
 *   1. stop     no process runs                         undo: the sandbox keeps running
 *   2. write    the runtime writes the memory           undo: the same
 *   3. clone    the disk is flushed and cloned          undo: the same
 *   4. release  the cgroup alone keeps it frozen        undo: thaw it
 *   5. finish   digests, manifest, everything durable   undo: remove the folder, then thaw
 *   6. name     the checkpoint exists                   no undo: a pause ends the sandbox
 *
 * A sandbox that continues to run is thawed after stage 4; data that copies must not share is wiped from the image. A
 * sandbox that is being paused stays frozen until the checkpoint has its name. Work of a later stage that needs no more
 * input starts early: the disk is flushed beside stage 2, the image is made durable from the end of stage 2 on, and
 * stage 5 runs beside stage 4.
 */
import { statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Semaphore } from "../base/semaphore.ts";
import { systemCode } from "../base/system-code.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { CheckpointOptions } from "../contract/internal/host.ts";
import type { Disks } from "../images/disk/disks.ts";
import { DISK_BLOCK_BYTES } from "../images/disk/stored-bytes.ts";
import { freeze, thaw } from "../system/cgroup/freezer.ts";
import { run } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { syncPath } from "../system/sync-path.ts";
import type { CheckpointFolder } from "./checkpoint/checkpoint-folder.ts";
import { type Checkpoints, copyOwnFiles } from "./checkpoint/checkpoints.ts";
import { listImage, type SealedImage, sealImage } from "./checkpoint/image-files.ts";
import { type ImageFiles, MANIFEST_FORMAT, type Manifest, volumesIn } from "./checkpoint/manifest.ts";
import { CHECKPOINT_MS } from "./limits.ts";
import { keptFiles } from "./mounted-files.ts";
import type { Network } from "./network/network.ts";
import { quiesce } from "./quiesce.ts";
import { FailedTry, type ImageBounds, type StoppedSandbox } from "./runtime/runtime.ts";
import type { Runtimes } from "./runtime/runtimes.ts";
import { rootOf, type SandboxRecord } from "./sandbox-record.ts";
import type { Volumes } from "./volume/volume-disks.ts";

/** As a multiple of the sandbox's memory: CRIU writes memory that processes share once per process. */
export const IMAGE_PER_MEMORY_MAX = 16;
/** Each keeps a processor and the disk busy; a restore waits for the kernel half of the time. */
export const CHECKPOINTS_AT_ONCE_MAX = Math.max(2, availableParallelism());
/** Timeout for CRIU to write a sandbox: a base, plus time for each byte to write. */
const IMAGE_BASE_MS = scaled(30_000);
const IMAGE_BYTES_PER_SECOND_MIN = 16 * 1024 * 1024;

const NO_SPACE = /no space left on device|disk quota exceeded/i;

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
}

/** The state of the sandbox after the checkpoint. */
type AfterCheckpoint = "stays frozen" | "keeps running";

interface Writing {
  record: SandboxRecord;
  options: WriteOptions;
  after: AfterCheckpoint;
  draft: CheckpointFolder;
  bounds: ImageBounds;
}

export class Checkpointing {
  readonly #permits = new Semaphore(CHECKPOINTS_AT_ONCE_MAX);

  constructor(readonly parts: CheckpointingParts) {}

  /** When it throws, the sandbox keeps running and there is no checkpoint. */
  async write(record: SandboxRecord, name: string, options: WriteOptions, after: AfterCheckpoint): Promise<void> {
    const { checkpoints, runtimes } = this.parts;
    // Before queueing, so that a rejected checkpoint holds no place.
    if (options.memory) await runtimes.of(record.wall).requireCheckpointable?.(record.cgroup);
    using _permit = await this.#permits.acquire(options.owner);
    const bytes = await this.#requireSpace(record, options);
    try {
      const draft = await this.#withOneRetry(name, (begun, earlier) =>
        this.#stages({ record, options, after, draft: begun, bounds: this.#bounds(record, options, bytes) }, earlier),
      );
      await checkpoints.commit(name, draft, !options.temporary);
    } catch (cause) {
      // Remove first: while a checkpoint with this name exists, the sandbox counts as paused in it.
      await checkpoints.remove(name).finally(() => this.#unfreeze(record));
      throw withStatus(cause);
    }
  }

  /** Starts again, in a new folder, when the runtime asks for a second try. */
  async #withOneRetry(
    name: string,
    write: (draft: CheckpointFolder, earlier?: FailedTry) => Promise<void>,
  ): Promise<CheckpointFolder> {
    const { checkpoints } = this.parts;
    const first = checkpoints.begin(name);
    try {
      await write(first);
      return first;
    } catch (cause) {
      if (!(cause instanceof FailedTry)) throw cause;
      await checkpoints.remove(name);
      const second = checkpoints.begin(name);
      await write(second, cause);
      return second;
    }
  }

  /** Stages 1 to 5. */
  async #stages(writing: Writing, earlier?: FailedTry): Promise<void> {
    const { record, options, after, draft, bounds } = writing;
    // Nothing of it continues when this returns or throws.
    await using beside = new ParallelWork();
    const copying = options.memory && beside.run(copyOwnFiles(this.#folderOf(record), draft.own, keptFiles(record)));
    const stopped = await this.#stop(writing, earlier);
    let finishing: Promise<void>;
    try {
      // Blocks that find no room are lost, so the room is checked before each flush.
      bounds.requireRoom();
      const flushing = options.memory && beside.run(this.#flushed(record, stopped.givenUp));
      await stopped.write();
      const image = beside.run(this.#seal(writing));
      void beside.run(image.then((sealed) => sealed?.durable));
      await this.#keepDisk(writing, await flushing, stopped.givenUp);
      await copying;
      finishing = beside.run(this.#finish(writing, image));
      await stopped.release();
    } catch (cause) {
      await stopped.undo();
      stopped.givenUp.throwIfAborted();
      throw cause;
    }
    if (after === "keeps running") await this.#unfreeze(record);
    options.signal?.throwIfAborted();
    await finishing;
  }

  async #stop({ record, options, draft, bounds }: Writing, earlier?: FailedTry): Promise<StoppedSandbox> {
    const { runtimes, network } = this.parts;
    const { id, pid, cgroup, mounts } = record;
    if (!options.memory) return await frozen(cgroup);
    const runtime = runtimes.of(record.wall);
    if (!runtime.keepsConnections) await quiesce(network, record);
    const { sharesMemory } = record.kind;
    const places = { folder: this.#folderOf(record), images: draft.memory, mounts };
    const request = { id, pid, cgroup, ...places, sharesMemory, bounds };
    return await runtime.checkpoint(request, earlier);
  }

  #bounds(record: SandboxRecord, { signal }: WriteOptions, bytes: number): ImageBounds {
    const { disks } = this.parts;
    return {
      maxBytes: imageMaxBytes(record),
      maxMs: Math.min(CHECKPOINT_MS, IMAGE_BASE_MS + scaled((bytes / IMAGE_BYTES_PER_SECOND_MIN) * 1000)),
      requireRoom() {
        signal?.throwIfAborted();
        requireRoom(() => disks.requireSpace(0));
      },
    };
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
  async #keepDisk({ record, draft, bounds }: Writing, isFlushed: boolean, signal: AbortSignal): Promise<void> {
    const { disks } = this.parts;
    const file = disks.imageOf(record.disk);
    bounds.requireRoom();
    if (isFlushed && (await disks.cloneWritten(file, draft.disk, rootOf(record)))) return;
    await run(["sync", "-f", rootOf(record)], { timeoutMs: CHECKPOINT_MS, signal });
    if (!disks.reflink) {
      await run(["cp", "--reflink=auto", file, draft.disk], { timeoutMs: CHECKPOINT_MS, signal });
      return;
    }
    if (await disks.cloneWritten(file, draft.disk)) return;
    await syncPath(file);
    signal.throwIfAborted();
    await disks.clone(file, draft.disk);
  }

  /** Undefined: there is no image. */
  async #seal({ record, options, after, draft }: Writing): Promise<SealedImage | undefined> {
    if (!options.memory) return undefined;
    // The sandbox itself continues, so only copies will start from this image.
    if (after === "keeps running") await this.parts.runtimes.of(record.wall).wipeForCopies?.(draft.memory);
    return await (options.temporary ? listImage(draft) : sealImage(draft));
  }

  async #finish({ record, options, draft }: Writing, sealing: Promise<SealedImage | undefined>): Promise<void> {
    const { checkpoints } = this.parts;
    const image = await sealing;
    checkpoints.describe(draft, this.#manifest(record, options, draft, image?.files));
    if (options.temporary) return;
    await Promise.all([image?.durable, checkpoints.makeLasting(draft), this.#syncVolumes(record)]);
  }

  /** Data that the processes believe to be on a volume must survive a crash of the machine, too. */
  async #syncVolumes({ mounts }: SandboxRecord): Promise<void> {
    for (const { volume } of volumesIn(mounts)) await this.parts.volumes.sync(volume);
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
      kind: record.kind,
      ...(options.note === undefined ? {} : { note: options.note(draft) }),
    };
    if (files === undefined) return manifest;
    const { wall, guestFolder, mounts, slot } = record;
    const { imageFacts } = runtimes.of(wall);
    return {
      ...manifest,
      memory: { ...imageFacts, wall, guestFolder, address: network.address(slot), mounts, files },
    };
  }

  /** Returns the bytes to write, as far as they are known in advance. Throws when there is no room for them. */
  async #requireSpace(record: SandboxRecord, options: CheckpointOptions): Promise<number> {
    const maxBytes = imageMaxBytes(record);
    const { disks, runtimes } = this.parts;
    const memory = options.memory ? await runtimes.of(record.wall).imageBytes(record.cgroup, maxBytes) : 0;
    const disk = disks.reflink ? 0 : statSync(disks.imageOf(record.disk)).blocks * DISK_BLOCK_BYTES;
    requireRoom(() => disks.requireSpace(memory + disk));
    return memory + disk;
  }

  /** After a server restart: waits for a checkpoint that a killed server was writing, then lets the sandbox run on. */
  async recover(record: SandboxRecord): Promise<void> {
    await this.parts.runtimes.of(record.wall).untilWritten(record.id);
    await this.#unfreeze(record);
  }

  async #unfreeze(record: SandboxRecord): Promise<void> {
    const { runtimes, network } = this.parts;
    const runtime = runtimes.of(record.wall);
    await runtime.unfreeze(record.id, record.cgroup);
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
function requireRoom(demand: () => void): void {
  try {
    demand();
  } catch (cause) {
    throw new Fault(507, `the disk has no space for a checkpoint: ${Fault.from(cause).message}`, { cause });
  }
}

function withStatus(cause: unknown): Fault {
  const code = systemCode(cause);
  if (code === "ENOSPC" || code === "EDQUOT" || NO_SPACE.test(String(cause))) {
    return new Fault(507, "the disk has no space for this checkpoint; the sandbox is still running", { cause });
  }
  if (cause instanceof Fault && cause.status !== 500) return cause;
  return new Fault(500, "the checkpoint could not be written; the sandbox is still running", { cause });
}

/** The stopped sandbox of a checkpoint without memory. */
async function frozen(cgroup: string): Promise<StoppedSandbox> {
  await freeze(cgroup);
  const nothing = async () => undefined;
  return { givenUp: new AbortController().signal, write: nothing, release: nothing, undo: async () => thaw(cgroup) };
}

/** Work beside the stages. Disposal waits until all of it has ended, whether it failed or not. */
class ParallelWork implements AsyncDisposable {
  readonly #begun: Promise<unknown>[] = [];

  run<Result>(work: Promise<Result>): Promise<Result> {
    this.#begun.push(work.catch(() => undefined));
    return work;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#begun);
  }
}
