/**
 * Events between the kernel and a client that takes them when it likes. Nothing can hold back what happens to files, so
 * a full buffer ends the watching; what it holds counts against a budget that all buffers of the daemon share.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../../contract/fault.ts";
import { EventType, type FilesystemEventSchema } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { refuse } from "../../system/rpc-fault.ts";

/** Events that a client has not taken yet: of one watcher, and of all together. */
export const WATCHER_BUFFER_MAX_BYTES = 16 * 1024 * 1024;
const WATCHERS_BUFFERS_MAX_BYTES = 64 * 1024 * 1024;
/** Counted for each event, and for its entry, besides their texts. */
const WATCHER_EVENT_OVERHEAD_BYTES = 256;
const WATCHER_ENTRY_OVERHEAD_BYTES = 1024;
/** Events on their way from a watcher's buffer to its stream. */
const WATCHER_TAKE_EVENTS = 64;

export type FilesystemEventInit = MessageInitShape<typeof FilesystemEventSchema> & { name: string; type: EventType };

/** Bytes held by all buffers together. */
export class BufferBudget {
  readonly #maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes = WATCHERS_BUFFERS_MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get isSpent(): boolean {
    return this.#usedBytes > this.#maxBytes;
  }

  spend(bytes: number): void {
    this.#usedBytes += bytes;
  }
}

export class EventBuffer {
  readonly #budget: BufferBudget;
  readonly #maxBytes: number;
  #events: FilesystemEventInit[] = [];
  #bytes = 0;
  #closed = false;
  #failure: Fault | undefined;
  #wakeTaker: (() => void) | undefined;

  constructor(budget: BufferBudget, maxBytes = WATCHER_BUFFER_MAX_BYTES) {
    this.#budget = budget;
    this.#maxBytes = maxBytes;
  }

  /** Throws when the buffer is full; then it holds nothing any more. */
  add(event: FilesystemEventInit): void {
    if (this.#closed || this.#failure !== undefined) return;
    const last = this.#events.at(-1);
    if (last !== undefined && repeats(last, event)) {
      this.#count(cost(event) - cost(last));
      this.#events[this.#events.length - 1] = event;
    } else {
      this.#count(cost(event));
      this.#events.push(event);
    }
    this.#wakeTaker?.();
    if (this.#bytes <= this.#maxBytes && !this.#budget.isSpent) return;
    this.#empty();
    throw refuse(
      "resource_exhausted",
      "more events were waiting than the runtime keeps for a reader, so watching ended; watch again, and take events faster",
    );
  }

  /** Everything waiting is still handed out to a stream before the failure. */
  fail(failure: Fault): void {
    this.#failure ??= failure;
    this.#wakeTaker?.();
  }

  /** Everything waiting, at once. Throws after a failure, every time. */
  takeAll(): FilesystemEventInit[] {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#empty();
  }

  /**
   * Some of what is waiting; "idle" when nothing came in time; "closed" at the end. Throws the failure when nothing is
   * left.
   */
  async take(withinMs: number): Promise<FilesystemEventInit[] | "idle" | "closed"> {
    if (this.#events.length === 0 && this.#failure === undefined && !this.#closed) await this.#wait(withinMs);
    if (this.#events.length > 0) return this.#takeSome();
    if (this.#failure !== undefined) throw this.#failure;
    return this.#closed ? "closed" : "idle";
  }

  close(): void {
    this.#closed = true;
    this.#empty();
    this.#wakeTaker?.();
  }

  async #wait(withinMs: number): Promise<void> {
    const woken = Promise.withResolvers<void>();
    const timer = setTimeout(woken.resolve, withinMs);
    this.#wakeTaker = woken.resolve;
    try {
      await woken.promise;
    } finally {
      clearTimeout(timer);
      this.#wakeTaker = undefined;
    }
  }

  /** Few at a time: what is taken is no longer counted, but a client may be slow with it. */
  #takeSome(): FilesystemEventInit[] {
    const taken = this.#events.splice(0, WATCHER_TAKE_EVENTS);
    this.#count(-taken.reduce((sum, event) => sum + cost(event), 0));
    return taken;
  }

  #empty(): FilesystemEventInit[] {
    const taken = this.#events;
    this.#events = [];
    this.#count(-this.#bytes);
    return taken;
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#budget.spend(bytes);
  }
}

/** As in the kernel's own queue: a file that is written again and again waits as one event. */
function repeats(last: FilesystemEventInit, next: FilesystemEventInit): boolean {
  const mayMerge = next.type === EventType.WRITE || next.type === EventType.CHMOD;
  return mayMerge && last.name === next.name && last.type === next.type;
}

function cost({ name, entry }: FilesystemEventInit): number {
  const own = WATCHER_EVENT_OVERHEAD_BYTES + name.length * 2;
  if (entry === undefined) return own;
  const texts = [entry.path, entry.symlinkTarget, ...Object.entries(entry.metadata ?? {}).flat()];
  return texts.reduce((sum, text) => sum + (text?.length ?? 0) * 2, own + WATCHER_ENTRY_OVERHEAD_BYTES);
}
