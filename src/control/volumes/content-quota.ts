/**
 * How many volumes a team has its hands in at the same moment. The machine works on the content of only so many at
 * once, for all teams: one whose clients never finish keeps nobody else out.
 */
import { Fault } from "../../contract/fault.ts";
import type { Volume } from "../../store/volumes.ts";

/** Volumes that the clients of one team read and write at the same time; when to come again beyond that. */
export const VOLUME_CONTENTS_PER_TEAM_MAX = 16;
export const VOLUME_CONTENT_RETRY_AFTER_SECONDS = 1;

export class ContentQuota {
  /** Calls under way, by volume, by team. */
  readonly #calls = new Map<string, Map<string, number>>();

  /** Held for as long as a call is under way. Fault 429 when the team is at work on too many other volumes. */
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

/** The same bytes; the place is given back when they have ended, whichever way. */
export function withPlace(content: ReadableStream<Uint8Array>, place: Disposable): ReadableStream<Uint8Array> {
  const reader = content.getReader();
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      const piece = await reader.read().catch(() => undefined);
      if (piece !== undefined && !piece.done) return controller.enqueue(piece.value);
      place[Symbol.dispose]();
      // Without a reason: Bun.serve prints one, and any sandbox can cause it at will.
      if (piece === undefined) controller.error();
      else controller.close();
    },
    async cancel(reason) {
      place[Symbol.dispose]();
      await reader.cancel(reason);
    },
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

function tooMany(): Fault {
  return new Fault(429, `a team works on the content of at most ${VOLUME_CONTENTS_PER_TEAM_MAX} volumes at once`, {
    headers: { "retry-after": String(VOLUME_CONTENT_RETRY_AFTER_SECONDS) },
  });
}
