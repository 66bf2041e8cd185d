/**
 * Keeps a memory image within its bounds while it is written. CRIU writes the memory of each process for itself, also
 * what many of them share since a fork: some thousand processes in half a gibibyte would fill any disk, and with it
 * take the room of all other sandboxes. And it looks at each page of what is mostly a hole: a file of 64 TiB with one
 * byte in it would keep others waiting. So it keeps what CRIU says of its work, in memory, with lines for each mapping
 * of every process.
 */
import { readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../../contract/fault.ts";
import { IMAGE_WATCH_MS, TOOL_LOG_MAX_BYTES } from "../../../limits.ts";
import type { ImageBounds } from "../../runtime.ts";

/** The files of an image that grow with what a sandbox holds; of the others each is small. */
const LARGE = /^(pages|ghost-file|tmpfs)-/;
const MIB = 1024 * 1024;

interface WatchedImage extends ImageBounds {
  folder: string;
  /** What the writer says, of which the end is of use. It appends, so that it may be cut under its hands. */
  log: string;
  /** Ends whoever writes. */
  stop(): Promise<void>;
}

export class ImageWatch implements Disposable {
  readonly #bound: WatchedImage;
  readonly #timer: Timer;
  readonly #startedAt = performance.now();
  #fault: Fault | undefined;

  constructor(bound: WatchedImage) {
    this.#bound = bound;
    this.#timer = setInterval(() => void this.#look().catch(() => undefined), IMAGE_WATCH_MS);
  }

  /** Why it was stopped, if it was. */
  get fault(): Fault | undefined {
    return this.#fault;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Goes on after a stop: who writes may try again. */
  async #look(): Promise<void> {
    const { folder, log, maxBytes, maxMs, demandRoom, stop } = this.#bound;
    try {
      if (bytesOf(log) > 2 * TOOL_LOG_MAX_BYTES) truncateSync(log);
      if (performance.now() - this.#startedAt > maxMs) throw tooSlow(maxMs);
      if (bytesIn(folder) > maxBytes) throw tooLarge(maxBytes);
      demandRoom();
    } catch (cause) {
      this.#fault ??= Fault.from(cause);
      await stop();
    }
  }
}

export function tooLarge(maxBytes: number): Fault {
  return new Fault(
    422,
    "the memory of this sandbox cannot be kept: its processes have so much of it in common that it would take more than " +
      `${Math.floor(maxBytes / MIB)} MiB on disk. End some of them, or pause with memory: false to keep only the files`,
  );
}

function tooSlow(maxMs: number): Fault {
  return new Fault(
    422,
    `the memory of this sandbox cannot be kept: it could not be written within ${Math.ceil(maxMs / 1000)} s. Its processes may ` +
      "hold very many files open, or very large ones. End some of them, or pause with memory: false to keep only the files",
  );
}

function bytesIn(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder)) {
    if (LARGE.test(name)) bytes += bytesOf(join(folder, name));
  }
  return bytes;
}

function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
