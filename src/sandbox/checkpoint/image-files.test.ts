import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkpointFolder } from "./checkpoint-folder.ts";
import { DIGEST_SLICE_BYTES, PACKED_FILE_MAX_BYTES, requireIntact, sealImage } from "./image-files.ts";
import type { ImageFiles } from "./manifest.ts";

const CONTENTS: Readonly<Record<string, Buffer>> = {
  "empty.img": Buffer.of(),
  "small.img": Buffer.from("some"),
  "limit.img": Buffer.alloc(PACKED_FILE_MAX_BYTES, 7),
  "large.img": Buffer.alloc(PACKED_FILE_MAX_BYTES + 1, 8),
  "sliced.img": Buffer.alloc(2 * DIGEST_SLICE_BYTES + 3, 9),
};
const LARGE = ["large.img", "sliced.img"];
const SMALL = ["empty.img", "small.img", "limit.img"];

class Image implements Disposable {
  readonly folder = checkpointFolder(mkdtempSync(join(tmpdir(), "sandlot-image-")));

  constructor() {
    mkdirSync(this.folder.memory);
    for (const [name, content] of Object.entries(CONTENTS)) writeFileSync(this.path(name), content);
  }

  path(name: string): string {
    return join(this.folder.memory, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder.path, { recursive: true });
  }
}

async function sealed({ folder }: Image): Promise<ImageFiles> {
  const { files, durable } = await sealImage(folder);
  await durable;
  return files;
}

test("an unchanged image is intact, and only small files have a copy", async () => {
  using image = new Image();
  const files = await sealed(image);
  await requireIntact(image.folder, files);
  expect(Object.keys(files).sort()).toEqual(Object.keys(CONTENTS).sort());
  expect(
    Object.keys(files)
      .filter((name) => files[name]?.at !== undefined)
      .sort(),
  ).toEqual(SMALL.toSorted());
  expect(statSync(image.folder.pack).size).toBe(SMALL.reduce((sum, name) => sum + (CONTENTS[name]?.length ?? 0), 0));
});

test.each(SMALL)("%s is recovered if it is missing, truncated or changed", async (name) => {
  using image = new Image();
  const files = await sealed(image);
  for (const spoil of [
    (path: string) => rmSync(path),
    (path: string) => writeFileSync(path, CONTENTS[name]?.subarray(1) ?? ""),
    (path: string) => writeFileSync(path, "other"),
  ]) {
    spoil(image.path(name));
    await requireIntact(image.folder, files);
    expect(readFileSync(image.path(name)).equals(CONTENTS[name] ?? Buffer.of())).toBe(true);
  }
});

test.each(LARGE)("%s with a changed bit is rejected", async (name) => {
  using image = new Image();
  const files = await sealed(image);
  const content = readFileSync(image.path(name));
  content.writeUInt8(content.readUInt8(content.length - 1) ^ 1, content.length - 1);
  writeFileSync(image.path(name), content);
  const refused = { status: 422, message: expect.stringContaining(`damaged on disk (${name} has changed)`) };
  await expect(requireIntact(image.folder, files)).rejects.toMatchObject(refused);
});

test("a small file that is damaged in both places is rejected", async () => {
  using image = new Image();
  const files = await sealed(image);
  rmSync(image.path("small.img"));
  const pack = readFileSync(image.folder.pack);
  writeFileSync(
    image.folder.pack,
    pack.map((byte) => byte ^ 1),
  );
  const refused = { status: 422, message: expect.stringContaining("damaged on disk (small.img cannot be read)") };
  await expect(requireIntact(image.folder, files)).rejects.toMatchObject(refused);
});
