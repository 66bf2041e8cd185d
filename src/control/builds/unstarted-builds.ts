/**
 * Ends requested builds that will never start, because each holds one of the team's few places for waiting builds:
 * their start was rejected, or their client has gone away and neither starts the build nor uploads files.
 */
import type { Fault } from "../../contract/fault.ts";
import { BUILD_WITHOUT_UPLOAD_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import type { Uploads } from "./uploads.ts";

/** A build that is not started within this time is over, and frees its place. */
export const BUILD_START_WITHIN_MS = 2 * 3_600_000;

/** The request cannot be built; the same request would be rejected again. */
const REFUSALS: ReadonlySet<number> = new Set([400, 413, 415]);

export class UnstartedBuilds {
  /** Uploads before this time are unknown. */
  readonly #startedAt: number;

  constructor(private readonly services: Pick<Parts, "store" | "clock"> & { uploads: Uploads }) {
    this.#startedAt = services.clock.now();
  }

  /**
   * The start of a waiting build was rejected with this fault. Other statuses, such as 503, leave the build waiting.
   */
  async refused(id: string, { status, message }: Fault): Promise<void> {
    const { store, clock } = this.services;
    if (!REFUSALS.has(status)) return;
    const reason = { message: `the start of this build was refused: ${message}`, step: null };
    await store.builds.failUnstarted(id, reason, clock.now());
  }

  /** Ends builds whose clients have gone away. */
  async endAbandoned(): Promise<void> {
    const { store, clock, uploads } = this.services;
    const now = clock.now();
    for (const { id, templateId, createdAt } of await store.builds.waitingOfTeams(now - BUILD_WITHOUT_UPLOAD_MS)) {
      const activeAt = Math.max(createdAt, this.#startedAt, uploads.lastActiveAt(templateId));
      const message =
        createdAt + BUILD_START_WITHIN_MS <= now
          ? `it was not started within ${BUILD_START_WITHIN_MS / 3_600_000} hours`
          : `no file was uploaded for it and it was not started within ${BUILD_WITHOUT_UPLOAD_MS / 60_000} minutes`;
      if (createdAt + BUILD_START_WITHIN_MS > now && activeAt + BUILD_WITHOUT_UPLOAD_MS > now) continue;
      await store.builds.failUnstarted(id, { message: `${message}; request a new build`, step: null }, now);
    }
  }
}
