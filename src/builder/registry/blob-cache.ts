/**
 * Caches registry blobs. Each repository has its own entries, even for equal digests: access to one repository does not
 * imply access to another, and a tenant's own registry can name any digest. A build gets a blob only after it has read
 * the image's manifest with its own credentials, which proves access to the repository.
 */
import { described, stderrLog } from "../../base/log.ts";
import { sha256 } from "../../base/sha256.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import type { Blob } from "./manifest.ts";

/** Total size of cached blobs, and how long an unused one is kept. */
const CACHED_BLOBS_MAX_BYTES = 20 * 1024 ** 3;
export const CACHED_BLOBS_KEPT_MS = 30 * 24 * 3_600_000;

const FOLDER = "registry/";

export class BlobCache {
  constructor(
    readonly blobs: Blobs,
    readonly now: () => number = Date.now,
  ) {}

  /** Undefined: not cached. */
  async find(repository: string, { digest, bytes }: Blob): Promise<ReadableStream<Uint8Array> | undefined> {
    const name = nameOf(repository, digest);
    const stored = await this.blobs.find(name);
    if (stored?.bytes !== bytes) return undefined;
    await this.blobs.touch(name);
    // A collection may have removed it just now.
    return await this.blobs.open(name).catch(() => undefined);
  }

  /** Caches the stream's content if it matches the digest. A failure only leaves it uncached. */
  async keep(repository: string, { digest, bytes }: Blob, content: ReadableStream<Uint8Array>): Promise<void> {
    try {
      await this.blobs.put(nameOf(repository, digest), content.pipeThrough(verified(digest)), bytes);
    } catch (error) {
      stderrLog.write({ level: "warn", event: "a registry blob could not be cached", error: described(error) });
    }
  }

  /** Removes blobs that are too old, then the least recently used beyond the total size. */
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
  const scope = sha256(repository).slice(0, 40);
  return `${FOLDER}${scope}/${digest.replace("sha256:", "")}`;
}

/** Passes bytes through and fails at the end if they do not match the digest. */
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
