/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** With less free space than this, no new sandbox is made, because the running ones need it. */
export const DISK_FREE_MIN_BYTES = 1024 ** 3;
/** Timeouts for copying the files of a finished build, syncing them, and removing those of an image. */
export const IMAGE_COPY_MS = scaled(900_000);
export const IMAGE_SYNC_MS = scaled(300_000);
export const IMAGE_REMOVE_MS = scaled(300_000);
