/** What the mount worker is told, and what it answers. */

export type MountJob =
  /** An image file, attached to a self-freeing loop device and mounted. */
  | { kind: "loop"; image: string; target: string; type: "ext4" | "btrfs"; options: string }
  | { kind: "device"; device: string; target: string; type: "btrfs"; options: string }
  | { kind: "overlay"; target: string; options: string }
  | { kind: "tmpfs"; target: string; options: string }
  | { kind: "detach"; target: string }
  /** Answers false where the filesystem cannot share blocks. */
  | { kind: "reflink"; source: string; target: string }
  /** Not a mount, but as slow: a file that is to stay in memory. Answers false where it may be dropped again. */
  | { kind: "hold"; path: string };

export type MountOutcome = { number: number; value: boolean } | { number: number; status: number; error: string };
