/** Images made from disks as builds leave them. Sandboxes on them: stacked-images.test.ts. */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { untilTrue } from "../base/testing/until.ts";
import { attempt, run } from "../system/command.ts";
import { DataFolder } from "../system/data-folder.ts";
import { SHARED_IDS } from "../system/id-range.ts";
import { mountPoints } from "../system/mount/mount-namespace.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { cachedImages, noteImage } from "./cached-images.ts";
import { Disks } from "./disk/disks.ts";
import { belowFile, imageFolder } from "./image-folder.ts";
import { IMAGE_FRESH_MS, IMAGE_LEVELS_MAX, Images } from "./images.ts";
import { CACHE_KEPT_MS } from "./marked-folders.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-images-"));
const cache = join(folder, "cache");
const mounts = new Mounts();
const clock = new ManualClock(Date.parse("2026-01-01"));
let disks: Disks;
let images: Images;
let small: string;

beforeAll(async () => {
  mkdirSync(join(cache, "images/base"), { recursive: true });
  mkdirSync(join(folder, "data"));
  disks = await Disks.open(join(folder, "data"), mounts);
  images = await Images.open(cache, disks, clock);
  small = await diskOf("small", "echo some > file");
});
afterEach(async () => {
  clock.jump(IMAGE_FRESH_MS + 1);
  await images.collect([], async () => []);
  expect(readdirSync(disks.imagesFolder)).toEqual([]);
});
afterAll(async () => {
  await attempt(["umount", join(folder, "data/disks")]);
  mounts.close();
  rmSync(folder, { recursive: true });
});

/** The file of a disk on which a shell line has written these files. */
async function diskOf(name: string, line: string): Promise<string> {
  const [tree, file] = [join(folder, `${name}-tree`), join(folder, `${name}.img`)];
  for (const path of ["upper", "work"]) mkdirSync(join(tree, path), { recursive: true });
  await run(["/bin/sh", "-ec", line], { cwd: join(tree, "upper") });
  await run(["truncate", "--size=64M", file]);
  await run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", "-d", tree, file]);
  await run(["rm", "-rf", tree]);
  return file;
}

/** Base at the bottom, the last one on top. */
async function stack(...names: string[]): Promise<void> {
  let parent = "base";
  for (const name of names) {
    await images.add(name, { parent, disk: small });
    parent = name;
  }
}

/** 0 as long as it is not there. */
function countIn(path: string): number {
  try {
    return readdirSync(path).length;
  } catch {
    return 0;
  }
}

const layerOf = (name: string) => join(disks.imagesFolder, name, "layer");
const names = () => images.list().map(({ name }) => name);

describe("an image", () => {
  test("is its own layer and those below it, the topmost first", async () => {
    await stack("one", "two");
    const base = join(cache, "images/base");
    expect(images.lowersOf("two").map((lower) => lower.folder)).toEqual([layerOf("two"), layerOf("one"), base]);
    expect(images.lowersOf("base").map((lower) => lower.folder)).toEqual([base]);
    expect([images.has("two"), images.has("base"), images.has("three")]).toEqual([true, true, false]);
    expect(() => images.lowersOf("three")).toThrow('the image "three" is not on this machine');
    expect(() => images.lowersOf("../data")).toThrow('"../data" cannot name an image');
    expect(readFileSync(join(layerOf("one"), "file"), "utf8")).toBe("some\n");
    // A block of the file and one of the folder at least, and no more than a disk of that size has.
    for (const { bytes } of images.list()) expect(bytes).toBeWithin(1, 64 * 1024 * 1024);
    const twice = images.add("two", { parent: "base", disk: small });
    await expect(twice).rejects.toMatchObject({ status: 409, message: 'there is an image "two" already' });
  });

  test("without an image below is complete by itself", async () => {
    await images.add("whole", { parent: null, disk: small });
    expect(images.lowersOf("whole").map((lower) => lower.folder)).toEqual([layerOf("whole")]);
  });

  test("whose name is not durable does not exist, and can be made again", async () => {
    const { spawn } = Bun;
    const sync = spyOn(Bun, "spawn").mockImplementation(((argv: string[], options: object) => {
      if (argv[0] === "sync" && argv[1] === disks.imagesFolder) throw new Error("no process is left");
      return spawn(argv, options);
    }) as typeof Bun.spawn);
    await expect(images.add("one", { parent: "base", disk: small })).rejects.toThrow("no process is left");
    sync.mockRestore();
    expect([images.has("one"), readdirSync(disks.imagesFolder)]).toEqual([false, []]);
    await stack("one");
  });

  test("can be stacked to a bounded depth, and the build's error has the remedy", async () => {
    const levels = Array.from({ length: IMAGE_LEVELS_MAX }, (_, index) => `level-${index}`);
    await stack(...levels);
    const top = levels.at(-1) ?? "";
    const refused = images.add("above", { parent: top, disk: small });
    await expect(refused).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining(`at most ${IMAGE_LEVELS_MAX} times`),
    });
    expect(() => images.requireStackable(levels.at(-2) ?? "")).not.toThrow();
  });
});

