import { beforeEach, expect, test } from "bun:test";
import { ManualClock } from "../../../src/base/testing/manual-clock.ts";
import { folderOfTest } from "../../../src/base/testing/test-folder.ts";
import { FolderBlobs } from "../../../src/blobs/folder-blobs.ts";
import { BlobCache, CACHED_BLOBS_KEPT_MS } from "../../../src/builder/registry/blob-cache.ts";

const TEXT = "a layer";
const blob = {
  digest: `sha256:${new Bun.CryptoHasher("sha256").update(TEXT).digest("hex")}`,
  bytes: TEXT.length,
};
const stream = (text: string) => new Response(text).body ?? new ReadableStream<Uint8Array>();

const folder = folderOfTest("blob-cache");
let clock: ManualClock;
let blobs: FolderBlobs;
let cache: BlobCache;
beforeEach(async () => {
  clock = new ManualClock(Date.parse("2026-01-01"));
  blobs = await FolderBlobs.open(folder, clock);
  cache = new BlobCache(blobs, () => clock.now());
});

const found = async (repository: string) => {
  const content = await cache.find(repository, blob);
  return content === undefined ? undefined : await new Response(content).text();
};

test("a cached blob is found for its own repository only", async () => {
  await cache.keep("docker.io/library/debian", blob, stream(TEXT));
  expect(await found("docker.io/library/debian")).toBe(TEXT);
  expect(await found("evil.example/library/debian")).toBeUndefined();
  expect(await cache.find("docker.io/library/debian", { ...blob, bytes: blob.bytes + 1 })).toBeUndefined();
});

test("bytes that do not match the digest are not cached", async () => {
  for (const text of ["b layer", TEXT.slice(1), `${TEXT}!`, ""]) await cache.keep("here", blob, stream(text));
  expect(await found("here")).toBeUndefined();
  expect(await blobs.list("")).toEqual([]);
});

test("unused blobs are removed after a while", async () => {
  await cache.keep("used", blob, stream(TEXT));
  await cache.keep("unused", blob, stream(TEXT));
  await blobs.put("files/another", stream("x"), 1);
  clock.jump(CACHED_BLOBS_KEPT_MS);
  await found("used");
  clock.jump(1);
  await cache.collect();
  expect([await found("used"), await found("unused")]).toEqual([TEXT, undefined]);
  expect(await blobs.find("files/another")).toBeDefined();
});
