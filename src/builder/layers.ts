/**
 * Layers: what a build has made up to a step, for the next builds to begin with. Each is a checkpoint without memory, a
 * clone of the build's disk, named by a key of all that led to it. The least recently used make way.
 */
import { statSync, utimesSync } from "node:fs";
import { OneAtATimeByKey } from "../base/one-at-a-time.ts";
import { Fault } from "../contract/fault.ts";
import type { CheckpointFolder } from "../sandbox/checkpoint/checkpoint-folder.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Manifest } from "../sandbox/checkpoint/manifest.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { BuildContext } from "./build-context.ts";

/** The unit in which a file says how much room it takes. */
const DISK_BLOCK_BYTES = 512;
/** Behind the key of one that is being written. */
const DRAFT = "-draft";

/** What a layer knows of itself besides its disk. */
interface LayerNote {
  context: BuildContext;
  /** What it takes besides what it shares with the layer before it. */
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
  readonly #checkpoints: Checkpoints;
  readonly #checkpointing: Pick<Checkpointing, "write">;
  /** A layer is not replaced or removed while a disk is cloned from it. */
  readonly #turns = new OneAtATimeByKey();
  readonly #inUse = new Map<string, number>();

  /** `checkpointing` writes into `checkpoints`, where nothing else is. */
  constructor(checkpoints: Checkpoints, checkpointing: Pick<Checkpointing, "write">) {
    this.#checkpoints = checkpoints;
    this.#checkpointing = checkpointing;
  }

  /** Undefined: there is none, or one that this program cannot use. Using one makes it the newest. */
  find(key: string): Layer | undefined {
    const found = this.#read(key);
    if (found === undefined) return undefined;
    const { folder, note } = found;
    const now = new Date();
    utimesSync(folder.manifest, now, now);
    return { key, folder, context: note.context };
  }

  /** Nothing happens to the layer while `work` is under way. Fault 404 when it is gone. */
  async hold<Result>(key: string, work: (layer: Layer) => Promise<Result>): Promise<Result> {
    return await this.#turns.run(key, async () => {
      const layer = this.find(key);
      if (layer === undefined) throw new Fault(404, `the layer ${key} is gone`);
      return await work(layer);
    });
  }

  /** From now on it is not collected, until the answer is disposed of. */
  keep(key: string): Disposable {
    this.#inUse.set(key, (this.#inUse.get(key) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#inUse.get(key) ?? 0) - 1;
        if (left > 0) this.#inUse.set(key, left);
        else this.#inUse.delete(key);
      },
    };
  }

  /**
   * Writes the disk of a running sandbox, which goes on, as this layer; `before` is the one that it began with. One
   * that is there stays until the other is whole: a build may be about to begin with it, and this one may fail.
   */
  async write(
    record: SandboxRecord,
    key: string,
    { context, owner, before }: { context: BuildContext; owner: string; before: string | undefined },
  ): Promise<void> {
    await this.#turns.run(key, async () => {
      const note = ({ disk }: CheckpointFolder): LayerNote => ({
        context,
        bytes: Math.max(0, bytesOf(disk) - this.#bytesOnDisk(before)),
      });
      await this.#checkpointing.write(record, key + DRAFT, { memory: false, owner, note }, "goes on");
      await this.#checkpoints.rename(key + DRAFT, key);
    });
  }

  /** Of all layers. */
  async bytes(): Promise<number> {
    return (await this.#all()).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Removes what is too old, or too much, or cannot be used; never what a build of this moment began with. */
  async collect({ layersMaxBytes, layersKeptMs }: LayerBounds, isUsable: (image: string) => boolean): Promise<void> {
    let bytes = 0;
    for (const { key, usedAt, ...layer } of await this.#all()) {
      bytes += layer.bytes;
      const isNeeded = layer.image !== undefined && isUsable(layer.image);
      if (isNeeded && bytes <= layersMaxBytes && usedAt >= Date.now() - layersKeptMs) continue;
      await this.#turns.run(key, async () => {
        if (this.#inUse.has(key) || this.#usedAt(key) !== usedAt) return;
        bytes -= layer.bytes;
        await this.#checkpoints.remove(key);
      });
    }
  }

  /** Removes what was begun and never finished. Nothing may be under way. */
  async recover(): Promise<void> {
    await this.#checkpoints.keepOnly(new Set(await this.#keys()));
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
    return (await this.#checkpoints.list()).filter((name) => !name.endsWith(DRAFT));
  }

  #read(key: string): { folder: CheckpointFolder; manifest: Manifest; note: LayerNote } | undefined {
    if (!this.#checkpoints.has(key)) return undefined;
    try {
      const { folder, manifest } = this.#checkpoints.read(key);
      return { folder, manifest, note: manifest.note as LayerNote };
    } catch {
      // Of another version of this program.
      return undefined;
    }
  }

  #usedAt(key: string): number {
    return statSync(this.#checkpoints.folderOf(key).manifest, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  }

  #bytesOnDisk(key: string | undefined): number {
    return key === undefined ? 0 : bytesOf(this.#checkpoints.folderOf(key).disk);
  }
}

function bytesOf(disk: string): number {
  return (statSync(disk, { throwIfNoEntry: false })?.blocks ?? 0) * DISK_BLOCK_BYTES;
}
