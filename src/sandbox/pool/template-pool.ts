/** The ready and starting sandboxes of one kind and checkpoint, and the demand for them. */
import type { KeptReady, SandboxKind } from "../../contract/internal/host.ts";
import { Demand } from "./demand.ts";
import type { PooledTemplate } from "./pool-report.ts";

/** Estimated memory of the first one: booted, or restored from a checkpoint. */
const READY_GUESS_BYTES = 32 * 1024 ** 2;
const READY_GUESS_RESTORED_BYTES = 256 * 1024 ** 2;

export interface StartSpec {
  kind: SandboxKind;
  checkpoint: string | null;
}

interface Ready {
  id: string;
  bytes: number;
}

/** A sandbox on its way to the ready pool. A create that needs one meanwhile claims it instead of starting another. */
export class PendingStart {
  #claim: PromiseWithResolvers<string | undefined> | undefined;

  get isClaimed(): boolean {
    return this.#claim !== undefined;
  }

  /** Resolves with the id once the sandbox can be handed over; undefined: the start failed. */
  claim(): Promise<string | undefined> {
    this.#claim = Promise.withResolvers();
    return this.#claim.promise;
  }

  /** Returns whether the sandbox was claimed. */
  resolve(id: string | undefined): boolean {
    this.#claim?.resolve(id);
    return this.#claim !== undefined;
  }
}

export class TemplatePool {
  readonly kind: SandboxKind;
  readonly checkpoint: string | null;
  floor = 0;
  target = 0;
  readonly ready: Ready[] = [];
  readonly making = new Set<PendingStart>();
  demand = new Demand();
  readonly counts = { hits: 0, joined: 0, misses: 0 };
  retryAt = 0;
  /** The checkpoint does not fit this machine, or is gone; it is not retried. */
  isUnfit = false;
  #bytesEach: number | undefined;

  constructor({ kind, checkpoint }: StartSpec) {
    this.kind = kind;
    this.checkpoint = checkpoint;
  }

  /** Ready and unclaimed starting sandboxes. */
  get size(): number {
    return this.ready.length + this.unclaimed.length;
  }

  get unclaimed(): PendingStart[] {
    return [...this.making].filter(({ isClaimed }) => !isClaimed);
  }

  get heldBytes(): number {
    return this.ready.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get bytesEach(): number {
    return this.#bytesEach ?? (this.checkpoint === null ? READY_GUESS_BYTES : READY_GUESS_RESTORED_BYTES);
  }

  /** How many can be begun now: a single one until its memory use is known. */
  get missing(): number {
    if (this.isUnfit) return 0;
    const missing = this.target - this.size;
    return this.#bytesEach === undefined ? Math.min(missing, 1 - this.making.size) : missing;
  }

  put(ready: Ready): void {
    this.#bytesEach = ready.bytes;
    this.ready.push(ready);
  }

  report(): PooledTemplate {
    const { kind, ready, making, target, floor, counts } = this;
    return { templateId: kind.templateId, ready: ready.length, making: making.size, target, floor, ...counts };
  }
}

/**
 * Sandboxes share a pool only if everything that their start depends on is equal, the isolation runtime first of all.
 */
export function keyOf({ kind, checkpoint }: StartSpec): string {
  const { wall = null, sharesMemory = false, image, cpuCount, memoryMB, diskSizeMB } = kind;
  return JSON.stringify([wall, sharesMemory, image, cpuCount, memoryMB, diskSizeMB, checkpoint]);
}

/** The operator's minimum by key. Two templates may have the same key; their minimums add up. */
export function floorsOf(kept: readonly KeptReady[]): Map<string, KeptReady> {
  const floors = new Map<string, KeptReady>();
  for (const each of kept) {
    const alike = floors.get(keyOf(each))?.count ?? 0;
    if (each.count > 0) floors.set(keyOf(each), { ...each, count: each.count + alike });
  }
  return floors;
}
