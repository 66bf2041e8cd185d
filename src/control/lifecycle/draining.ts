/**
 * Draining: the machine starts no further runs, so that it empties before maintenance. Running sandboxes keep running,
 * and paused ones stay paused. Survives a restart.
 */
import { Fault } from "../../contract/fault.ts";
import type { Parts } from "../parts.ts";

const NAME = "node";

type NodeStatus = "ready" | "draining";

export class Draining {
  #status: NodeStatus = "ready";
  #changedAt: number;

  constructor(private readonly services: Pick<Parts, "store" | "clock">) {
    this.#changedAt = services.clock.now();
  }

  async start(): Promise<void> {
    const kept = await this.services.store.serverState.of(NAME);
    if (kept === undefined) return;
    this.#status = kept.value === "draining" ? "draining" : "ready";
    this.#changedAt = kept.changedAt;
  }

  get status(): { status: NodeStatus; changedAt: number } {
    return { status: this.#status, changedAt: this.#changedAt };
  }

  async change(status: NodeStatus): Promise<void> {
    if (status === this.#status) return;
    const { store, clock } = this.services;
    const now = clock.now();
    await store.serverState.set(NAME, status, now);
    this.#status = status;
    this.#changedAt = now;
  }

  /** Fault 503 while the machine is drained. */
  requireReady(): void {
    if (this.#status === "ready") return;
    const message = "Failed to place sandbox: the operator drains this machine for maintenance; try again later";
    throw new Fault(503, message, { errorCode: "sandbox_capacity_unavailable" });
  }
}
