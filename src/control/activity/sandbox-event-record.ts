/**
 * Records events of sandboxes. The same transaction adds their webhook deliveries and the team's count of running
 * sandboxes, so a recorded event is delivered and counted even after a crash.
 */
import type { Timer } from "../../base/clock.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import { EVENT_TYPE_PREFIX } from "../../contract/management/sandbox-event.ts";
import type { SandboxEvent } from "../../store/sandbox-events.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Tables } from "../../store/store.ts";
import type { Delivery, Webhook } from "../../store/webhooks.ts";
import type { LifecycleEvent } from "../lifecycle/lifecycle-listener.ts";
import { ACTIVITY_STORE_RETRY_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import type { ActivityChange } from "./team-activity.ts";

/** Pending deliveries of one webhook. Later events are recorded as failed. */
export const DELIVERIES_WAITING_MAX = 1_000;
const EVENT_FLUSH_MS = 25;
/** Maximum events waiting for the store. */
const EVENTS_WAITING_MAX = 10_000;
const EVENTS_PER_WRITE = 64;
/** Longer metadata is left out of a sandbox's events: every event is stored, and a short request can cause one. */
const EVENT_METADATA_MAX_CHARS = 16 * 1024;

interface EventServices extends Omit<Parts, "host"> {
  /** There may be new deliveries. */
  onRecorded(): void;
  /** Records the counts of running sandboxes of teams. */
  recordActivity(tables: Tables, changes: readonly ActivityChange[]): Promise<void>;
}

/** Written in one transaction: an event, its effect on the team's count, or both. */
interface Entry {
  event: SandboxEvent | undefined;
  change: ActivityChange | undefined;
}

export class SandboxEventRecord {
  readonly #waiting: Entry[] = [];
  #timer: Timer | undefined;
  #lastPosition = 0;
  readonly #writing = new SerialQueue();

  constructor(private readonly services: EventServices) {}

  /** Never waits, never throws. */
  note(event: LifecycleEvent, sandbox: Sandbox, words: string | undefined, change: ActivityChange | undefined): void {
    const { clock, ids, log } = this.services;
    if (this.#waiting.length >= EVENTS_WAITING_MAX) {
      log.write({ level: "error", event: "event not recorded: too many wait", sandbox: sandbox.id, type: event });
      return;
    }
    const at = clock.now();
    const noted: SandboxEvent = {
      id: ids.uuid(),
      teamId: sandbox.teamId,
      sandboxId: sandbox.id,
      executionId: sandbox.executionId,
      templateId: sandbox.templateId,
      buildId: sandbox.buildId,
      type: EVENT_TYPE_PREFIX + event,
      at,
      position: this.#nextPosition(at),
      detail: detailOf(event, sandbox, words, at),
    };
    this.#waiting.push({ event: noted, change });
    this.#arm(EVENT_FLUSH_MS);
  }

  /** Records a count change without an event, in order with the changes that have one. */
  noteChange(change: ActivityChange): void {
    if (this.#waiting.length >= EVENTS_WAITING_MAX) return;
    this.#waiting.push({ event: undefined, change });
    this.#arm(EVENT_FLUSH_MS);
  }

  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    return this.#writing.run(() => this.#write());
  }

  async close(): Promise<void> {
    await this.flush().catch(() => undefined);
    this.#timer?.cancel();
  }

  /** Keeps the order of up to a thousand events per millisecond, and of all events after the clock was set back. */
  #nextPosition(at: number): number {
    this.#lastPosition = Math.max(this.#lastPosition + 1, at * 1000);
    return this.#lastPosition;
  }

  #arm(delayMs: number): void {
    this.#timer ??= this.services.idleClock.after(delayMs, () => {
      this.#timer = undefined;
      this.services.background.run("events not recorded", () => this.flush());
    });
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const entries = this.#waiting.slice(0, EVENTS_PER_WRITE);
      try {
        await this.services.store.transaction(async (tables) => {
          const added = await this.#record(tables, entries);
          const changes = added.flatMap(({ change }) => change ?? []);
          await this.services.recordActivity(tables, changes);
        }, "server");
      } catch (error) {
        this.#arm(ACTIVITY_STORE_RETRY_MS);
        throw error;
      }
      this.#waiting.splice(0, entries.length);
      this.services.onRecorded();
    }
  }

  /**
   * Returns the entries that were not stored yet. A transaction may have been committed although its reply was lost,
   * and its entries are then tried again.
   */
  async #record(tables: Tables, entries: readonly Entry[]): Promise<Entry[]> {
    const added: Entry[] = [];
    const webhooks = new Map<string, Webhook[]>();
    const lines = new Map<string, number>();
    for (const entry of entries) {
      const { event } = entry;
      if (event !== undefined && !(await tables.sandboxEvents.add(event))) {
        // An event already stored means that all entries before it are stored too, including those without an event.
        added.length = 0;
        continue;
      }
      added.push(entry);
      if (event === undefined) continue;
      const ofTeam = webhooks.get(event.teamId) ?? (await tables.webhooks.of(event.teamId));
      webhooks.set(event.teamId, ofTeam);
      for (const { id, enabled, events: wanted } of ofTeam) {
        if (!enabled || !wanted.includes(event.type)) continue;
        const waiting = lines.get(id) ?? (await tables.webhooks.waitingFor(id));
        lines.set(id, waiting + 1);
        await tables.webhooks.addDelivery(this.#deliveryOf(event, id, waiting < DELIVERIES_WAITING_MAX));
      }
    }
    return added;
  }

  #deliveryOf(event: SandboxEvent, webhookId: string, hasRoom: boolean): Delivery {
    const error = `not sent: ${DELIVERIES_WAITING_MAX} earlier messages to this webhook still wait`;
    const refusal = { at: event.at, durationMs: 0, statusCode: null, success: false, error };
    return {
      id: this.services.ids.uuid(),
      webhookId,
      eventId: event.id,
      eventType: event.type,
      sandboxId: event.sandboxId,
      eventAt: event.at,
      status: hasRoom ? "pending" : "failed",
      nextAt: event.at,
      attempts: hasRoom ? [] : [refusal],
    };
  }
}

function detailOf(
  event: LifecycleEvent,
  sandbox: Sandbox,
  words: string | undefined,
  at: number,
): Record<string, unknown> {
  const execution = {
    started_at: new Date(sandbox.startedAt).toISOString(),
    vcpu_count: sandbox.cpuCount,
    memory_mb: sandbox.memoryMB,
    // The run ends when a pause begins, however long the checkpoint takes.
    execution_time: Math.max(0, (sandbox.pausedAt ?? at) - sandbox.startedAt),
  };
  return {
    ...(isShort(sandbox.metadata)
      ? { sandbox_metadata: sandbox.metadata }
      : { sandbox_metadata: {}, metadata_left_out: true }),
    ...(event === "killed" || event === "paused" ? { execution } : {}),
    ...(words === undefined ? {} : { note: words }),
  };
}

function isShort(metadata: Record<string, string>): boolean {
  let chars = 0;
  for (const [name, value] of Object.entries(metadata)) chars += name.length + value.length;
  return chars <= EVENT_METADATA_MAX_CHARS;
}
