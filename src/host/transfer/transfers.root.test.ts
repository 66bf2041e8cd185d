/** Checkpoints between two machines without servers, with small images, through one folder of blobs. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { failureOf } from "../../base/testing/failure.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { blobsIn } from "../../blobs/testing/blobs-in.ts";
import { imagesMarkedBy, noteImage } from "../../images/cached-images.ts";
import { Disks } from "../../images/disk/disks.ts";
import { guestsMarkedBy } from "../../images/guest-folders.ts";
import { Images } from "../../images/images.ts";
import { Checkpoints } from "../../sandbox/checkpoint/checkpoints.ts";
import { sealImage } from "../../sandbox/checkpoint/image-files.ts";
import type { Manifest } from "../../sandbox/checkpoint/manifest.ts";
import { attempt, run } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { SHARED_IDS } from "../../system/id-range.ts";
import { Mounts } from "../../system/mount/mounts.ts";
import { Transfers } from "./transfers.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-transfer-"));
const mounts = new Mounts();
const GUEST = "0123456789abcdef";
const LARGE = Buffer.alloc(1024 ** 2, "page");

type Place = Awaited<ReturnType<typeof placeAt>>;
let [a, b]: Place[] = [];
let blobs: Blobs;

async function placeAt(name: string) {
  const cacheFolder = join(folder, `${name}-cache`);
  mkdirSync(join(cacheFolder, "images"), { recursive: true });
  const data = new DataFolder(join(folder, name));
  data.makeRunFolder();
  const disks = await Disks.open(data.path, mounts);
  const images = await Images.open(cacheFolder, disks);
  const checkpoints = new Checkpoints(disks.checkpointsFolder);
  return { data, cacheFolder, disks, images, checkpoints };
}

function transfersOf(place: Place | undefined, through: Blobs = blobs, mismatch?: string): Promise<Transfers> {
  if (place === undefined) throw new Error("the place is made before the tests");
  return Transfers.open({ ...place, blobs: through, mismatch: () => mismatch });
}

async function writtenDisk({ disks, images }: Place, image: string, line: string): Promise<string> {
  const [place, name] = [join(folder, "place"), Disks.newName()];
  mkdirSync(place);
  const { root } = await disks.attach(name, 64, images.lowersOf(image), place, SHARED_IDS);
  await run(["bash", "-ec", line], { cwd: root });
  for (const each of ["root", "disk"]) await run(["umount", join(place, each)]);
  await disks.releaseMounts(place);
  rmSync(place, { recursive: true });
  return disks.imageOf(name);
}

async function addCheckpoint(place: Place, name: string, image: string, line: string): Promise<void> {
  const { checkpoints, disks, cacheFolder } = place;
  const draft = checkpoints.begin(name);
  await disks.clone(await writtenDisk(place, image, line), draft.disk);
  writeFileSync(join(draft.memory, "pages-1.img"), LARGE);
  writeFileSync(join(draft.memory, "core-1.img"), name);
  writeFileSync(join(draft.own, "boot-id"), "one");
  const { files, durable } = await sealImage(draft);
  await durable;
  const guestFolder = join(cacheFolder, "guests", GUEST);
  const mountsOf = [{ inside: "/sys", outside: join(guestFolder, "sys") }];
  const memory = { wall: "crun", guestFolder, mounts: mountsOf, files };
  checkpoints.describe(draft, { format: 1, kind: { image }, memory } as unknown as Manifest);
  await checkpoints.commit(name, draft, false);
}

/** What a sandbox on this checkpoint would see, and the digest of everything in it. */
async function seen({ disks, images, checkpoints }: Place, name: string): Promise<string> {
  const { folder: at, manifest } = checkpoints.read(name);
  const place = join(folder, "seen");
  mkdirSync(place);
  const copy = disks.imageOf(Disks.newName());
  await disks.clone(at.disk, copy);
  const { root } = await disks.view(copy, images.lowersOf(manifest.kind.image), place);
  const files = "find . -type f | LC_ALL=C sort | while read -r f; do echo $f $(stat -c '%a %h' $f) $(cat $f); done";
  const text = await run(["bash", "-ec", files], { cwd: root });
  for (const each of ["root", "disk"]) await run(["umount", join(place, each)]);
  await disks.releaseMounts(place);
  rmSync(place, { recursive: true });
  return text;
}

