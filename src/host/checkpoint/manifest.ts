/**
 * What a checkpoint says of itself: enough to bring it back to life, and to refuse before anything is touched when this machine
 * cannot.
 */
import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../host.ts";

export const MANIFEST_FORMAT = 1;

export interface Manifest {
  format: typeof MANIFEST_FORMAT;
  createdAt: string;
  kind: SandboxKind;
  hostname: string;
  memory?: MemoryFacts;
}

export interface MemoryFacts {
  criu: string;
  kernel: string;
  architecture: string;
  cpuFeatures: string[];
  cgroupLayout: string;
  /** The guest that is in memory; it runs on from the very same files. */
  guestFolder: string;
  controlSecret: string;
  /** Where the sandbox was reached from the machine; its sockets may be bound to it. */
  address: string;
  /** What was mounted from outside: where it is inside, and where it came from. */
  mounts: OutsideMount[];
  files: ImageFiles;
}

/** Each file of a memory image by its name. */
export type ImageFiles = Record<string, ImageFile>;

export interface ImageFile {
  bytes: number;
  digest: string;
  /** Where it begins in the pack, if it is small enough to be there as well. */
  at?: number;
}

export interface OutsideMount {
  inside: string;
  /** A path on the machine; below the sandbox's own folder it begins with OWN_FOLDER. */
  outside: string;
}

export const OWN_FOLDER = "{sandbox}";

/** What this machine is, as far as a memory image cares. */
export interface MachineFacts {
  criu: string;
  kernel: string;
  architecture: string;
  cpuFeatures: string[];
  cgroupLayout: string;
}

export function machineFacts(criu: string, cgroupLayout: string): MachineFacts {
  return {
    criu,
    kernel: release(),
    architecture: process.arch,
    cpuFeatures: cpuFeatures(readFileSync("/proc/cpuinfo", "utf8")),
    cgroupLayout,
  };
}

/** Of the first processor; x86 calls them flags, arm Features. */
export function cpuFeatures(cpuinfo: string): string[] {
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1] ?? "";
  return line.split(/\s+/).filter(Boolean).sort();
}

/** Throws a Fault 422 that says what does not fit; `memory: false` is the way out of all of them. */
export function demandFit(memory: MemoryFacts, here: MachineFacts): void {
  const reason = misfit(memory, here);
  if (reason === undefined) return;
  throw new Fault(
    422,
    `the memory of this sandbox cannot be restored on this machine: ${reason}. ` +
      "Its files are intact; memory: false starts it from its disk",
  );
}

function misfit(memory: MemoryFacts, here: MachineFacts): string | undefined {
  if (memory.architecture !== here.architecture) {
    return `it was written on ${memory.architecture}, this is ${here.architecture}`;
  }
  if (isOlder(here.criu, memory.criu)) return `it was written by CRIU ${memory.criu}, here is ${here.criu}`;
  if (isOlder(here.kernel, memory.kernel)) return `it was written on Linux ${memory.kernel}, here is ${here.kernel}`;
  if (memory.cgroupLayout !== here.cgroupLayout) {
    return `it was written with cgroups ${memory.cgroupLayout}, here they are ${here.cgroupLayout}`;
  }
  const missing = memory.cpuFeatures.filter((feature) => !here.cpuFeatures.includes(feature));
  if (missing.length > 0) return `this processor lacks ${missing.slice(0, 8).join(", ")}`;
  if (!existsSync(memory.guestFolder)) return `the runtime it was started with, ${memory.guestFolder}, is gone`;
  return undefined;
}

/** Compares the leading numbers of two versions. */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split("-")[0]?.split(".").map(Number) ?? []);
  for (let part = 0; part < Math.max(a?.length ?? 0, b?.length ?? 0); part++) {
    const [left, right] = [a?.[part] ?? 0, b?.[part] ?? 0];
    if (left !== right) return left < right;
  }
  return false;
}
