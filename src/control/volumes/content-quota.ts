/**
 * Limits the volumes that one team reads and writes at the same time. The host serves only a fixed number at once for
 * all teams, so a team whose clients never finish must not use them all.
 */
import { onStreamEnd } from "../../base/stream-end.ts";
import { Fault } from "../../contract/fault.ts";
import type { Volume } from "../../store/volumes.ts";

/** Volumes that the clients of one team may read and write at the same time, and Retry-After beyond that. */
export const VOLUME_CONTENTS_PER_TEAM_MAX = 16;
export const VOLUME_CONTENT_RETRY_AFTER_SECONDS = 1;

export class ContentQuota {
  /** Calls in progress, by volume, by team. */
  readonly #calls = new Map<string, Map<string, number>>();

  /** Held during a call. Fault 429 when the team uses too many other volumes. */
  take({ id, teamId }: Pick<Volume, "id" | "teamId">): Disposable {
    const ofTeam = this.#calls.get(teamId) ?? new Map<string, number>();
    if (!ofTeam.has(id) && ofTeam.size >= VOLUME_CONTENTS_PER_TEAM_MAX) throw tooMany();
    this.#calls.set(teamId, ofTeam);
    ofTeam.set(id, (ofTeam.get(id) ?? 0) + 1);
    let left = false;
    return {
      [Symbol.dispose]: () => {
        if (left) return;
        left = true;
        const calls = (ofTeam.get(id) ?? 1) - 1;
        if (calls > 0) ofTeam.set(id, calls);
        else ofTeam.delete(id);
        if (ofTeam.size === 0 && this.#calls.get(teamId) === ofTeam) this.#calls.delete(teamId);
      },
    };
  }
}

/** Passes the bytes on and releases the place when the stream ends in any way. */
export function withPlace(content: ReadableStream<Uint8Array>, place: Disposable): ReadableStream<Uint8Array> {
  return onStreamEnd(content, () => place[Symbol.dispose]());
}

function tooMany(): Fault {
  return new Fault(429, `a team works on the content of at most ${VOLUME_CONTENTS_PER_TEAM_MAX} volumes at once`, {
    retryAfterSeconds: VOLUME_CONTENT_RETRY_AFTER_SECONDS,
  });
}
