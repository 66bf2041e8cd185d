/**
 * Ends sandboxes that have the kernel keep for them what counts for nobody (socket-queues.ts). All of them are looked
 * at now and then, and at once when the kernel's own memory grows: to see that takes one small file.
 */
import { described, stderrLog } from "../base/log.ts";
import { kernelBytes, type Queued, queuedIn } from "./socket-queues.ts";

/**
 * What may wait in the netlink and ping sockets of a sandbox, and unsent in its UDP sockets, in all: it is in nobody's
 * memory. And how many of the first two it may have. Those of a sandbox that has no more than a few are not looked at;
 * of UDP sockets, each of which holds 64 KiB at most, these are more.
 */
export const QUEUED_PER_SANDBOX_MAX_BYTES = 32 * 1024 * 1024;
export const QUEUING_SOCKETS_PER_SANDBOX_MAX = 4096;
/**
 * All sandboxes are looked at after the longest time; after the shortest one if the kernel's memory has grown by so
 * much, which is seen at every tick.
 */
const QUEUE_LOOK_MAX_MS = 10_000;
const QUEUE_LOOK_GAP_MS = 500;
const QUEUE_TICK_MS = 250;
const QUEUE_GROWTH_BYTES = 64 * 1024 * 1024;
/** So many sandboxes before others get their turn. */
export const QUEUE_LOOK_TURN = 8;

interface Watched {
  id: string;
  pid: number;
}

const MIB = 1024 * 1024;

export class QueueWatch {
  readonly #sandboxes: () => Iterable<Watched>;
  readonly #end: (id: string, reason: string) => void;
  readonly #queued: (pid: number) => Queued;
  readonly #timer: Timer;
  #lookedAt = performance.now();
  #kernelBytes = kernelBytes();
  #isLooking = false;

  constructor(
    sandboxes: () => Iterable<Watched>,
    end: (id: string, reason: string) => void,
    queued: (pid: number) => Queued = queuedOrNone,
  ) {
    this.#sandboxes = sandboxes;
    this.#queued = queued;
    this.#end = end;
    this.#timer = setInterval(() => void this.#tick(), QUEUE_TICK_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #tick(): Promise<void> {
    if (this.#isLooking || !this.#isTime()) return;
    this.#isLooking = true;
    try {
      await this.look();
    } catch (error) {
      stderrLog.write({ level: "error", event: "queues of sockets could not be looked at", error: described(error) });
    } finally {
      this.#lookedAt = performance.now();
      this.#kernelBytes = kernelBytes();
      this.#isLooking = false;
    }
  }

  #isTime(): boolean {
    const ms = performance.now() - this.#lookedAt;
    if (ms >= QUEUE_LOOK_MAX_MS) return true;
    const now = kernelBytes();
    // What has been given back can be taken again.
    this.#kernelBytes = Math.min(this.#kernelBytes, now);
    return ms >= QUEUE_LOOK_GAP_MS && now - this.#kernelBytes >= QUEUE_GROWTH_BYTES;
  }

  /** At all of them, now. */
  async look(): Promise<void> {
    let looked = 0;
    // One that is being paused when its turn comes is not among them; it is looked at again if it goes on to run.
    for (const { id, pid } of this.#sandboxes()) {
      const reason = offenceOf(this.#queued(pid));
      if (reason !== undefined) this.#end(id, reason);
      // Requests are answered in between.
      if (++looked % QUEUE_LOOK_TURN === 0) await Bun.sleep(0);
    }
  }
}

/** Undefined: nothing to object to. */
export function offenceOf({ sockets, bytes }: Queued): string | undefined {
  if (bytes > QUEUED_PER_SANDBOX_MAX_BYTES) {
    const most = `at most ${QUEUED_PER_SANDBOX_MAX_BYTES / MIB} MiB may wait there`;
    return `its netlink, ping and UDP sockets held ${Math.round(bytes / MIB)} MiB that count for nobody; ${most}`;
  }
  if (sockets > QUEUING_SOCKETS_PER_SANDBOX_MAX) {
    return `it had ${sockets} netlink and ping sockets open; there may be ${QUEUING_SOCKETS_PER_SANDBOX_MAX}`;
  }
  return undefined;
}

function queuedOrNone(pid: number): Queued {
  try {
    return queuedIn(pid);
  } catch {
    // It has ended.
    return { sockets: 0, bytes: 0 };
  }
}