function everythingIn({ checkpoints, images, cacheFolder }: Place): string[] {
  const found = [checkpoints.folder, join(cacheFolder, "images"), join(cacheFolder, "guests")];
  const names = found.flatMap((each) => (existsSync(each) ? readdirSync(each) : []));
  return [...names, ...images.names()].filter((name) => !/^(?:\.lock|\.in-use|lock|in-use|.*\.chosen)$/.test(name));
}

beforeAll(async () => {
  // In memory: otherwise these tests mostly wait for the disk.
  await run(["mount", "-t", "tmpfs", "tmpfs", folder]);
  blobs = await blobsIn(join(folder, "blobs"), systemClock);
  [a, b] = [await placeAt("a"), await placeAt("b")];
  const base = join(a.cacheFolder, "images/base");
  mkdirSync(join(base, "share/doc"), { recursive: true });
  for (const name of ["one", "gone", "share/doc/text"]) writeFileSync(join(base, name), `${name}\n`);
  linkSync(join(base, "one"), join(base, "other-name"));
  noteImage(a.cacheFolder, "base");
  const guest = join(a.cacheFolder, "guests", GUEST);
  mkdirSync(join(guest, "bin"), { recursive: true });
  writeFileSync(join(guest, "bin/guest"), "the guest");
  await a.images.add("layer", { parent: "base", disk: await writtenDisk(a, "base", "echo built > built") });
  const changed = "echo more >> one; rm gone; mv share/doc share/moved; echo new > new; truncate --size=20M hole";
  await addCheckpoint(a, "paused", "layer", changed);
  await addCheckpoint(a, "second", "layer", "echo second > second");
});

afterAll(async () => {
  mounts.close();
  for (const { data } of [a, b].flatMap((place) => place ?? [])) {
    rmSync(data.runFolder, { recursive: true, force: true });
    await attempt(["umount", join(data.path, "disks")]);
  }
  await run(["umount", "--lazy", folder]);
  rmSync(folder, { recursive: true });
});

/** The blobs as they are, except that this one ends with an error in the middle, or has one other byte. */
function blobsWith(trouble: "lost" | "changed", digest: string): Blobs {
  const open = async (name: string) => {
    const content = await blobs.open(name);
    if (!name.endsWith(digest)) return content;
    const bytes = new Uint8Array(await new Response(content).arrayBuffer());
    const half = bytes.subarray(0, bytes.length >> 1);
    if (trouble === "changed") bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
    return new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(trouble === "lost" ? half : bytes);
        if (trouble === "lost") controller.error(new Error("the connection was lost"));
        else controller.close();
      },
    });
  };
  return Object.assign(Object.create(blobs) as Blobs, { open, find: (name: string) => blobs.find(name) });
}

const SHOWN = ["./built 644 1 built", "./new 644 1 new", "./one 644 2 one more", "./other-name 644 2 one more"];

