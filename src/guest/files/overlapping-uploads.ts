/**
 * Which uploads write to the same file at the same time. Files are written in place, so two uploads to one file write
 * into one another; what holds is that the file ends with the length of the upload that finishes last, and that an
 * upload that breaks off never takes away what another one wrote.
 */
import type { BigIntStats } from "node:fs";

export class OverlappingUploads {
  readonly #writing = new Map<string, Set<UploadUnderWay>>();

  /** By the file itself and not by its name: links lead two names to one file. */
  enter(file: Pick<BigIntStats, "dev" | "ino">): UploadUnderWay {
    const key = `${file.dev}:${file.ino}`;
    const others = this.#writing.get(key) ?? new Set();
    const upload = new UploadUnderWay(() => {
      others.delete(upload);
      if (others.size === 0) this.#writing.delete(key);
    });
    for (const other of others) other.overlapped = true;
    upload.overlapped = others.size > 0;
    this.#writing.set(key, others.add(upload));
    return upload;
  }
}

class UploadUnderWay implements Disposable {
  /** Another upload wrote to the file while this one did. Stays true when the other is over. */
  overlapped = false;
  readonly #leave: () => void;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  [Symbol.dispose](): void {
    this.#leave();
  }
}
