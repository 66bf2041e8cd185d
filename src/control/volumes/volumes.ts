/**
 * The volumes of teams. The row is written first and marked once the host has made the volume. A deleted volume is gone
 * for its team at once; its data is removed in the background. The next start finishes what a crash interrupts. This
 * folder never touches a disk: the host does.
 */
import { described } from "../../base/log.ts";
import { randomHex } from "../../base/random-hex.ts";
import { RetryQueue } from "../../base/retry-queue.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team } from "../../store/people.ts";
import type { VolumeMount } from "../../store/sandboxes.ts";
import type { Tables } from "../../store/store.ts";
import type { Volume } from "../../store/volumes.ts";
import { lockTeam } from "../access/people.ts";
import type { Parts } from "../parts.ts";
import { ContentQuota } from "./content-quota.ts";
import { findMounts } from "./volume-mounts.ts";
import { VolumeTokens } from "./volume-tokens.ts";

/** A smaller volume has no room for a journal and content. */
const VOLUME_MIN_MB = 32;

/** Maximum sandboxes and snapshots that a refusal names. */
const VOLUME_USERS_SHOWN = 10;
/** A failed removal of a volume is retried after the first delay, doubling up to the second. */
const VOLUME_REMOVAL_RETRY_MIN_MS = 1_000;
const VOLUME_REMOVAL_RETRY_MAX_MS = 60_000;
const VOLUME_REMOVALS_AT_ONCE = 2;
/** Volumes of all teams that are formatted at once, since each takes tools and a device. Teams take turns. */
export const VOLUMES_MADE_AT_ONCE = 4;

export interface VolumeBounds {
  /** When the request names no size. */
  sizeMB: number;
  sizeMaxMB: number;
  perTeam: number;
  mountsPerSandbox: number;
}

export const VOLUME_BOUNDS_DEFAULT: VolumeBounds = {
  sizeMB: 10_240,
  sizeMaxMB: 102_400,
  perTeam: 100,
  mountsPerSandbox: 16,
};
const SECRET_BYTES = 32;

export class Volumes {
  readonly #bounds: VolumeBounds;
  readonly #removal: RetryQueue<string>;
  /** Volumes whose create failed. Their rows may say that they are ready. */
  readonly #failed = new Set<string>();
  readonly #places = new ContentQuota();
  /** The queue is bounded: each waiting call has a row, and rows per team are limited. */
  readonly #making = new Semaphore(VOLUMES_MADE_AT_ONCE);
  #tokens: Promise<VolumeTokens> | undefined;

