/** Jobs of the mount worker. */
import type { IdForm } from "../id-range.ts";

/** A read-only layer of a root filesystem. A sandbox starts from several of them, topmost first. */
export interface Lower {
  folder: string;
  /** How file owners are stored on the disk. */
  ids: IdForm;
}

export type MountJob =
  /** Attaches an image file to a self-freeing loop device and mounts it. */
  | { kind: "loop"; image: string; target: string; type: "ext4" | "btrfs"; options: string }
  /** Like "loop", but read-only and only for the server. */
  | { kind: "look"; image: string; target: string; type: "ext4" }
  | { kind: "device"; device: string; target: string; type: "btrfs"; options: string }
  /** Mounts a volume. It is never attached twice: if it still is, its filesystem is mounted once more. */
  | { kind: "volume"; image: string; target: string; options: string }
  /**
   * Mounts the disk of a sandbox: an image file with the folders `upper` and `work`. Owners are mapped to ids from
   * `firstId` on; undefined: ids cannot be mapped. A new disk gets these files in /etc.
   */
  | { kind: "disk"; image: string; target: string; options: string; firstId: number | undefined; etc?: EtcFiles }
  /** Mounts the root of a sandbox on its mounted disk. `folder` holds mounts of the lowers meanwhile. */
  | OverlayJob
  /** Mounts a tenant's folder with shifted owners once more, with its owners mapped. */
  | { kind: "map"; source: string; target: string; firstId: number }
  /** A read-only view of a memory image with mapped owners and these files instead. One detach removes it. */
  | { kind: "image"; source: string; target: string; firstId: number; files: Readonly<Record<string, string>> }
  | { kind: "tmpfs"; target: string; options: string }
  | { kind: "detach"; target: string }
  /** Detaches all mounts below a folder and removes these two. `mounted` saves reading the mount table. */
  | { kind: "release"; folder: string; places: readonly [string, string]; mounted?: readonly string[] | undefined }
  /** Returns false where the filesystem cannot share blocks. */
  | { kind: "reflink"; source: string; target: string }
  /** Like "reflink", but returns false if more than so many bytes of the file have to be written first. */
  | { kind: "reflink-written"; source: string; target: string; unwrittenMax: number }
  /** Syncs the filesystem of this folder. Only for one that was just flushed, because other jobs wait. */
  | { kind: "flush"; folder: string }
  /**
   * Whether a disk has changed a file of a lower layer without having all its names, judged by some names in the
   * overlay's index. The index may have as many entries as the disk has files, so it is passed in batches.
   */
  | { kind: "lacks-names"; index: string; names: readonly string[] }
  /** Not a mount, but as slow: locks a file in memory. Returns false where the kernel may drop it again. */
  | { kind: "lock-file"; path: string }
  /** Unlocks all files below a folder. */
  | { kind: "unlock-folder"; folder: string };

/** Files in a sandbox's /etc that replace those of the image. */
export interface EtcFiles {
  owner: number;
  files: Readonly<Record<string, string>>;
}

export interface OverlayJob {
  kind: "overlay";
  target: string;
  disk: string;
  lowers: readonly Lower[];
  folder: string;
  firstId: number | undefined;
}
