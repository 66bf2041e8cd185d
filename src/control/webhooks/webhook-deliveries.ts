/**
 * Delivers recorded events to webhooks: at least once, also after a restart, a few at a time. The store holds the
 * pending deliveries; only those in progress are remembered here. A slow or dead receiver uses up its own places and no
 * others. This folder never decides which events exist: it sends what activity has recorded.
 */
import type { Background } from "../../base/background.ts";
import type { Timer } from "../../base/clock.ts";
import { errorMessage } from "../../base/error-message.ts";
import type { Attempt, Delivery, Webhook } from "../../store/webhooks.ts";
import { EXPIRY_SLEEP_MAX_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { eventMessage, type PostMessage } from "./webhook-post.ts";

/** Concurrent deliveries: in total, per team, per webhook. */
const DELIVERIES_AT_ONCE = 64;
export const DELIVERIES_PER_TEAM_AT_ONCE = 8;
export const DELIVERIES_PER_WEBHOOK_AT_ONCE = 2;
const DELIVERY_ATTEMPTS_MAX = 4;
export const DELIVERY_RETRY_MS = 10_000;
/** Delay before deliveries retry after a failure of the store. */
const DELIVERY_STORE_RETRY_MS = 1_000;

interface DeliveryServices extends Parts {
  /** For sending, which a close does not wait for: a receiver may take long. */
  posting: Background;
  post: PostMessage;
}

export class WebhookDeliveries {
  /** Webhooks of deliveries in progress, by delivery id. */
  readonly #underWay = new Map<string, Webhook>();
  /** Deliveries that ended during the current read of the store, which may have seen them as pending. */
  readonly #justEnded = new Set<string>();
  #timer: Timer | undefined;
  #isDispatching = false;
  #hasNews = false;
  #closed = false;

  constructor(private readonly services: DeliveryServices) {}

  /** Looks for pending deliveries. Never waits. */
  wake(): void {
    if (this.#closed) return;
    this.#hasNews = true;
    if (this.#isDispatching) return;
    this.#isDispatching = true;
    this.services.background.run("deliveries not made", () => this.#dispatchAll());
  }

  /** Deliveries in progress are not recorded any more, and repeated after the next start. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #dispatchAll(): Promise<void> {
    try {
      while (this.#hasNews && !this.#closed) {
        this.#hasNews = false;
        this.#justEnded.clear();
        await this.#dispatch();
      }
    } catch (error) {
      this.#wakeAfter(DELIVERY_STORE_RETRY_MS);
      throw error;
    } finally {
      this.#isDispatching = false;
    }
  }

  async #dispatch(): Promise<void> {
    const { store, clock } = this.services;
    let next = Number.POSITIVE_INFINITY;
    for (const { webhookId, nextAt } of await store.webhooks.waiting()) {
      const now = clock.now();
      if (nextAt > now) next = Math.min(next, nextAt);
      if (nextAt > now || this.#room("id", webhookId, DELIVERIES_PER_WEBHOOK_AT_ONCE) === 0) continue;
      const webhook = await store.webhooks.byId(webhookId);
      if (webhook !== undefined) await this.#dispatchTo(webhook);
    }
    if (next < Number.POSITIVE_INFINITY) this.#wakeAfter(next - clock.now());
  }

  /** Starts as many as there is room for. The end of each looks for more. */
  async #dispatchTo(webhook: Webhook): Promise<void> {
    const { store, clock, posting } = this.services;
    // Those in progress are among them.
    const limit = DELIVERIES_PER_WEBHOOK_AT_ONCE * 2;
    const due = await store.webhooks.due(webhook.id, clock.now(), limit);
    for (const delivery of due) {
      if (this.#underWay.has(delivery.id) || this.#justEnded.has(delivery.id)) continue;
      const room = Math.min(
        DELIVERIES_AT_ONCE - this.#underWay.size,
        this.#room("teamId", webhook.teamId, DELIVERIES_PER_TEAM_AT_ONCE),
        this.#room("id", webhook.id, DELIVERIES_PER_WEBHOOK_AT_ONCE),
      );
      if (room <= 0) break;
      this.#underWay.set(delivery.id, webhook);
      posting.run("delivery not recorded", () => this.#deliver(delivery, webhook));
    }
  }

  #room(key: "id" | "teamId", value: string, max: number): number {
    const taken = [...this.#underWay.values()].filter((webhook) => webhook[key] === value).length;
    return Math.max(0, max - taken);
  }

  async #deliver(delivery: Delivery, webhook: Webhook): Promise<void> {
    try {
      const attempt = await this.#attempt(delivery, webhook);
      if (this.#closed) return;
      const attempts = [...delivery.attempts, attempt];
      const isOver = attempt.success || attempts.length >= DELIVERY_ATTEMPTS_MAX || !webhook.enabled;
      const status = attempt.success ? "success" : isOver ? "failed" : "pending";
      const nextAt = this.services.clock.now() + DELIVERY_RETRY_MS;
      await this.services.store.webhooks.noteAttempt({ ...delivery, status, nextAt, attempts });
    } finally {
      this.#underWay.delete(delivery.id);
      if (this.#isDispatching) this.#justEnded.add(delivery.id);
      this.wake();
    }
  }

  async #attempt(delivery: Delivery, webhook: Webhook): Promise<Attempt> {
    const { store, clock, post } = this.services;
    const at = clock.now();
    const outcome = (statusCode: number | null, error: string | null): Attempt => ({
      at,
      durationMs: clock.now() - at,
      statusCode,
      error,
      success: error === null,
    });
    if (!webhook.enabled) return outcome(null, "not sent: the webhook is disabled");
    const event = await store.sandboxEvents.byId(delivery.eventId);
    if (event === undefined) return outcome(null, "not sent: the event is no longer kept");
    try {
      const statusCode = await post(eventMessage(event, webhook, delivery.id));
      return outcome(statusCode, statusCode >= 200 && statusCode < 300 ? null : `answered ${statusCode}`);
    } catch (error) {
      return outcome(null, errorMessage(error));
    }
  }

  #wakeAfter(delayMs: number): void {
    if (this.#closed) return;
    this.#timer?.cancel();
    const bounded = Math.min(Math.max(0, delayMs), EXPIRY_SLEEP_MAX_MS);
    this.#timer = this.services.idleClock.after(bounded, () => this.wake());
  }
}
