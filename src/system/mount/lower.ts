/** A read-only layer of a root filesystem. Several of them, the topmost first, are what a sandbox starts from. */
import type { IdForm } from "../id-range.ts";

export interface Lower {
  folder: string;
  /** How the owners of its files are written on the disk. */
  ids: IdForm;
}
