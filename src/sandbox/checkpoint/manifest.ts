/**
 * What a checkpoint says of itself: enough to bring it back to life, and to refuse before anything is touched when this
 * machine cannot.
 */
import { existsSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind, VolumeMount, Wall } from "../../contract/internal/host.ts";
import type { IdForm } from "../../system/id-range.ts";
import type { ImageFacts, OutsideMount, Runtime } from "../runtime/runtime.ts";
import { FIRST_WALL } from "../runtime/runtimes.ts";

export const MANIFEST_FORMAT = 1;

export interface Manifest {
  format: typeof MANIFEST_FORMAT;
  createdAt: string;
  kind: SandboxKind;
  /** How the owners of files on its disk are written; absent in those of servers that knew one form: shifted. */
  ids?: IdForm;
  memory?: MemoryFacts;
  /** What whoever had it written wants to know of it again. */
  note?: unknown;
}

/** What the runtime that wrote it wants to know of it again, and beside that: */
export type MemoryFacts = ImageFacts & {
  /** What it was written behind; absent in those of servers that had no choice. */
  wall?: Wall;
  /** The guest that is in memory; it runs on from the very same files. */
  guestFolder: string;
  /** Of a guest of an earlier version, which has it in its memory; all others get one with every restore. */
  controlSecret?: string;
  /** Where the sandbox was reached from the machine; its sockets may be bound to it. */
  address: string;
  /** What was mounted from outside; what lies below the sandbox's own folder begins with OWN_FOLDER there. */
  mounts: OutsideMount[];
  files: ImageFiles;
};

/** Each file of a memory image by its name. */
export type ImageFiles = Record<string, ImageFile>;

export interface ImageFile {
  bytes: number;
  digest: string;
  /** Where it begins in the pack, if it is small enough to be there as well. */
  at?: number;
}

export const OWN_FOLDER = "{sandbox}";
/** And what is a volume is this and its name. */
export const VOLUME = "{volume}/";

/** Those among what is mounted from outside. */
export function volumesIn(mounts: readonly OutsideMount[]): VolumeMount[] {
  return mounts
    .filter(({ outside }) => outside.startsWith(VOLUME))
    .map(({ inside, outside }) => ({ volume: outside.slice(VOLUME.length), path: inside }));
}

/** Throws a Fault 422 that says what does not fit; `memory: false` is the way out of all of them. */
export function demandFit(memory: MemoryFacts, wall: Wall, runtime: Pick<Runtime, "mismatch">): void {
  const reason =
    otherWall(memory, wall) ??
    runtime.mismatch(memory) ??
    (existsSync(memory.guestFolder) ? undefined : guestGone(memory));
  if (reason === undefined) return;
  throw new Fault(
    422,
    `the memory of this sandbox cannot be restored on this machine: ${reason}. ` +
      "Its files are intact; memory: false starts it from its disk",
  );
}

/** Mounts are a part of the memory: none can be added to it or left out. */
export function demandSameVolumes(memory: MemoryFacts, wanted: readonly VolumeMount[]): void {
  const listed = (mounts: readonly VolumeMount[]) => mounts.map(({ volume, path }) => `${path} ${volume}`).sort();
  const [written, asked] = [listed(volumesIn(memory.mounts)), listed(wanted)];
  if (written.length === asked.length && written.every((each, at) => each === asked[at])) return;
  throw new Fault(
    422,
    "the memory of this snapshot has other volumes mounted than this sandbox; " +
      "use the same ones, or a snapshot that was made with memory: false",
  );
}

/** No wall can do anything with what another one has written. */
function otherWall({ wall = FIRST_WALL }: MemoryFacts, wanted: Wall): string | undefined {
  return wall === wanted ? undefined : `it was written behind the wall ${wall}, and is to be behind ${wanted} now`;
}

function guestGone({ guestFolder }: MemoryFacts): string {
  return `the runtime it was started with, ${guestFolder}, is gone`;
}
