/**
 * Number of running sandboxes per team, from lifecycle events. Each step in which it changes gets a row, in the
 * transaction of the events that caused it. So the record is as accurate after a crash as the events are, and an idle
 * team costs nothing.
 */
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import type { TeamMetricName } from "../../contract/management/team-metric.ts";
import type { Measurable } from "../../store/metric-blocks.ts";
import type { Tables } from "../../store/store.ts";
import type { LifecycleEvent } from "../lifecycle/lifecycle-listener.ts";
import { METRIC_EVERY_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { highestIn, type Peak, pointsIn, stepIn, type TeamPoint, type Window } from "./team-points.ts";

/** The number of a team's running sandboxes changed, or one of them started. */
export interface ActivityChange {
  teamId: string;
  at: number;
  before: number;
  after: number;
  isStart: boolean;
}

/** Whether the sandbox runs after the event; undefined: unchanged. */
const RUNS_AFTER: Record<LifecycleEvent, boolean | undefined> = {
  created: true,
  resumed: true,
  paused: false,
  killed: false,
  updated: undefined,
  checkpointed: undefined,
};

type Named = Pick<Measurable, "id" | "teamId">;

export class TeamActivities {
  /** Running sandboxes by team. At most as many as there are rows. */
  readonly #running = new Map<string, Map<string, Named>>();
  /** Events that came before the rows were read. */
  #early: { sandbox: Named; runs: boolean }[] | undefined = [];
  /** Sandboxes whose rows and events disagreed at the last check. */
  #doubtful = new Set<string>();

  constructor(private readonly services: Parts) {}

  /** Starts from the rows. */
  async start(): Promise<void> {
    const { store, clock } = this.services;
    const running = await store.transaction(async (tables) => {
      await tables.teamActivity.addCounted(stepBegin(clock.now()), METRIC_EVERY_MS);
      return tables.metricBlocks.measurable();
    });
    for (const sandbox of running) this.#set(sandbox, true);
    for (const { sandbox, runs } of this.#early ?? []) this.#set(sandbox, runs);
    this.#early = undefined;
  }

  /** Never waits. Undefined when the event changes nothing, or before the start. */
  countEvent(event: LifecycleEvent, { id, teamId }: Named): ActivityChange | undefined {
    const runs = RUNS_AFTER[event];
    if (runs === undefined) return undefined;
    const sandbox = { id, teamId };
    if (this.#early !== undefined) {
      this.#early.push({ sandbox, runs });
      return undefined;
    }
    return this.#change(sandbox, runs, runs);
  }

  /** Records the changes in order. */
  async record(tables: Tables, changes: readonly ActivityChange[]): Promise<void> {
    const steps = Map.groupBy(changes, ({ teamId, at }) => `${teamId} ${stepBegin(at)}`);
    for (const [first, ...rest] of steps.values()) {
      // Rows of a deleted team would fail, and with them all events that wait.
      if (first === undefined || (await tables.people.team(first.teamId)) === undefined) continue;
      const all = [first, ...rest];
      await tables.teamActivity.add({
        teamId: first.teamId,
        at: stepBegin(first.at),
        stepMs: METRIC_EVERY_MS,
        opening: first.before,
        closing: all.at(-1)?.after ?? first.after,
        peak: Math.max(...all.flatMap(({ before, after }) => [before, after])),
        starts: all.filter(({ isStart }) => isStart).length,
      });
    }
  }

  /**
   * Compares the counts with the rows. A difference found twice in a row is not a transition in progress but a missing
   * or misordered event; the rows then win. Never waits. The caller records the changes.
   */
  check(rows: readonly Named[]): ActivityChange[] {
    if (this.#early !== undefined) return [];
    const stored = new Map(rows.map((row) => [row.id, row]));
    const known = new Map([...this.#running.values()].flatMap((ofTeam) => [...ofTeam]));
    const differing = [
      ...[...stored.values()].filter(({ id }) => !known.has(id)),
      ...[...known.values()].filter(({ id }) => !stored.has(id)),
    ];
    const wrong = differing.filter(({ id }) => this.#doubtful.has(id));
    this.#doubtful = new Set(differing.map(({ id }) => id));
    return wrong.map((sandbox) => this.#change(sandbox, stored.has(sandbox.id), false));
  }

  /** Ascending. Longer and older spans have longer steps. */
  async read(teamId: string, from: number | undefined, to: number | undefined): Promise<TeamPoint[]> {
    const window = this.#window(from, to);
    // The window begins at the start of a step.
    const first = window.from - (window.from % stepIn(window));
    return pointsIn(await this.services.store.teamActivity.around(teamId, first, window.to), window);
  }

  /** The highest value, and its time. */
  async highest(
    teamId: string,
    metric: TeamMetricName,
    from: number | undefined,
    to: number | undefined,
  ): Promise<Peak> {
    const window = this.#window(from, to);
    return highestIn(await this.services.store.teamActivity.around(teamId, window.from, window.to), metric, window);
  }

  #window(from: number | undefined, to: number | undefined): Window {
    const now = this.services.clock.now();
    const oldest = now - ACTIVITY_KEPT_MS;
    return { from: Math.max(from ?? oldest, oldest), to: Math.min(to ?? now, now), now };
  }

  #change(sandbox: Named, runs: boolean, isStart: boolean): ActivityChange {
    const { teamId } = sandbox;
    const before = this.#countOf(teamId);
    this.#set(sandbox, runs);
    return { teamId, at: this.services.clock.now(), before, after: this.#countOf(teamId), isStart };
  }

  #countOf(teamId: string): number {
    return this.#running.get(teamId)?.size ?? 0;
  }

  #set({ id, teamId }: Named, runs: boolean): void {
    const ofTeam = this.#running.get(teamId) ?? new Map<string, Named>();
    if (runs) ofTeam.set(id, { id, teamId });
    else ofTeam.delete(id);
    if (ofTeam.size > 0) this.#running.set(teamId, ofTeam);
    else this.#running.delete(teamId);
  }
}

function stepBegin(at: number): number {
  return Math.floor(at / METRIC_EVERY_MS) * METRIC_EVERY_MS;
}
