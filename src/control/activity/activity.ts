/**
 * Records of sandboxes beyond their rows: logs, metrics, events and webhook deliveries. It listens to the lifecycle
 * and, through the host, to the guests. Its callers never wait for it. This folder changes no sandbox.
 */
import { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import type { HostEvent } from "../../contract/internal/host.ts";
import type { Measurable } from "../../store/metric-blocks.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { LifecycleEvent, LifecycleListener } from "../lifecycle/lifecycle-listener.ts";
import type { Parts } from "../parts.ts";
import { WebhookDeliveries } from "../webhooks/webhook-deliveries.ts";
import { type PostMessage, webhookPost } from "../webhooks/webhook-post.ts";
import { sweepActivity } from "./activity-sweep.ts";
import { MetricSamples } from "./metric-samples.ts";
import { SandboxEventRecord } from "./sandbox-event-record.ts";
import { SandboxLogs } from "./sandbox-logs.ts";
import { TeamActivities } from "./team-activity.ts";

/** Old and surplus records are removed at this interval. */
export const ACTIVITY_SWEEP_MS = 60_000;

export interface ActivityOptions {
  /** For timers of background work. The ordinary clock by default; a test may move it separately. */
  idleClock?: Clock;
  /** Webhooks may target private addresses. */
  allowWebhooksInside?: boolean;
  post?: PostMessage;
  /** Gets the same events and warnings, after they are recorded. */
  listener?: LifecycleListener;
}

const EVENT_MESSAGES: Record<LifecycleEvent, string> = {
  created: "Sandbox created",
  killed: "Sandbox killed",
  paused: "Sandbox paused",
  resumed: "Sandbox resumed",
  updated: "Sandbox updated",
  checkpointed: "Sandbox checkpointed",
};

export class Activity implements LifecycleListener {
  readonly logs: SandboxLogs;
  readonly metrics: MetricSamples;
  readonly events: SandboxEventRecord;
  readonly teams: TeamActivities;
  readonly allowsInside: boolean;
  readonly #deliveries: WebhookDeliveries;
  readonly #background: Background;
  readonly #posting: Background;
  readonly #listener: LifecycleListener | undefined;
  #sweep: Timer | undefined;

  constructor(
    private readonly parts: Parts,
    options: ActivityOptions = {},
  ) {
    const { allowWebhooksInside: allowInside = false } = options;
    this.#background = new Background(parts.log);
    this.#posting = new Background(parts.log);
    const shared = { ...parts, background: this.#background };
    this.allowsInside = allowInside;
    this.logs = new SandboxLogs(shared);
    this.teams = new TeamActivities(shared);
    this.metrics = new MetricSamples({ ...shared, onPass: (running) => this.#checkTeams(running) });
    const post = options.post ?? webhookPost({ allowInside });
    this.#deliveries = new WebhookDeliveries({ ...shared, posting: this.#posting, post });
    this.events = new SandboxEventRecord({
      ...shared,
      onRecorded: () => this.#deliveries.wake(),
      recordActivity: (tables, changes) => this.teams.record(tables, changes),
    });
    this.#listener = options.listener;
  }

  /** Events of the host. Never waits. */
  onHostEvent(event: HostEvent): void {
    if (event.kind === "log-waits") {
      this.#background.run("a sandbox's log could not be followed", () => this.#replyPosition(event.id));
    } else if (event.kind === "log") {
      const { id, lines, position } = event;
      const { host } = this.parts;
      const taken = this.logs.take(id, lines, position ?? undefined);
      // If the host misses this reply, it asks again.
      void (taken ? host.requestLog(id, position) : host.deferLog(id)).catch(() => undefined);
    } else if (event.kind === "trouble") {
      this.#background.run("trouble of a sandbox could not be logged", async () => {
        const sandbox = await this.parts.store.sandboxes.byId(event.id);
        if (sandbox !== undefined) this.warn(sandbox, event.message);
      });
    }
  }

  onEvent(event: LifecycleEvent, sandbox: Sandbox, note?: string): void {
    const words = note === undefined ? EVENT_MESSAGES[event] : `${EVENT_MESSAGES[event]}: ${note}`;
    const fields = { logger: "sandbox", event_type: `sandbox.lifecycle.${event}`, execution_id: sandbox.executionId };
    this.logs.append(sandbox, "info", words, fields);
    this.events.note(event, sandbox, note, this.teams.countEvent(event, sandbox));
    if (event === "created" || event === "resumed") this.metrics.add(sandbox);
    if (event === "killed" || event === "paused") this.metrics.remove(sandbox.id);
    if (event === "killed") this.logs.noteEnd(sandbox.id);
    this.#listener?.onEvent(event, sandbox, note);
  }

  warn(sandbox: Sandbox, message: string): void {
    this.logs.append(sandbox, "warn", message, { logger: "sandbox", execution_id: sandbox.executionId });
    this.#listener?.warn(sandbox, message);
  }

  /** Resolves when all events so far are recorded, or when the store fails; the rest is recorded later. */
  async recorded(): Promise<void> {
    await this.events.flush().catch(() => undefined);
  }

  /** Writes what waits, and forgets a team without sandboxes: no row of it follows. Throws when the store fails. */
  async forgetTeam(teamId: string): Promise<void> {
    await this.events.flush();
    await this.metrics.flush();
    await this.logs.flush();
    this.logs.forgetTeam(teamId);
  }

  /** Samples metrics, sweeps, and resumes deliveries that a stop interrupted. */
  async start(): Promise<void> {
    await this.recorded();
    await this.teams.start();
    this.metrics.start();
    this.#deliveries.wake();
    this.#sweepLater();
  }

  /** Resolves once no background work is in progress. */
  async settled(): Promise<void> {
    await this.#background.settled();
    await this.#posting.settled();
    await this.#background.settled();
  }

  /** Writes pending records. Interrupted deliveries are repeated after the next start. */
  async close(): Promise<void> {
    this.#sweep?.cancel();
    this.#deliveries.close();
    const waiting = [this.events.close(), this.logs.close(), this.metrics.close()];
    await Promise.allSettled(waiting);
    await this.#background.settled();
  }

  #checkTeams(running: readonly Measurable[]): void {
    for (const change of this.teams.check(running)) this.events.noteChange(change);
  }

  async #replyPosition(id: string): Promise<void> {
    const { host } = this.parts;
    const position = await this.logs.positionOf(id).then(
      (known) => known ?? null,
      () => undefined,
    );
    // Not recorded yet, or the store is unavailable.
    if (position === undefined) await host.deferLog(id);
    else await host.requestLog(id, position);
  }

  #sweepLater(): void {
    const { store, clock, idleClock } = this.parts;
    this.#sweep = idleClock.after(ACTIVITY_SWEEP_MS, () => {
      this.#background.run("old logs, metrics and events not removed", async () => {
        try {
          this.logs.tidy();
          await sweepActivity(store, clock.now());
        } finally {
          this.#sweepLater();
        }
      });
    });
  }
}