test("cached images below a build's image are marked before use, and stay while it needs them", async () => {
  const shared = join(folder, "shared-cache");
  const data = new DataFolder(join(folder, "data"));
  const other = cachedImages(shared, new DataFolder(join(folder, "other-data")), clock);
  for (const name of ["debian-1", "desktop-1", "debian-2"]) {
    noteImage(shared, name, clock);
    mkdirSync(imageFolder(shared, name), { recursive: true });
  }
  writeFileSync(belowFile(shared, "desktop-1"), "debian-1");
  const own = await Images.open(shared, disks, clock, cachedImages(shared, data, clock));
  const marks = () => readdirSync(join(shared, "images/.in-use")).sort();
  const othersCollect = () => other.collect({ own: async () => [], others: () => [], release: async () => undefined });
  await own.add("one", { parent: "desktop-1", disk: small });
  expect(marks()).toEqual([`debian-1.${data.tag}`, `desktop-1.${data.tag}`]);
  clock.jump(CACHE_KEPT_MS + 1);
  await othersCollect();
  expect(own.lowersOf("one")).toHaveLength(3);
  expect(own.has("debian-2")).toBe(false);
  // Nothing names it but its parent's mark, which the image of a build has set; so it stays after this round, too.
  await own.collect(["one"], async () => []);
  clock.jump(CACHE_KEPT_MS + 1);
  await othersCollect();
  expect(own.lowersOf("one")).toHaveLength(3);
  await own.collect([], async () => []);
  expect(marks()).toEqual([]);
  // A request may just have begun with it.
  await othersCollect();
  expect(own.has("desktop-1")).toBe(true);
  clock.jump(CACHE_KEPT_MS + 1);
  await othersCollect();
  expect(own.has("desktop-1")).toBe(false);
});

describe("the files of a tenant", () => {
  test("of every kind are copied unchanged, and no link or device is opened", async () => {
    writeFileSync(join(folder, "outside"), "untouched");
    const hostile = await diskOf(
      "hostile",
      `ln -s ../../../../../../../../../../../..${folder}/outside up; ln -s ${folder}/outside absolute; ln -s . self
       mkfifo fifo; mknod disk b 7 0; mknod whiteout c 0 0; mkdir -p dir/dir; ln -s dir link; chmod 7777 dir
       echo x > "$(printf 'a\\nb')"; echo x > ' -rf'; truncate -s 8T sparse; chown 12:34 dir; touch set; chmod 6755 set`,
    );
    await images.add("hostile", { parent: "base", disk: hostile });
    const layer = layerOf("hostile");
    expect(readdirSync(layer).sort()).toEqual(
      [" -rf", "a\nb", "absolute", "dir", "disk", "fifo", "link", "self", "set", "sparse", "up", "whiteout"].sort(),
    );
    const facts = (name: string) => lstatSync(join(layer, name));
    expect([facts("fifo").isFIFO(), facts("disk").isBlockDevice(), facts("up").isSymbolicLink()]).toEqual([
      true,
      true,
      true,
    ]);
    expect([facts("whiteout").isCharacterDevice(), facts("whiteout").rdev]).toEqual([true, 0]);
    expect([facts("sparse").size, facts("sparse").blocks]).toEqual([8 * 1024 ** 4, 0]);
    expect([facts("dir").uid, facts("dir").gid, facts("dir").mode & 0o7777]).toEqual([12, 34, 0o7777]);
    expect(facts("set").mode & 0o7777).toBe(0o6755);
    expect(readFileSync(join(folder, "outside"), "utf8")).toBe("untouched");
    // Only root may read the tenant's files.
    expect(lstatSync(disks.imagesFolder).mode & 0o777).toBe(0o700);
  });

  test("with many hard links do not block others while they are recorded", async () => {
    const links = 4_000;
    const below = await diskOf("below", `echo old > name; perl -e 'link("name", $_) for (1..${links})'`);
    await images.add("below", { parent: "base", disk: below });
    const disk = Disks.newName();
    const scratch = join(folder, "changing");
    mkdirSync(scratch);
    const { root, release } = await disks.attach(disk, 64, images.lowersOf("below"), scratch, SHARED_IDS);
    writeFileSync(join(root, "name"), "new");
    await release();
    let written = 0;
    const upper = join(disks.imagesFolder, "above.unfinished/links/disk/upper");
    let isOver = false;
    const added = images.add("above", { parent: "below", disk: disks.imageOf(disk) }).finally(() => {
      isOver = true;
    });
    // Looks at every turn of the event loop, and no longer than needed: looking keeps the disk from being released.
    for (; !isOver && written < 100; await setImmediate()) written = countIn(upper);
    await added;
    expect(written).toBeWithin(100, links);
    expect(readdirSync(layerOf("above")).length).toBeGreaterThan(links);
    expect(readFileSync(join(layerOf("above"), String(links)), "utf8")).toBe("new");
    await disks.remove(disk);
  });

  test("that are nested too deep for the kernel are rejected, and nothing is left", async () => {
    const name = "d".repeat(250);
    const deep = await diskOf("deep", `perl -e 'for (1..20) { mkdir "${name}"; chdir "${name}" }'`);
    await expect(images.add("deep", { parent: "base", disk: deep })).rejects.toMatchObject({
      status: 422,
      message:
        "the files of the build cannot be kept as an image: File name too long. FIX: remove folders that are nested so deeply",
    });
    expect(readdirSync(disks.imagesFolder)).toEqual([]);
  });

  test("are not copied further after a cancellation", async () => {
    const wanted = new AbortController();
    const added = images.add("unwanted", { parent: "base", disk: small, signal: wanted.signal });
    wanted.abort(new Error("cancelled"));
    await expect(added).rejects.toThrow("cancelled");
    expect(readdirSync(disks.imagesFolder)).toEqual([]);
  });
});

