/**
 * Keeps a memory image within its bounds while CRIU writes it. CRIU writes the memory of each process separately,
 * including pages shared since a fork: some thousand processes in half a gibibyte would fill any disk, and with it the
 * room of all other sandboxes. CRIU also examines each page of a sparse file: one of 64 TiB with a single byte would
 * block other checkpoints. Its log, which is in memory and has lines for each mapping of every process, is bounded as
 * well.
 */
import { readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../../contract/fault.ts";
import { MIB } from "../../../../contract/limit.ts";
import { TOOL_LOG_MAX_BYTES } from "../../../limits.ts";
import type { ImageBounds } from "../../runtime.ts";

const IMAGE_WATCH_MS = 250;
/** Image files that grow with the sandbox's content; all others are small. */
const LARGE = /^(pages|ghost-file|tmpfs)-/;

interface WatchedImage extends ImageBounds {
  folder: string;
  /** The writer's log, whose end is of use. The writer appends, so the file can be truncated meanwhile. */
  log: string;
  stop(): Promise<void>;
}

export class ImageWatch implements Disposable {
  readonly #timer: Timer;
  readonly #startedAt = performance.now();
  #fault: Fault | undefined;

  constructor(private readonly bound: WatchedImage) {
    this.#timer = setInterval(() => void this.#check().catch(() => undefined), IMAGE_WATCH_MS);
  }

  /** Why the writer was stopped, if it was. */
  get fault(): Fault | undefined {
    return this.#fault;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Continues after a stop, because the writer may retry. */
  async #check(): Promise<void> {
    const { folder, log, maxBytes, maxMs, requireRoom, stop } = this.bound;
    try {
      if (bytesOf(log) > 2 * TOOL_LOG_MAX_BYTES) truncateSync(log);
      if (performance.now() - this.#startedAt > maxMs) throw tooSlow(maxMs);
      if (bytesIn(folder) > maxBytes) throw tooLarge(maxBytes);
      requireRoom();
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
