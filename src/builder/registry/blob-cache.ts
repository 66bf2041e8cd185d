/**
 * Blobs that registries have sent, so that none is fetched twice. They are kept apart by repository, although the same
 * one may be in several: whoever may read one repository need not be allowed to read another, and a registry of
 * a tenant's own can name any digest it likes. A blob is given out only to who has just shown, by reading the image's
 * manifest with its own credentials, that it may read the repository.
 */

import { described, stderrLog } from "../../base/log.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import type { Blob } from "./manifest.ts";

/** Blobs of registries that are kept, all together, and how long after their last use. */
const CACHED_BLOBS_MAX_BYTES = 20 * 1024 ** 3;
export const CACHED_BLOBS_KEPT_MS = 30 * 24 * 3_600_000;

const FOLDER = "registry/";

export class BlobCache {
  constructor(
    readonly blobs: Blobs,
    readonly now: () => number = Date.now,
  ) {}

  /** Undefined when it is not here. */
  async find(repository: string, { digest, bytes }: Blob): Promise<ReadableStream<Uint8Array> | undefined> {
    const name = nameOf(repository, digest);
    const stored = await this.blobs.find(name);
    if (stored?.bytes !== bytes) return undefined;
    await this.blobs.touch(name);
    // It may have been removed in this moment.
    return await this.blobs.open(name).catch(() => undefined);
  }

  /** Keeps what the stream carries if it is what the digest says; else nothing, which is no reason to fail. */
  async keep(repository: string, { digest, bytes }: Blob, content: ReadableStream<Uint8Array>): Promise<void> {
    try {
      await this.blobs.put(nameOf(repository, digest), content.pipeThrough(verified(digest)), bytes);
    } catch (error) {
      stderrLog.write({ level: "warn", event: "a blob of a registry is not kept", error: described(error) });
    }
  }

  /** Removes those that were not used lately, and the longest unused of more than there is room for. */
  async collect(): Promise<void> {
    const stored = (await this.blobs.list(FOLDER)).toSorted((a, b) => b.usedAt - a.usedAt);
    const keptFrom = this.now() - CACHED_BLOBS_KEPT_MS;
    let bytes = 0;
    for (const blob of stored) {
      bytes += blob.bytes;
      if (blob.usedAt < keptFrom || bytes > CACHED_BLOBS_MAX_BYTES) await this.blobs.remove(blob.name);
    }
  }
}

function nameOf(repository: string, digest: string): string {
  const scope = new Bun.CryptoHasher("sha256").update(repository).digest("hex").slice(0, 40);
  return `${FOLDER}${scope}/${digest.replace("sha256:", "")}`;
}

/** Lets bytes through, and breaks off at their end if they are not those of the digest. */
function verified(digest: string): TransformStream<Uint8Array, Uint8Array> {
  const hash = new Bun.CryptoHasher("sha256");
  return new TransformStream({
    transform(chunk, controller) {
      hash.update(chunk);
      controller.enqueue(chunk);
    },
    flush() {
      if (`sha256:${hash.digest("hex")}` !== digest) throw new Fault(422, `these are not the bytes of ${digest}`);
    },
  });
}
