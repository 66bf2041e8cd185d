/**
 * Uploads of files for builds. A team's client asks for a link and puts an archive there; the link is the only
 * credential. Archives are blobs named by team and hash, so a team sends the same files once. Archives unused for a
 * while are removed.
 */
import { createHmac } from "node:crypto";
import type { Timer } from "../../base/clock.ts";
import { KeyedLimit } from "../../base/keyed-limit.ts";
import type { Blobs, StoredBlob } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { isSame } from "../access/credentials.ts";
import { BUILD_WITHOUT_UPLOAD_MS } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { checkedArchive } from "./archive-check.ts";

/** Lifetime of an upload link. */
export const UPLOAD_LINK_SECONDS = 3_600;
export const UPLOADS_AT_ONCE_PER_TEAM = 32;
export const UPLOADS_PER_TEAM_MAX = 10_000;
export const UPLOADS_PER_TEAM_MAX_BYTES = 20 * 1024 ** 3;

/** Uploaded files that no build has used for this long are removed, at the interval below. */
export const UPLOADS_KEPT_MS = 24 * 3_600_000;
export const UPLOADS_SWEEP_MS = 3_600_000;

const FOLDER = "files";
const HASH = /^[0-9a-f]{64}$/;

interface UploadServices extends Parts {
  blobs: Blobs;
}

/** Everything that a link allows. A secret of the server signs it. */
interface UploadPermit {
  teamId: string;
  templateId: string;
  hash: string;
  maxBytes: number;
  /** Seconds since 1970. */
  expires: number;
}

interface SignedUpload {
  templateId: string;
  hash: string;
  expires: number;
  bytes: number;
  signature: string;
}

export class Uploads {
  readonly #secret: Uint8Array;
  readonly #underWay = new KeyedLimit(UPLOADS_AT_ONCE_PER_TEAM);
  /** Per template: uploads in progress, and the time of the last link, start or end. */
  readonly #activity = new Map<string, { underWay: number; at: number }>();
  /** One for each upload in progress. */
  readonly #stops = new Set<AbortController>();
  #timer: Timer | undefined;

  constructor(
    private readonly services: UploadServices,
    secret: Uint8Array,
    private readonly maxBytes: number,
  ) {
    this.#secret = secret;
  }

