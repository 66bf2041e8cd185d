/**
 * Ends sandboxes that make the kernel hold socket buffers charged to no cgroup (socket-queues.ts). The watch examines
 * all sandboxes periodically, and at once when the kernel's own memory grows, which one small file shows.
 */
import { described, stderrLog } from "../base/log.ts";
import { MIB } from "../contract/limit.ts";
import { kernelMemoryBytes, type Queued, queuedIn } from "./socket-queues.ts";

/**
 * Maximum bytes queued in a sandbox's netlink and ping sockets plus unsent in its UDP sockets: no cgroup is charged for
 * them. Also the maximum number of netlink and ping sockets. A sandbox with only a few such sockets is not examined;
 * UDP sockets, which hold at most 64 KiB each, have a higher threshold.
 */
export const QUEUED_PER_SANDBOX_MAX_BYTES = 32 * 1024 * 1024;
export const QUEUING_SOCKETS_PER_SANDBOX_MAX = 4096;
/**
 * All sandboxes are examined every QUEUE_CHECK_MAX_MS, or as early as after QUEUE_CHECK_GAP_MS if the kernel's memory
 * has grown by QUEUE_GROWTH_BYTES, which every tick checks.
 */
const QUEUE_CHECK_MAX_MS = 10_000;
const QUEUE_CHECK_GAP_MS = 500;
const QUEUE_TICK_MS = 250;
const QUEUE_GROWTH_BYTES = 64 * 1024 * 1024;
/** Sandboxes to examine before yielding the event loop. */
export const QUEUE_CHECK_TURN = 8;

interface Watched {
  id: string;
  pid: number;
}

export class QueueWatch {
  readonly #timer: Timer;
  #checkedAt = performance.now();
  #kernelMemoryBytes = kernelMemoryBytes();
  #isLooking = false;

  constructor(
    private readonly sandboxes: () => Iterable<Watched>,
    private readonly end: (id: string, reason: string) => void,
    private readonly queued: (pid: number) => Queued = queuedOrNone,
  ) {
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
      await this.check();
    } catch (error) {
      stderrLog.write({ level: "error", event: "socket queues could not be read", error: described(error) });
    } finally {
      this.#checkedAt = performance.now();
      this.#kernelMemoryBytes = kernelMemoryBytes();
      this.#isLooking = false;
    }
  }

  #isTime(): boolean {
    const ms = performance.now() - this.#checkedAt;
    if (ms >= QUEUE_CHECK_MAX_MS) return true;
    const now = kernelMemoryBytes();
    // Memory that the kernel has released may grow again and must count as growth.
    this.#kernelMemoryBytes = Math.min(this.#kernelMemoryBytes, now);
    return ms >= QUEUE_CHECK_GAP_MS && now - this.#kernelMemoryBytes >= QUEUE_GROWTH_BYTES;
  }

  async check(): Promise<void> {
    let looked = 0;
    // `sandboxes` omits a sandbox that is being paused. If the pause fails, the next round examines it.
    for (const { id, pid } of this.sandboxes()) {
      const reason = exceededLimit(this.queued(pid));
      if (reason !== undefined) this.end(id, reason);
      if (++looked % QUEUE_CHECK_TURN === 0) await Bun.sleep(0);
    }
  }
}

/** The limit that the sandbox exceeds, as the reason of its end; undefined: none. */
export function exceededLimit({ sockets, bytes }: Queued): string | undefined {
  if (bytes > QUEUED_PER_SANDBOX_MAX_BYTES) {
    const limit = `the limit is ${QUEUED_PER_SANDBOX_MAX_BYTES / MIB} MiB`;
    return `its netlink, ping and UDP sockets held ${Math.round(bytes / MIB)} MiB of uncounted kernel memory; ${limit}`;
  }
  if (sockets > QUEUING_SOCKETS_PER_SANDBOX_MAX) {
    return `it had ${sockets} netlink and ping sockets open; the limit is ${QUEUING_SOCKETS_PER_SANDBOX_MAX}`;
  }
  return undefined;
}

function queuedOrNone(pid: number): Queued {
  try {
    return queuedIn(pid);
  } catch {
    // The sandbox has ended.
    return { sockets: 0, bytes: 0 };
  }
}
