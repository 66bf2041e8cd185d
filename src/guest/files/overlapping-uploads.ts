/**
 * Tracks concurrent uploads to the same file. Files are written in place, so such uploads interleave. Two guarantees
 * remain: the file ends with the length of the upload that finishes last, and an aborted upload never removes data of
 * another one.
 */
import type { BigIntStats } from "node:fs";

export class OverlappingUploads {
  readonly #writing = new Map<string, Set<UploadUnderWay>>();

  /** Keyed by the file itself, because links can give it several names. */
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
  /** Whether another upload wrote to the file during this one. Stays true after the other has ended. */
  overlapped = false;
  readonly #leave: () => void;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  [Symbol.dispose](): void {
    this.#leave();
  }
}
