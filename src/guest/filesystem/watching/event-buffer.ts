/**
 * Buffers events between the kernel and a client. File changes cannot be held back, so a full buffer ends the watch.
 * The bytes held count against a budget that all buffers of the daemon share.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../../contract/fault.ts";
import { EventType, type FilesystemEventSchema } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { refuse } from "../../system/rpc-fault.ts";

/** Events not yet taken by clients: of one watcher, and of all watchers together. */
export const WATCHER_BUFFER_MAX_BYTES = 16 * 1024 * 1024;
const WATCHERS_BUFFERS_MAX_BYTES = 64 * 1024 * 1024;
/** Cost of each event, and of its entry, besides their texts. */
const WATCHER_EVENT_OVERHEAD_BYTES = 256;
const WATCHER_ENTRY_OVERHEAD_BYTES = 1024;
const WATCHER_TAKE_EVENTS = 64;

export type FilesystemEventInit = MessageInitShape<typeof FilesystemEventSchema> & { name: string; type: EventType };

let heldBytes = 0;

export class EventBuffer {
  #events: FilesystemEventInit[] = [];
  #bytes = 0;
  #closed = false;
  #failure: Fault | undefined;
  #wakeTaker: (() => void) | undefined;

  /** Throws if the buffer is full, and drops its events. */
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
    if (this.#bytes <= WATCHER_BUFFER_MAX_BYTES && heldBytes <= WATCHERS_BUFFERS_MAX_BYTES) return;
    this.#empty();
    throw refuse(
      "resource_exhausted",
      "more events were waiting than the runtime keeps for a reader, so watching ended; watch again, and take events faster",
    );
  }

  /** A stream still delivers all waiting events before the failure. */
  fail(failure: Fault): void {
    this.#failure ??= failure;
    this.#wakeTaker?.();
  }

  /** Takes all waiting events. After a failure, every call throws. */
  takeAll(): FilesystemEventInit[] {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#empty();
  }

  /** Takes some events; "idle" if none came in time; "closed" at the end. Throws the failure after the last. */
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

  /** Takes few at a time: taken events no longer count, but a slow client may still hold them in memory. */
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
    heldBytes += bytes;
  }
}

/** Merges like the kernel's own queue: repeated writes to a file wait as one event. */
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