  /** From now on, removes unused archives periodically, except those that current builds need. */
  start(needed: () => ReadonlySet<string>): void {
    const { idleClock, background } = this.services;
    this.#timer = idleClock.after(UPLOADS_SWEEP_MS, () => {
      background.run("uploaded files could not be removed", () => this.#sweep(needed));
      this.start(needed);
    });
  }

  /** Aborts uploads in progress. */
  close(): void {
    this.#timer?.cancel();
    const reason = new Fault(503, "the server is stopping; request a new link in a moment");
    for (const stop of this.#stops) stop.abort(reason);
  }

  /** Whether the team has these files, and the link for sending them, which begins with `base`. */
  async link(teamId: string, templateId: string, hash: string, base: string) {
    const { blobs, clock } = this.services;
    const expires = Math.floor(clock.now() / 1000) + UPLOAD_LINK_SECONDS;
    const permit = { teamId, templateId, hash: checkedHash(hash), maxBytes: this.maxBytes, expires };
    const query = new URLSearchParams({
      expires: String(expires),
      bytes: String(this.maxBytes),
      signature: signatureOf(permit, this.#secret),
    });
    const present = await blobs.touch(uploadedFilesName(teamId, hash));
    this.#noteActivity(templateId, 0);
    return { present, url: `${base}/templates/${templateId}/files/${hash}?${query}` };
  }

  /** Receives an upload. Nothing is stored before all of it has arrived. */
  async receive(
    upload: SignedUpload,
    content: ReadableStream<Uint8Array> | null,
    announcedBytes: number | undefined,
  ): Promise<void> {
    const permit = await this.#permitted(upload);
    if (announcedBytes !== undefined && announcedBytes > permit.maxBytes) throw tooLarge(permit.maxBytes);
    if (!this.#underWay.add(permit.teamId)) {
      throw new Fault(429, `this team has ${UPLOADS_AT_ONCE_PER_TEAM} uploads under way; wait for one of them`, {
        retryAfterSeconds: 1,
      });
    }
    const stop = new AbortController();
    this.#stops.add(stop);
    this.#noteActivity(permit.templateId, 1);
    try {
      await this.#makeRoom(permit.teamId);
      const archive = await checkedArchive(content ?? new Blob([]).stream(), announcedBytes, stop.signal);
      await this.services.blobs.put(uploadedFilesName(permit.teamId, permit.hash), archive, permit.maxBytes);
    } catch (error) {
      throw error instanceof Fault && error.status === 413 ? tooLarge(permit.maxBytes) : error;
    } finally {
      this.#stops.delete(stop);
      this.#noteActivity(permit.templateId, -1);
      this.#underWay.remove(permit.teamId);
    }
  }

  /** When this template last had a link made or an upload in progress; 0: not lately. */
  lastActiveAt(templateId: string): number {
    const { underWay, at } = this.#activity.get(templateId) ?? { underWay: 0, at: 0 };
    return underWay > 0 ? this.services.clock.now() : at;
  }

  #noteActivity(templateId: string, more: number): void {
    const now = this.services.clock.now();
    const { underWay } = this.#activity.get(templateId) ?? { underWay: 0 };
    // Moved to the end of the map, so that the least recently active templates come first.
    this.#activity.delete(templateId);
    this.#activity.set(templateId, { underWay: underWay + more, at: now });
    for (const [oldest, { underWay, at }] of this.#activity) {
      if (at + BUILD_WITHOUT_UPLOAD_MS > now) break;
      if (underWay === 0) this.#activity.delete(oldest);
    }
  }

  /** False: there are no such files, or no longer. */
  touch(name: string): Promise<boolean> {
    return this.services.blobs.touch(name);
  }

  removeAllOf(teamId: string): Promise<void> {
    return this.services.blobs.removeFolder(`${FOLDER}/${teamId}`);
  }

  async #sweep(needed: () => ReadonlySet<string>): Promise<void> {
    const { blobs, clock } = this.services;
    const isOld = ({ usedAt }: StoredBlob) => usedAt + UPLOADS_KEPT_MS <= clock.now();
    for (const { name } of (await blobs.list(FOLDER)).filter(isOld)) {
      // A client may have learned since that the archive is present.
      const found = await blobs.find(name);
      if (found !== undefined && isOld(found) && !needed().has(name)) await blobs.remove(name);
    }
  }

  async #permitted({ templateId, hash, expires, bytes, signature }: SignedUpload): Promise<UploadPermit> {
    const template = await this.services.store.templates.byId(templateId);
    const permit = { teamId: template?.teamId ?? "", templateId, hash: checkedHash(hash), maxBytes: bytes, expires };
    if (!isSame(signature, signatureOf(permit, this.#secret))) {
      throw new Fault(403, "this link was not made by this server, or its template was deleted; request a new link");
    }
    if (expires * 1000 <= this.services.clock.now()) throw new Fault(403, "this link has expired; request a new link");
    return permit;
  }

  async #makeRoom(teamId: string): Promise<void> {
    const { blobs } = this.services;
    const kept = await blobs.list(`${FOLDER}/${teamId}`);
    const total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    if (kept.length < UPLOADS_PER_TEAM_MAX && total < UPLOADS_PER_TEAM_MAX_BYTES) return;
    throw new Fault(
      507,
      `this team has ${kept.length} uploads of ${total} bytes; the bounds are ${UPLOADS_PER_TEAM_MAX} and ` +
        `${UPLOADS_PER_TEAM_MAX_BYTES}. What no build has used for ${UPLOADS_KEPT_MS / 3_600_000} hours is removed`,
    );
  }
}

function signatureOf(permit: UploadPermit, secret: Uint8Array): string {
  const { teamId, templateId, hash, maxBytes, expires } = permit;
  const text = ["upload", teamId, templateId, hash, maxBytes, expires].join("\n");
  return createHmac("sha256", secret).update(text).digest("hex");
}

/** Name of the blob. */
export function uploadedFilesName(teamId: string, hash: string): string {
  return `${FOLDER}/${teamId}/${hash}`;
}

function checkedHash(hash: string): string {
  if (HASH.test(hash)) return hash;
  throw new Fault(400, `invalid hash ${quoted(hash)}; it has 64 characters of 0-9 and a-f`);
}

function tooLarge(maxBytes: number): Fault {
  return new Fault(413, `the upload is larger than ${maxBytes} bytes; leave files out with .dockerignore`);
}
