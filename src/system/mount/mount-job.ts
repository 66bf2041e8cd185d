/** What the mount worker is told, and what it answers. Errors do not come whole from another thread. */
import { Fault } from "../../contract/fault.ts";
import { overloaded, shortageOf } from "../overload.ts";
import type { Lower } from "./lower.ts";

export type MountJob =
  /** An image file, attached to a self-freeing loop device and mounted. */
  | { kind: "loop"; image: string; target: string; type: "ext4" | "btrfs"; options: string }
  /** The same, only to be read, by nobody but the server. */
  | { kind: "look"; image: string; target: string; type: "ext4" }
  | { kind: "device"; device: string; target: string; type: "btrfs"; options: string }
  /**
   * The image of a volume, which is never attached twice: where it still is, as by sandboxes that outlived a server,
   * the same filesystem is mounted once more.
   */
  | { kind: "volume"; image: string; target: string; options: string }
  /**
   * The disk of a sandbox: an image file with the folders `upper` and `work`, as "loop". Its owners are mapped to those
   * from `firstId` on; undefined: nothing can be mapped. One that is fresh gets these files. Answers whether they are
   * plain.
   */
  | { kind: "disk"; image: string; target: string; options: string; firstId: number | undefined; etc?: EtcFiles }
  /** The root of a sandbox, on its disk, which is mounted. For as long as it takes, `folder` has the lowers as well. */
  | OverlayJob
  /** A folder of a tenant, whose owners are shifted, once more, with its owners mapped in the same way. */
  | { kind: "map"; source: string; target: string; firstId: number }
  /**
   * A memory image once more, with its owners mapped in the same way, to be read; in it, files of these names are those
   * at the paths. Gone with one detaching.
   */
  | { kind: "image"; source: string; target: string; firstId: number; files: Readonly<Record<string, string>> }
  | { kind: "tmpfs"; target: string; options: string }
  | { kind: "detach"; target: string }
  /**
   * All that is mounted below a folder, and these two folders in it, which are the places of some of that. Where it is
   * known what all of it is, in the order in which it was mounted, nobody has to look.
   */
  | { kind: "release"; folder: string; places: readonly [string, string]; mounted?: readonly string[] | undefined }
  /** Answers false where the filesystem cannot share blocks. */
  | { kind: "reflink"; source: string; target: string }
  /** The same of a file of which no more than so many bytes have to be written first; answers false for any other. */
  | { kind: "reflink-written"; source: string; target: string; unwrittenMax: number }
  /** What was written to the filesystem of this folder reaches its disk. Only for one that has been flushed before. */
  | { kind: "flush"; folder: string }
  /**
   * Whether a disk has changed a file of a layer below of which it does not have all names: by some names in the
   * overlay's index of it. There may be as many as the disk has files, and sandboxes wait for this thread.
   */
  | { kind: "lacks-names"; index: string; names: readonly string[] }
  /** Not a mount, but as slow: a file that is to stay in memory. Answers false where it may be dropped again. */
  | { kind: "hold"; path: string }
  /** All files below it that were to stay in memory. */
  | { kind: "let-go"; folder: string };

/** What a sandbox has in its /etc instead of what the image has there. */
export interface EtcFiles {
  owner: number;
  /** By name. */
  files: Readonly<Record<string, string>>;
}

export interface OverlayJob {
  kind: "overlay";
  target: string;
  disk: string;
  lowers: readonly Lower[];
  folder: string;
  /** As of the disk. */
  firstId: number | undefined;
}

/** A message has one job or several, which are done in their order. */
export interface MountRequest {
  number: number;
  jobs: readonly MountJob[];
}

/** Fewer values than there were jobs: the last of them was a reflink that could not be, so there was no going on. */
export type MountOutcome = { number: number; values: boolean[] } | MountFailure;

interface MountFailure {
  number: number;
  status: number;
  error: string;
  /** The kernel's word for what the machine is short of, if that is the reason. */
  shortage: string | undefined;
}

export function mountFailure(number: number, thrown: unknown): MountFailure {
  const error = thrown instanceof Error ? thrown.message : String(thrown);
  return { number, status: Fault.from(thrown).status, error, shortage: shortageOf(thrown) };
}

/** The same again, for whoever asked for the job. */
export function mountFault({ status, error, shortage }: Omit<MountFailure, "number">): Fault {
  if (shortage !== undefined) return overloaded(`a disk could not be made ready (${shortage})`, new Error(error));
  return status === 503 ? overloaded(error) : new Fault(status, error);
}