  constructor(
    private readonly services: Parts,
    bounds: Partial<VolumeBounds> = {},
  ) {
    this.#bounds = { ...VOLUME_BOUNDS_DEFAULT, ...bounds };
    const { clock, background, log } = services;
    this.#removal = new RetryQueue<string>({
      clock,
      background,
      work: (id) => this.#remove(id),
      failed: (volume, error) =>
        log.write({ level: "error", event: "volume could not be removed", volume, error: described(error) }),
      atOnce: VOLUME_REMOVALS_AT_ONCE,
      retryMinMs: VOLUME_REMOVAL_RETRY_MIN_MS,
      retryMaxMs: VOLUME_REMOVAL_RETRY_MAX_MS,
    });
  }

  /** Removes volumes that the previous run left half made or half removed. */
  async start(): Promise<void> {
    const { store, clock } = this.services;
    const left = await store.volumes.unfinished();
    for (const { id } of left) await store.volumes.markDeleted(id, clock.now());
    this.#removal.enqueue(left.map(({ id }) => id));
  }

  close(): void {
    this.#removal.close();
  }

  async create(team: Team, name: string, askedMB: number | undefined): Promise<Volume> {
    const { store, host, clock, ids, log } = this.services;
    const sizeMB = this.#size(askedMB);
    const volume = {
      id: ids.uuid(),
      teamId: team.id,
      name,
      sizeMB,
      createdAt: clock.now(),
      isReady: false,
      deletedAt: null,
    };
    await this.#written(volume.id, async (tables) => {
      await lockTeam(tables, team.id);
      if (!(await tables.volumes.add(volume))) {
        throw new Fault(400, `this team has a volume "${name}" already; choose another name, or delete it`);
      }
      const { perTeam } = this.#bounds;
      if ((await tables.volumes.countOf(team.id)) > perTeam) {
        throw new Fault(429, `a team has at most ${perTeam} volumes; delete one first`);
      }
    });
    try {
      using _permit = await this.#making.acquire(team.id);
      await host.createVolume(volume.id, sizeMB);
      await store.volumes.markReady(volume.id);
      return { ...volume, isReady: true };
    } catch (cause) {
      this.#failed.add(volume.id);
      // At once, so that the name is free for another attempt. The removal repeats it.
      await store.volumes.markDeleted(volume.id, clock.now()).catch((error: unknown) => {
        const event = "volume whose create failed could not be marked as deleted yet";
        log.write({ level: "error", event, volume: volume.id, error: described(error) });
      });
      this.#removal.enqueue([volume.id]);
      throw volumeFault(cause);
    }
  }

  list(team: Team): Promise<Volume[]> {
    return this.services.store.volumes.of(team.id);
  }

  /** Fault 400 when it is not an id, 404 when the team has no such volume. */
  async require(teamId: string, id: string): Promise<Volume> {
    if (!UUID.test(id)) throw new Fault(400, `${quoted(id)} is not a volume id (a UUID)`);
    const volume = await this.services.store.volumes.byId(id.toLowerCase());
    if (volume === undefined || volume.teamId !== teamId) throw new Fault(404, `volume "${id}" does not exist`);
    return volume;
  }

  /** Refused while sandboxes or snapshots use it. Its data is removed in the background. */
  async delete(team: Team, id: string): Promise<void> {
    const { clock } = this.services;
    const { id: volumeId, name } = await this.require(team.id, id);
    await this.#written(volumeId, async (tables) => {
      // Marked first, so that a concurrent create is either counted below or finds the volume gone.
      if (!(await tables.volumes.markDeleted(volumeId, clock.now())))
        throw new Fault(404, `volume "${id}" does not exist`);
      const sandboxes = await tables.volumes.sandboxesWith(volumeId, VOLUME_USERS_SHOWN + 1);
      const templates = await tables.volumes.templatesWith(volumeId, VOLUME_USERS_SHOWN + 1);
      const users = [usedBy("sandbox", "sandboxes", sandboxes), usedBy("snapshot", "snapshots", templates)].filter(
        (each) => each !== undefined,
      );
      if (users.length === 0) return;
      throw new Fault(
        409,
        `volume "${name}" cannot be deleted: it is used by ${users.join(" and ")}; delete them first`,
      );
    });
    this.#removal.enqueue([volumeId]);
  }

  /** Deletes all volumes of a team whose sandboxes and templates are gone. Returns how many are not removed yet. */
  async deleteAll(teamId: string): Promise<number> {
    const { store, clock } = this.services;
    const all = await store.volumes.allOf(teamId);
    for (const { id, isReady, deletedAt } of all) {
      // One that is not ready is being made; its maker finishes that first.
      if (!isReady || deletedAt !== null) continue;
      await this.#written(id, async ({ volumes }) => void (await volumes.markDeleted(id, clock.now())));
      this.#removal.enqueue([id]);
    }
    return all.length;
  }

  /** Resolves requested mounts to volumes of the team. */
  async mounts(team: Team, requested: readonly { name: string; path: string }[]): Promise<VolumeMount[]> {
    if (requested.length === 0) return [];
    return await findMounts(this.services.store, team, requested, this.#bounds.mountsPerSandbox);
  }

  /** Hold it while the content is in use. Fault 429 when the team uses too many volumes. */
  place(volume: Volume): Disposable {
    return this.#places.take(volume);
  }

  async tokenFor(volume: Volume): Promise<string> {
    return (await this.#signer()).make(volume, this.services.clock.now());
  }

  /** The volume of a token. Fault 401 when the token is not valid, 404 when the volume is gone. */
  async opened(token: string): Promise<Volume> {
    const { volumeId, teamId } = (await this.#signer()).read(token, this.services.clock.now());
    return await this.require(teamId, volumeId);
  }

  async #signer(): Promise<VolumeTokens> {
    this.#tokens ??= this.#readSecret();
    this.#tokens.catch(() => {
      this.#tokens = undefined;
    });
    return await this.#tokens;
  }

  async #readSecret(): Promise<VolumeTokens> {
    const offered = randomHex(SECRET_BYTES);
    return new VolumeTokens(Uint8Array.fromHex(await this.services.store.volumes.signingSecret(offered)));
  }

  /** A failed transaction may have been committed nevertheless. Queueing the removal covers that case. */
  async #written(id: string, work: (tables: Tables) => Promise<void>): Promise<void> {
    try {
      await this.services.store.transaction(work);
    } catch (error) {
      // A refusal wrote nothing.
      if (!(error instanceof Fault)) this.#removal.enqueue([id]);
      throw error;
    }
  }

  /** Leaves a ready, undeleted volume as it is, unless its create failed. */
  async #remove(id: string): Promise<void> {
    const { store, host, clock } = this.services;
    if (this.#failed.has(id)) await store.volumes.markDeleted(id, clock.now());
    if ((await store.volumes.byId(id)) !== undefined) return;
    await host.removeVolume(id);
    await store.volumes.remove(id);
    this.#failed.delete(id);
  }

  #size(requestedMB: number | undefined): number {
    const { sizeMB, sizeMaxMB } = this.#bounds;
    const size = requestedMB ?? sizeMB;
    if (size >= VOLUME_MIN_MB && size <= sizeMaxMB) return size;
    throw new Fault(400, `sizeMB must be from ${VOLUME_MIN_MB} to ${sizeMaxMB}, got ${size}`);
  }
}

/** Undefined: not used. */
function usedBy(one: string, many: string, ids: readonly string[]): string | undefined {
  if (ids.length === 0) return undefined;
  const shown = ids.slice(0, VOLUME_USERS_SHOWN).join(", ");
  const more = ids.length > VOLUME_USERS_SHOWN ? " and others" : "";
  return `${ids.length === 1 ? one : many} ${shown}${more}`;
}

function volumeFault(cause: unknown): Fault {
  const fault = Fault.from(cause);
  if (fault.status === 503 || fault.status === 507) return fault;
  return new Fault(500, "the volume could not be made; the server's log has the details", { cause });
}
