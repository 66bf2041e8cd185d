/**
 * Cached layers: the disk after a build step, for later builds to start from. Each is a checkpoint without memory, a
 * clone of the build's disk, named by a key of all steps so far. The least recently used are removed first.
 */
import { statSync, utimesSync } from "node:fs";
import { Leases } from "../base/leases.ts";
import { KeyedQueue } from "../base/serial-queue.ts";
import { Fault } from "../contract/fault.ts";
import { DISK_BLOCK_BYTES } from "../images/disk/stored-bytes.ts";
import type { CheckpointFolder } from "../sandbox/checkpoint/checkpoint-folder.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Manifest } from "../sandbox/checkpoint/manifest.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { BuildContext } from "./build-context.ts";

const DRAFT = "-draft";

interface LayerNote {
  context: BuildContext;
  /** Absent: written by version 0.1.0. */
  owner?: string;
  /** Size without what it shares with the layer before it. */
  bytes: number;
}

export interface Layer {
  key: string;
  folder: CheckpointFolder;
  context: BuildContext;
}

interface LayerBounds {
  layersMaxBytes: number;
  layersKeptMs: number;
}

export class Layers {
  /** Protects a layer from being replaced or removed while a disk is cloned from it. */
  readonly #turns = new KeyedQueue();
  readonly #leases = new Leases();

  /** `checkpointing` writes into `checkpoints`, which holds layers only. */
  constructor(
    private readonly checkpoints: Checkpoints,
    private readonly checkpointing: Pick<Checkpointing, "write">,
  ) {}

  /** Undefined: no such layer, or unusable by this version. Using a layer makes it the newest. */
  find(key: string): Layer | undefined {
    const found = this.#read(key);
    if (found === undefined) return undefined;
    const { folder, note } = found;
    const now = new Date();
    utimesSync(folder.manifest, now, now);
    return { key, folder, context: note.context };
  }

  /** Runs `work` while the layer is locked. Fault 404: the layer is gone. */
  async hold<Result>(key: string, work: (layer: Layer) => Promise<Result>): Promise<Result> {
    return await this.#turns.run(key, async () => {
      const layer = this.find(key);
      if (layer === undefined) throw new Fault(404, `the layer ${key} is gone`);
      return await work(layer);
    });
  }

  /** Keeps the layer from collection until disposed. */
  keep(key: string): Disposable {
    return this.#leases.hold(key);
  }

  /**
   * Writes the disk of a running sandbox as this layer; `before` is the layer that the sandbox started from. An
   * existing layer stays until the new one is complete: another build may be about to use it, and this write may fail.
   */
  async write(
    record: SandboxRecord,
    key: string,
    { context, owner, before }: { context: BuildContext; owner: string; before: string | undefined },
  ): Promise<void> {
    await this.#turns.run(key, async () => {
      const note = ({ disk }: CheckpointFolder): LayerNote => ({
        context,
        owner,
        bytes: Math.max(0, bytesOf(disk) - this.#bytesOnDisk(before)),
      });
      await this.checkpointing.write(record, key + DRAFT, { memory: false, owner, note }, "keeps running");
      await this.checkpoints.rename(key + DRAFT, key);
    });
  }

  async bytes(): Promise<number> {
    return (await this.#all()).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Removes layers that are too old, exceed the total size or are unusable, except those in use by a running build. */
  async collect({ layersMaxBytes, layersKeptMs }: LayerBounds, isUsable: (image: string) => boolean): Promise<void> {
    using kept = this.#leases.watch();
    let bytes = 0;
    for (const { key, usedAt, ...layer } of await this.#all()) {
      bytes += layer.bytes;
      const isNeeded = layer.image !== undefined && isUsable(layer.image);
      if (isNeeded && bytes <= layersMaxBytes && usedAt >= Date.now() - layersKeptMs) continue;
      await this.#turns.run(key, async () => {
        if (kept.seen.has(key) || this.#usedAt(key) !== usedAt) return;
        bytes -= layer.bytes;
        await this.checkpoints.remove(key);
      });
    }
  }

  /** Removes all layers of an owner without running builds, and unused layers that do not name their owner. */
  async removeOf(owner: string): Promise<void> {
    using kept = this.#leases.watch();
    for (const key of await this.#keys()) {
      await this.#turns.run(key, async () => {
        const written = this.#read(key)?.note.owner;
        const isOwn = written === owner || (written === undefined && !kept.seen.has(key));
        if (isOwn) await this.checkpoints.remove(key);
      });
    }
  }

  /** Removes incomplete layers. No build may be running. */
  async recover(): Promise<void> {
    await this.checkpoints.keepOnly(new Set(await this.#keys()));
  }

  /** The most recently used first. */
  async #all(): Promise<{ key: string; usedAt: number; bytes: number; image: string | undefined }[]> {
    const found = (await this.#keys()).map((key) => {
      const read = this.#read(key);
      const image = read?.manifest.kind.image;
      return { key, usedAt: this.#usedAt(key), bytes: read?.note.bytes ?? this.#bytesOnDisk(key), image };
    });
    return found.sort((a, b) => b.usedAt - a.usedAt);
  }

  async #keys(): Promise<string[]> {
    return (await this.checkpoints.list()).filter((name) => !name.endsWith(DRAFT));
  }

  #read(key: string): { folder: CheckpointFolder; manifest: Manifest; note: LayerNote } | undefined {
    if (!this.checkpoints.has(key)) return undefined;
    try {
      const { folder, manifest } = this.checkpoints.read(key);
      return { folder, manifest, note: manifest.note as LayerNote };
    } catch {
      // Written by another version.
      return undefined;
    }
  }

  #usedAt(key: string): number {
    return statSync(this.checkpoints.folderOf(key).manifest, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  }

  #bytesOnDisk(key: string | undefined): number {
    return key === undefined ? 0 : bytesOf(this.checkpoints.folderOf(key).disk);
  }
}

function bytesOf(disk: string): number {
  return (statSync(disk, { throwIfNoEntry: false })?.blocks ?? 0) * DISK_BLOCK_BYTES;
}
