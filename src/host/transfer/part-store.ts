/**
 * File trees and texts as blobs, each named by the SHA-256 of its bytes. So a blob never changes, is stored once, and
 * proves by its name that it arrived whole. Nothing of a tree is unpacked before all of it has been verified.
 */
import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { sha256 } from "../../base/sha256.ts";
import { scaled } from "../../base/time-factor.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import { run } from "../../system/command.ts";
import { packing, REPEATABLE, unpacking } from "../../system/tar-arguments.ts";

const TAR_MS = scaled(900_000);
const TEXT_MAX_BYTES = 4 * 1024 * 1024;
/** Bytes to digest in one step. */
const DIGEST_READ_BYTES = 1024 * 1024;
const BLOBS_FOLDER = "parts";

export const partSchema = z.object({
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  bytes: z.number().int().nonnegative(),
});

export type Part = z.infer<typeof partSchema>;

/** Files with these names below a folder. */
export interface Tree {
  folder: string;
  names: readonly string[];
  /** False: equal files of other times are the same part. */
  isDated: boolean;
}

export class PartStore {
  /** `scratch` is an existing folder for archives on their way. */
  constructor(
    private readonly blobs: Blobs,
    private readonly scratch: string,
  ) {}

  /** Stores a tree unless its part already exists. */
  async saveTree(tree: Tree): Promise<Part> {
    return await this.#withArchive(tree, async (archive, part) => {
      const name = blobOf(part.digest);
      if (!(await this.blobs.touch(name))) await this.blobs.put(name, Bun.file(archive).stream(), part.bytes);
    });
  }

  /** The part that `saveTree` would store. */
  async describeTree(tree: Tree): Promise<Part> {
    return await this.#withArchive(tree, async () => undefined);
  }

  /** Unpacks a part into an existing folder. Throws Fault 422 for damaged bytes, 404 for a missing part. */
  async loadTree(part: Part, folder: string): Promise<void> {
    const archive = this.#newFile();
    try {
      await this.#fetch(part, archive);
      await run(unpacking(folder, [`--file=${archive}`]), { timeoutMs: TAR_MS });
    } finally {
      await rm(archive, { force: true });
    }
  }

  /** Returns the digest. */
  async saveText(text: string): Promise<string> {
    const digest = sha256(text);
    const name = blobOf(digest);
    if (!(await this.blobs.touch(name))) await this.blobs.put(name, new Blob([text]).stream(), TEXT_MAX_BYTES);
    return digest;
  }

  /** Faults as of `loadTree`. */
  async loadText(digest: string): Promise<string> {
    const found = await this.blobs.find(blobOf(digest));
    if (found === undefined) throw missing(digest);
    if (found.bytes > TEXT_MAX_BYTES) throw damaged(digest);
    const text = await new Response(await this.blobs.open(found.name)).text();
    if (sha256(text) !== digest) throw damaged(digest);
    return text;
  }

  async #withArchive(
    { folder, names, isDated }: Tree,
    use: (archive: string, part: Part) => Promise<void>,
  ): Promise<Part> {
    const archive = this.#newFile();
    try {
      const options = [...REPEATABLE, ...(isDated ? [] : ["--mtime=@0"]), `--file=${archive}`];
      await run(packing(folder, names, options), { timeoutMs: TAR_MS });
      const part = await describe(archive);
      await use(archive, part);
      return part;
    } finally {
      await rm(archive, { force: true });
    }
  }

  async #fetch({ digest, bytes }: Part, target: string): Promise<void> {
    const name = blobOf(digest);
    if ((await this.blobs.find(name)) === undefined) throw missing(digest);
    await using file = await open(target, "wx", 0o600);
    const hasher = new Bun.CryptoHasher("sha256");
    let received = 0;
    for await (const chunk of await this.blobs.open(name)) {
      received += chunk.length;
      if (received > bytes) throw damaged(digest);
      hasher.update(chunk);
      await file.writeFile(chunk);
    }
    if (received !== bytes || hasher.digest("hex") !== digest) throw damaged(digest);
  }

  #newFile(): string {
    return join(this.scratch, `${crypto.randomUUID()}.tar`);
  }
}

async function describe(path: string): Promise<Part> {
  const hasher = new Bun.CryptoHasher("sha256");
  let bytes = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: DIGEST_READ_BYTES })) {
    bytes += chunk.length;
    hasher.update(chunk);
  }
  return { digest: hasher.digest("hex"), bytes };
}

function blobOf(digest: string): string {
  return `${BLOBS_FOLDER}/${digest}`;
}

function missing(digest: string): Fault {
  return new Fault(404, `part ${digest} of an exported sandbox is not among the blobs`);
}

function damaged(digest: string): Fault {
  return new Fault(422, `part ${digest} of an exported sandbox is damaged: its bytes do not match its digest`);
}
