/** Deletes templates, including snapshots. */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Housekeeping } from "./housekeeping.ts";
import type { ReadyPoolTargets } from "./ready-pool-targets.ts";
import { findOwn } from "./team-template.ts";

export interface DeletionServices {
  store: Store;
  clock: Clock;
  builds: {
    /** Stops a build whose row says that it is over. */
    cancel(id: string, reason: string): void;
  };
  readyPoolTargets: ReadyPoolTargets;
  housekeeping: Housekeeping;
  lifecycle: {
    /** Removes those of these checkpoints that no build starts from, in the background. */
    discard(checkpoints: readonly string[]): void;
  };
}

const REASON = "the template was deleted";

/** Deletes a template of the team, by name or id. */
export type DeleteTemplate = (team: Team, written: string) => Promise<void>;

/**
 * Frees the template's names, ends its builds and removes its checkpoints. Refused while the team has sandboxes of it.
 * Sandboxes of other teams keep running and can resume from their build: no team can block the deletion of another
 * team's template.
 */
export async function deleteTemplate(services: DeletionServices, team: Team, written: string): Promise<void> {
  const { store, clock } = services;
  const now = clock.now();
  const ended = await store.transaction(async (tables) => {
    // A tag is accepted and ignored, as clients expect.
    const { template } = await findOwn(tables, team, written);
    // Deleted first, so that a concurrent create is either counted below or finds the template gone.
    const ended = await endTemplate(tables, template.id, now);
    const sandboxes = await tables.sandboxes.countOf(template.id, team.id);
    if (sandboxes > 0) {
      const these = sandboxes === 1 ? "a sandbox of it is" : `${sandboxes} sandboxes of it are`;
      throw new Fault(400, `template "${written}" cannot be deleted while ${these} running or paused; kill them first`);
    }
    return ended;
  });
  removeEnded(services, ended);
}

/** As `deleteTemplate`, whatever runs from it: for a team whose own sandboxes are gone. */
export async function deleteTemplateOf(services: DeletionServices, templateId: string): Promise<void> {
  const { store, clock } = services;
  removeEnded(services, await store.transaction((tables) => endTemplate(tables, templateId, clock.now())));
}

interface Ended {
  checkpoints: readonly string[];
  /** Ids of builds. */
  cancelled: readonly string[];
}

async function endTemplate(tables: Tables, templateId: string, now: number): Promise<Ended> {
  await tables.templates.delete(templateId, now);
  const unfinished = [
    ...(await tables.builds.unfinished("waiting", templateId)),
    ...(await tables.builds.unfinished("building", templateId)),
  ];
  for (const { id } of unfinished) await tables.builds.fail(id, { message: REASON, step: null }, now);
  return {
    checkpoints: await tables.buildsInUse.checkpointsOf(templateId),
    cancelled: unfinished.map(({ id }) => id),
  };
}

/** Removes what is left, in the background. */
function removeEnded({ builds, readyPoolTargets, housekeeping, lifecycle }: DeletionServices, ended: Ended): void {
  for (const id of ended.cancelled) builds.cancel(id, REASON);
  lifecycle.discard(ended.checkpoints);
  readyPoolTargets.changed();
  housekeeping.soon();
}
