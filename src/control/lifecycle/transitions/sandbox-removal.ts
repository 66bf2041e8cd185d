/**
 * The last step of every sandbox: destroys it and its checkpoint, then deletes its row. Only the caller that changed
 * the row to `killing` calls this. After a failure the row stays in `killing`, unreachable, and the removal is retried
 * until it succeeds; the next start finishes what a restart interrupts. A slow removal delays no other.
 */
import { described } from "../../../base/log.ts";
import { RetryQueue } from "../../../base/retry-queue.ts";
import { Fault } from "../../../contract/fault.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import type { Parts } from "../../parts.ts";
import type { Changes } from "../changes.ts";
import { notGoneYet } from "../sandbox-status.ts";

/** Concurrent removals. */
export const REMOVALS_AT_ONCE = 8;
/** A failed removal of a sandbox is retried after the first delay, doubling up to the second. */
const REMOVAL_RETRY_MIN_MS = 1_000;
const REMOVAL_RETRY_MAX_MS = 60_000;
/** After this time a slow removal continues but frees its place in the queue. */
const REMOVAL_WAIT_MS = 1_000;

type EndedSandbox = Pick<Sandbox, "id" | "executionId" | "checkpoint" | "teamId">;

interface RemovalServices extends Omit<Parts, "idleClock"> {
  changes: Changes;
}

export class SandboxRemoval {
  readonly #queue: RetryQueue<EndedSandbox>;
  /** Sandboxes that are not gone yet. */
  readonly #underWay = new Set<string>();
  /** Sandboxes whose removal has failed so far. */
  readonly #failed = new Set<string>();
  /** Failed sandboxes that still run, according to the host, with their teams. */
  readonly #running = new Map<string, string>();

  constructor(private readonly services: RemovalServices) {
    this.#queue = new RetryQueue<EndedSandbox>({
      clock: services.clock,
      background: services.background,
      work: (sandbox) => this.#remove(sandbox),
      failed: (sandbox, error) => this.#noteFailure(sandbox, error),
      atOnce: REMOVALS_AT_ONCE,
      waitMaxMs: REMOVAL_WAIT_MS,
      retryMinMs: REMOVAL_RETRY_MIN_MS,
      retryMaxMs: REMOVAL_RETRY_MAX_MS,
    });
  }

  /** Removes it now. When it throws, a retry is queued. */
  async finish(sandbox: EndedSandbox): Promise<void> {
    this.#underWay.add(sandbox.id);
    await this.#queue.finish(sandbox).catch((cause: unknown) => {
      const fault = Fault.from(cause);
      if (fault.status === 503) throw notGoneYet(sandbox.id, cause);
      const message = `sandbox "${sandbox.id}" could not be removed yet; that is tried again; the server's log has the details`;
      throw new Fault(500, message, { cause });
    });
  }

  /** Queues the removals. */
  enqueue(sandboxes: readonly EndedSandbox[]): void {
    for (const { id } of sandboxes) this.#underWay.add(id);
    this.#queue.enqueue(sandboxes);
  }

  isUnderWay(id: string): boolean {
    return this.#underWay.has(id);
  }

  /** Whether all attempts have failed so far. */
  hasFailed(id: string): boolean {
    return this.#failed.has(id);
  }

  /** Ids of sandboxes that were ended but still run: of this team, or of all. */
  running(teamId?: string): string[] {
    return [...this.#running].flatMap(([id, team]) => (teamId === undefined || team === teamId ? [id] : []));
  }

  close(): void {
    this.#queue.close();
  }

  async #remove(sandbox: EndedSandbox): Promise<void> {
    const { store, host, changes, log } = this.services;
    const { id, checkpoint } = sandbox;
    await host.destroy(id);
    this.#running.delete(id);
    if (checkpoint !== null) await host.removeCheckpoint(checkpoint);
    await store.sandboxes.remove(sandbox);
    this.#failed.delete(id);
    this.#underWay.delete(id);
    changes.note(id);
    log.write({ level: "info", event: "sandbox ended", sandbox: id });
  }

  #noteFailure({ id, teamId }: EndedSandbox, error: unknown): void {
    this.#failed.add(id);
    if (error instanceof Fault && error.status === 503) this.#running.set(id, teamId);
    const event = "sandbox could not be destroyed";
    this.services.log.write({ level: "error", event, sandbox: id, error: described(error) });
  }
}
