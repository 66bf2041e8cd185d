/** The manifest of a checkpoint: what a restore needs, and whether this machine can do it. */
import { existsSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind, VolumeMount } from "../../contract/internal/host.ts";
import type { RuntimeName } from "../../contract/runtime-name.ts";
import type { ImageFacts, OutsideMount, Runtime } from "../runtime/runtime.ts";

export const MANIFEST_FORMAT = 1;

export interface Manifest {
  format: typeof MANIFEST_FORMAT;
  kind: SandboxKind;
  memory?: MemoryFacts;
  /** Data of the caller that had the checkpoint written. */
  note?: unknown;
}

/** The facts of the runtime that wrote the memory, and facts of the host. */
export type MemoryFacts = ImageFacts & {
  /** The isolation runtime that wrote the memory. */
  wall: RuntimeName;
  /** The folder of the guest that is in memory; it continues from the very same files. */
  guestFolder: string;
  /** The sandbox's address on the machine; its sockets may be bound to it. */
  address: string;
  /** Mounts from outside. Paths in the sandbox's own folder start with OWN_FOLDER. */
  mounts: OutsideMount[];
  files: ImageFiles;
};

export type ImageFiles = Record<string, ImageFile>;

export interface ImageFile {
  bytes: number;
  digest: string;
  /** Offset in the pack, for a file small enough to be there as well. */
  at?: number;
}

export const OWN_FOLDER = "{sandbox}";
/** Prefix of a mount source that is a volume; the volume's name follows. */
export const VOLUME = "{volume}/";

export function volumesIn(mounts: readonly OutsideMount[]): VolumeMount[] {
  return mounts
    .filter(({ outside }) => outside.startsWith(VOLUME))
    .map(({ inside, outside }) => ({ volume: outside.slice(VOLUME.length), path: inside }));
}

/** The text of a manifest for a machine with another cache folder. It names files of the guest by their paths. */
export function withCacheFolder(manifest: string, from: string, to: string): string {
  const [before, after] = [from, to].map((path) => JSON.stringify(`${path}/`).slice(0, -1));
  return manifest.replaceAll(before ?? "", () => after ?? "");
}

/** Throws Fault 422 with the reason why the memory does not fit. In all cases `memory: false` still works. */
export function requireFit(memory: MemoryFacts, name: RuntimeName, runtime: Pick<Runtime, "mismatch">): void {
  const reason = otherRuntime(memory, name) ?? runtime.mismatch(memory) ?? guestGone(memory);
  if (reason === undefined) return;
  throw new Fault(
    422,
    `the memory of this sandbox cannot be restored on this machine: ${reason}. ` +
      "Its files are intact; memory: false starts it from its disk",
  );
}

/** Mounts are part of the memory, so a restore can neither add nor omit a volume. */
export function requireSameVolumes(memory: MemoryFacts, wanted: readonly VolumeMount[]): void {
  const listed = (mounts: readonly VolumeMount[]) => mounts.map(({ volume, path }) => `${path} ${volume}`).sort();
  const [written, requested] = [listed(volumesIn(memory.mounts)), listed(wanted)];
  if (written.length === requested.length && written.every((each, at) => each === requested[at])) return;
  throw new Fault(
    422,
    "the memory of this snapshot has other volumes mounted than this sandbox; " +
      "use the same ones, or a snapshot that was made with memory: false",
  );
}

/** A memory image can be restored only by the isolation runtime that wrote it. */
function otherRuntime({ wall }: MemoryFacts, wanted: RuntimeName): string | undefined {
  return wall === wanted ? undefined : `it was written by ${wall}, and the template uses ${wanted} now`;
}

function guestGone({ guestFolder }: MemoryFacts): string | undefined {
  return existsSync(guestFolder) ? undefined : `the runtime it was started with, ${guestFolder}, is gone`;
}
