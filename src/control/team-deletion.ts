/**
 * Deletes teams with everything that they own. The request is recorded in the team's row; from then on authentication
 * rejects the team. The steps below follow in the background and can be repeated, so after a crash the next start does
 * them all again. The row of the team goes last: while it exists, something may be left.
 *
 * Sandboxes of other teams that run from a public template of the team keep running, and resume. Their builds stay
 * until the last of them is gone (housekeeping).
 */
import { described } from "../base/log.ts";
import { RetryQueue } from "../base/retry-queue.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { Team } from "../store/people.ts";
import { beginTeamDeletion } from "./access/people.ts";
import type { Activity } from "./activity/activity.ts";
import { type Origin, record } from "./audit/audit.ts";
import type { Builds } from "./builds/builds.ts";
import type { Uploads } from "./builds/uploads.ts";
import type { Lifecycle } from "./lifecycle/lifecycle.ts";
import type { Parts } from "./parts.ts";
import { type DeletionServices, deleteTemplateOf } from "./templates/template-deletion.ts";
import type { Volumes } from "./volumes/volumes.ts";

const TEAMS_DELETED_AT_ONCE = 2;
/** What is not gone yet is looked at again after the first delay, doubling up to the second. */
export const TEAM_DELETION_RETRY_MIN_MS = scaled(100);
const TEAM_DELETION_RETRY_MAX_MS = scaled(30_000);
const ROWS_PER_STEP = 500;

const REASON = "the team was deleted";
/** The entry of the audit log for a team that is gone. */
const GONE: Origin = {
  actor: { kind: "server", id: null },
  address: null,
  requestId: null,
  action: "delete team",
  status: 200,
};

interface TeamDeletionServices extends Parts, Omit<DeletionServices, keyof Parts | "builds" | "lifecycle"> {
  lifecycle: Lifecycle;
  builds: Builds;
  volumes: Volumes;
  uploads: Uploads;
  activity: Activity;
}

export class TeamDeletion {
  /** Ids of the teams in the queue. */
  readonly #underWay = new Set<string>();
  readonly #queue: RetryQueue<string>;

  constructor(private readonly services: TeamDeletionServices) {
    const { clock, background, log } = services;
    this.#queue = new RetryQueue<string>({
      clock,
      background,
      work: (id) => this.#delete(id),
      failed: (team, error) =>
        log.write({ level: "warn", event: "a team is not deleted yet", team, error: described(error) }),
      atOnce: TEAMS_DELETED_AT_ONCE,
      retryMinMs: TEAM_DELETION_RETRY_MIN_MS,
      retryMaxMs: TEAM_DELETION_RETRY_MAX_MS,
    });
  }

  /** Goes on with what the previous run had begun. */
  async start(): Promise<void> {
    for (const id of await this.services.store.people.deletingTeams()) this.#enqueue(id);
  }

  /** Returns once the request is recorded. */
  async begin(team: Team, origin: Origin | undefined): Promise<void> {
    await beginTeamDeletion({ ...this.services, origin }, team);
    this.#enqueue(team.id);
  }

  close(): void {
    this.#queue.close();
  }

  #enqueue(id: string): void {
    if (this.#underWay.has(id)) return;
    this.#underWay.add(id);
    this.#queue.enqueue([id]);
  }

  async #delete(id: string): Promise<void> {
    const { store, host, builds, lifecycle, volumes, uploads, activity, log } = this.services;
    const team = await store.people.team(id);
    if (team !== undefined) {
      await builds.cancelAll(id, REASON);
      await lifecycle.killAll(team);
      const sandboxes = (await store.sandboxes.idsOfTeam(id)).length;
      if (sandboxes > 0) throw notYet(`${sandboxes} of its sandboxes`);
      for (const template of await store.templates.idsOfTeam(id)) await deleteTemplateOf(this.services, template);
      // A build that began after the first step has ended with its template, and may have written a layer.
      await builds.allOver(id);
      await host.removeLayers(id);
      const left = await volumes.deleteAll(id);
      if (left > 0) throw notYet(`${left} of its volumes`);
      await uploads.removeAllOf(id);
      await activity.forgetTeam(id);
      while ((await store.teamLeftovers.removeSome(id, ROWS_PER_STEP)) > 0);
      await this.#removeRow(team);
      log.write({ level: "info", event: "team deleted", team: team.slug });
    }
    this.#underWay.delete(id);
  }

  async #removeRow({ id, slug }: Team): Promise<void> {
    const { store, clock, ids } = this.services;
    await store.transaction(async (tables) => {
      // A request that began before the deletion may have added something in the meantime.
      const left = (await tables.volumes.allOf(id)).length + (await tables.templates.idsOfTeam(id)).length;
      if (left > 0) throw notYet(`${left} of its volumes and templates`);
      await tables.teamLeftovers.orphan(id);
      await tables.people.removeTeam(id);
      await record(tables, { clock, ids, origin: { ...GONE } }, { teamId: id, object: `team ${slug}` });
    });
  }
}

function notYet(what: string): Fault {
  return new Fault(503, `${what} are not gone yet`);
}