describe("an exported checkpoint", () => {
  let exported: string;
  let contents: { sandbox: { digest: string }; images: { name: string; tree: { digest: string } }[] };

  test("consists of parts that are shared: a second one adds its own disk and memory only", async () => {
    const second = await (await transfersOf(a)).export("second");
    // base, layer, guest, sandbox, and their description
    expect(await blobs.list("")).toHaveLength(5);
    const transfers = await transfersOf(a);
    expect(await transfers.export("second")).toBe(second);
    expect(await blobs.list("")).toHaveLength(5);
    exported = await transfers.export("paused");
    expect(await blobs.list("")).toHaveLength(7);
    contents = await new Response(await blobs.open(`parts/${exported}`)).json();
    expect(contents.images.map(({ name }) => name)).toEqual(["base", "layer"]);
    expect(readdirSync(a?.disks.transferFolder ?? "")).toEqual([]);
  });

  test("leaves no trace on the other machine if its memory does not fit there", async () => {
    const transfers = await transfersOf(b, blobs, "this processor lacks sve");
    expect(await failureOf(transfers.import(exported))).toContain("this processor lacks sve");
    expect(b && everythingIn(b)).toEqual([]);
  });

  test.each(["lost", "changed"] as const)("whose disk is %s on the way is not there", async (trouble) => {
    const transfers = await transfersOf(b, blobsWith(trouble, contents.sandbox.digest));
    const failure = await failureOf(transfers.import(exported));
    expect(failure).toContain(trouble === "lost" ? "the connection was lost" : "do not match its digest");
    expect(b?.checkpoints.has("paused")).toBe(false);
    expect(readdirSync(b?.checkpoints.folder ?? "")).toEqual([]);
    expect(readdirSync(b?.disks.transferFolder ?? "")).toEqual([]);
  });

  test.each(["base", "layer"])("whose image %s is changed on the way is not there, nor is the image", async (name) => {
    const digest = contents.images.find((image) => image.name === name)?.tree.digest ?? "";
    const other = await placeAt(`without-${name}`);
    const transfers = await transfersOf(other, blobsWith("changed", digest));
    expect(await failureOf(transfers.import(exported))).toContain("do not match its digest");
    expect(everythingIn(other)).toEqual(name === "base" ? [] : ["base"]);
    await run(["umount", join(other.data.path, "disks")]);
  });

  test("shows the same files over copies of its images, after what killed imports left", async () => {
    if (a === undefined || b === undefined) throw new Error("the places are made before the tests");
    const remains = join(b.checkpoints.folder, ".unfinished-paused");
    const scratch = join(b.disks.transferFolder, "disk");
    for (const path of [remains, scratch]) mkdirSync(path);
    writeFileSync(join(remains, "disk.img"), "half");
    await run(["mount", "-t", "tmpfs", "tmpfs", scratch]);
    const transfers = await transfersOf(b);
    expect(await transfers.import(exported)).toBe("paused");
    expect(await transfers.import(exported)).toBe("paused");
    expect(readdirSync(b.disks.transferFolder)).toEqual([]);
    expect(existsSync(join(b.cacheFolder, `transfer.${b.data.tag}`))).toBe(false);
    const shown = (await seen(b, "paused")).replaceAll(/\n(?=more)/g, " ");
    expect(shown).toBe(await seen(a, "paused").then((text) => text.replaceAll(/\n(?=more)/g, " ")));
    expect(shown.split("\n")).toEqual(expect.arrayContaining(SHOWN));
    expect(shown).not.toContain("./gone");
    expect(shown).toContain("./share/moved/text");
  });

  test("has its memory, its guest at the place of this machine, and marks on what it needs", async () => {
    if (b === undefined) throw new Error("the place is made before the tests");
    const { folder: at, manifest } = b.checkpoints.read("paused");
    expect(readFileSync(join(at.memory, "pages-1.img")).equals(LARGE)).toBe(true);
    expect(readFileSync(join(at.memory, "core-1.img"), "utf8")).toBe("paused");
    const guest = join(b.cacheFolder, "guests", GUEST);
    expect(manifest.memory).toMatchObject({ guestFolder: guest, mounts: [{ outside: join(guest, "sys") }] });
    expect(readFileSync(join(guest, "bin/guest"), "utf8")).toBe("the guest");
    expect(imagesMarkedBy(b.cacheFolder, b.data.tag)).toEqual(["base"]);
    expect(guestsMarkedBy(b.cacheFolder, b.data.tag)).toEqual([GUEST]);
    // The holes stay holes.
    expect(statSync(at.disk).blocks * 512).toBeLessThan(8 * 1024 ** 2);
  });

  test("of an image that has other files here is refused", async () => {
    const other = await placeAt("other");
    mkdirSync(join(other.cacheFolder, "images/base"));
    writeFileSync(join(other.cacheFolder, "images/base/one"), "another build");
    const transfers = await transfersOf(other);
    expect(await failureOf(transfers.import(exported))).toContain("images/base differs");
    expect(await other.checkpoints.list()).toEqual([]);
    await run(["umount", join(other.data.path, "disks")]);
  });

  test("that is not complete among the blobs is refused", async () => {
    const other = await placeAt("incomplete");
    await blobs.remove(`parts/${contents.sandbox.digest}`);
    expect(await failureOf((await transfersOf(other)).import(exported))).toContain("is not among the blobs");
    expect(await other.checkpoints.list()).toEqual([]);
    await run(["umount", join(other.data.path, "disks")]);
  });
});

test("a checkpoint with a volume is not exported", async () => {
  if (a === undefined) throw new Error("the place is made before the tests");
  const draft = a.checkpoints.begin("with-volume");
  writeFileSync(draft.disk, "");
  const memory = { guestFolder: "/guest", mounts: [{ inside: "/mnt", outside: "{volume}/cabinet" }], files: {} };
  a.checkpoints.describe(draft, { format: 1, kind: { image: "base" }, memory } as unknown as Manifest);
  await a.checkpoints.commit("with-volume", draft, false);
  expect(await failureOf((await transfersOf(a)).export("with-volume"))).toContain('the volume "cabinet"');
});
