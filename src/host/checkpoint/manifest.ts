/**
 * What a checkpoint says of itself: enough to bring it back to life, and to refuse before anything is touched when this
 * machine cannot.
 */
import { existsSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../host.ts";
import type { ImageFacts, OutsideMount, Runtime } from "../runtime/runtime.ts";
import type { IdForm } from "../system/id-range.ts";

export const MANIFEST_FORMAT = 1;

export interface Manifest {
  format: typeof MANIFEST_FORMAT;
  createdAt: string;
  kind: SandboxKind;
  hostname: string;
  /** How the owners of files on its disk are written; absent in those of servers that knew one form: shifted. */
  ids?: IdForm;
  memory?: MemoryFacts;
  /** What whoever had it written wants to know of it again. */
  note?: unknown;
}

/** What the runtime that wrote it wants to know of it again, and beside that: */
export type MemoryFacts = ImageFacts & {
  /** The guest that is in memory; it runs on from the very same files. */
  guestFolder: string;
  controlSecret: string;
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

/** Throws a Fault 422 that says what does not fit; `memory: false` is the way out of all of them. */
export function demandFit(memory: MemoryFacts, runtime: Pick<Runtime, "misfit">): void {
  const reason = runtime.misfit(memory) ?? (existsSync(memory.guestFolder) ? undefined : guestGone(memory));
  if (reason === undefined) return;
  throw new Fault(
    422,
    `the memory of this sandbox cannot be restored on this machine: ${reason}. ` +
      "Its files are intact; memory: false starts it from its disk",
  );
}

function guestGone({ guestFolder }: MemoryFacts): string {
  return `the runtime it was started with, ${guestFolder}, is gone`;
}
