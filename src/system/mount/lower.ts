/** A read-only layer of a root filesystem. A sandbox starts from several of them, topmost first. */
import type { IdForm } from "../id-range.ts";

export interface Lower {
  folder: string;
  /** How file owners are stored on the disk. */
  ids: IdForm;
}
