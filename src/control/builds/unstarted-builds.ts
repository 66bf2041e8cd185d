/**
 * Ends builds that were requested and will not be started: each holds one of the few places that a team has for builds
 * that wait. The start of one was refused, or its client has gone away: it neither starts the build nor uploads files.
 */

import type { Clock } from "../../base/clock.ts";
import type { Fault } from "../../contract/fault.ts";
import type { Store } from "../../store/store.ts";
import { BUILD_WITHOUT_UPLOAD_MS } from "../limits.ts";
import type { Uploads } from "./uploads.ts";

/** A build that nobody has started for so long is over: it held a place among those that wait. */
export const BUILD_START_WITHIN_MS = 2 * 3_600_000;

interface UnstartedServices {
  store: Store;
  clock: Clock;
  uploads: Pick<Uploads, "lastActiveAt">;
}

/** The client sent something that cannot be built; the same call again would be refused again. */
const REFUSALS: ReadonlySet<number> = new Set([400, 413, 415]);

export class UnstartedBuilds {
  readonly #services: UnstartedServices;
  /** Which uploads there were before is not known. */
  readonly #startedAt: number;

  constructor(services: UnstartedServices) {
    this.#services = services;
    this.#startedAt = services.clock.now();
  }

  /** Its start was answered with this. Other answers, such as 503, leave it waiting. */
  async refused(id: string, { status, message }: Fault): Promise<void> {
    const { store, clock } = this.#services;
    if (!REFUSALS.has(status)) return;
    const reason = { message: `the start of this build was refused: ${message}`, step: null };
    await store.builds.failUnstarted(id, reason, clock.now());
  }

  async endAbandoned(): Promise<void> {
    const { store, clock, uploads } = this.#services;
    const now = clock.now();
    for (const { id, templateId, createdAt } of await store.builds.waitingOfTeams(now - BUILD_WITHOUT_UPLOAD_MS)) {
      const activeAt = Math.max(createdAt, this.#startedAt, uploads.lastActiveAt(templateId));
      const message =
        createdAt + BUILD_START_WITHIN_MS <= now
          ? `nobody started it within ${BUILD_START_WITHIN_MS / 3_600_000} hours`
          : `nobody uploaded a file for it or started it within ${BUILD_WITHOUT_UPLOAD_MS / 60_000} minutes`;
      if (createdAt + BUILD_START_WITHIN_MS > now && activeAt + BUILD_WITHOUT_UPLOAD_MS > now) continue;
      await store.builds.failUnstarted(id, { message: `${message}; request a new build`, step: null }, now);
    }
  }
}