describe("files of a killed server", () => {
  test("are removed at the next start, also if still mounted", async () => {
    const unfinished = join(disks.imagesFolder, "half.unfinished");
    mkdirSync(join(unfinished, "disk"), { recursive: true });
    await disks.clone(small, join(unfinished, "disk.img"));
    await mounts.do({
      kind: "look",
      image: join(unfinished, "disk.img"),
      target: join(unfinished, "disk"),
      type: "ext4",
    });
    mkdirSync(join(disks.imagesFolder, "gone.some.leaving/layer"), { recursive: true });
    await Images.open(cache, disks, clock);
    expect(readdirSync(disks.imagesFolder)).toEqual([]);
    expect(mountPoints().filter((point) => point.startsWith(disks.imagesFolder))).toEqual([]);
    expect(existsSync(small)).toBe(true);
  });
});

test("a server killed during a copy leaves no process, and no files after the next start", async () => {
  const many = await diskOf(
    "many",
    "for folder in $(seq 20); do mkdir $folder; seq -f $folder/%g 100 | xargs touch; done",
  );
  const program = join(import.meta.dir, "../host/testing/add-image-program.ts");
  const argv = [process.execPath, program, cache, join(folder, "data"), "killed", many];
  const layer = join(disks.imagesFolder, "killed.unfinished/layer");
  // On a busy machine the work may end before the test sees it: try again.
  for (let isKilled = false; !isKilled; ) {
    await images.remove("killed");
    const server = Bun.spawn(argv, { stdout: "ignore", stderr: "inherit" });
    await untilTrue(() => existsSync(join(layer, "1")) || server.exitCode !== null);
    server.kill("SIGKILL");
    expect(await server.exited).not.toBe(1);
    isKilled = !images.has("killed");
  }
  // A process that still wrote into the folder would block its removal.
  await Images.open(cache, disks, clock);
  expect(readdirSync(disks.imagesFolder)).toEqual([]);
  expect(mountPoints().filter((point) => point.startsWith(disks.imagesFolder))).toEqual([]);
});

describe("a collection", () => {
  test("removes images that are not named, used or held, nor below such an image", async () => {
    await stack("below-named", "named");
    await stack("below-used", "used");
    await stack("below-held", "held");
    await stack("below-unused", "unused");
    clock.jump(IMAGE_FRESH_MS + 1);
    const held = images.hold("held");
    await images.collect(["named", "of-another-machine"], async () => ["used"]);
    expect(names().sort()).toEqual(["below-held", "below-named", "below-used", "held", "named", "used"]);
    held[Symbol.dispose]();
    await images.collect(["named"], async () => []);
    expect(names().sort()).toEqual(["below-named", "named"]);
  });

  test("keeps an image that is taken during the search", async () => {
    await stack("taken", "unused");
    clock.jump(IMAGE_FRESH_MS + 1);
    await images.collect([], async () => {
      images.hold("taken")[Symbol.dispose]();
      return [];
    });
    expect(names()).toEqual(["taken"]);
  });

  test("removes a new image only after it was named once, or a while later", async () => {
    await stack("fresh");
    await images.collect([], async () => []);
    expect(names()).toEqual(["fresh"]);
    await images.collect(["fresh"], async () => []);
    await images.collect([], async () => []);
    expect(names()).toEqual([]);
    await stack("fresh");
    clock.jump(IMAGE_FRESH_MS + 1);
    await images.collect([], async () => []);
    expect(names()).toEqual([]);
  });
});
