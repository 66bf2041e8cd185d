/** Images of several servers in one cache. Marks and times, which guests share: guest-folders.test.ts. */
import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { DataFolder } from "../system/data-folder.ts";
import { cachedImages, cachedStack, chooseImage, dropImageMarks, noteImage, stackedOn } from "./cached-images.ts";
import { belowFile, imageFolder } from "./image-folder.ts";
import type { FolderUses, MarkedFolders } from "./marked-folders.ts";
import { CACHE_KEPT_MS } from "./marked-folders.ts";

const clock = new ManualClock(Date.parse("2026-01-01"));
const folder = folderOfTest("cached-images");
let cache: string;
let data: DataFolder[];
let first: MarkedFolders;
let second: MarkedFolders;

beforeEach(() => {
  cache = join(folder, "cache");
  data = ["first", "second"].map((name) => new DataFolder(join(folder, name)));
  [first, second] = data.map((each) => cachedImages(cache, each, clock)) as [MarkedFolders, MarkedFolders];
  make("debian-1");
  make("desktop-1", "debian-1");
  make("debian-2");
  make("desktop-2", "debian-2");
});

describe("an old image", () => {
  test("is removed a day after it was made, then the image below it, then the files beside them", async () => {
    await collect(first, "desktop-2");
    clock.jump(CACHE_KEPT_MS);
    await collect(first, "desktop-2");
    expect(there()).toEqual(["debian-1", "debian-2", "desktop-1", "desktop-2"]);
    clock.jump(1);
    await collect(first, "desktop-2");
    expect(there()).toEqual(["debian-1", "debian-2", "desktop-2"]);
    expect(chooseImage(cache, "desktop-1", clock)).toBe(false);
    await collect(first, "desktop-2");
    await collect(first, "desktop-2");
    expect(there()).toEqual(["debian-2", "desktop-2"]);
    expect(names().filter((name) => !name.startsWith("."))).toEqual([
      "debian-2",
      "debian-2.chosen",
      "desktop-2",
      "desktop-2.below",
      "desktop-2.chosen",
    ]);
  });

  test("stays for a day after the last server that needed it", async () => {
    first.mark(cachedStack(cache, "desktop-1"));
    clock.jump(10 * CACHE_KEPT_MS);
    for (const server of [second, first, second]) await collect(server, "desktop-2");
    expect(there()).toContain("desktop-1");
    clock.jump(CACHE_KEPT_MS + 1);
    await collect(second, "desktop-2");
    expect(there()).not.toContain("desktop-1");
  });

  test("stays while a stopped server has marked it, and after `down` while its checkpoints need it", async () => {
    const [{ tag }] = data as [DataFolder];
    first.mark(cachedStack(cache, "desktop-1"));
    clock.jump(10 * CACHE_KEPT_MS);
    await collect(second, "desktop-2");
    dropImageMarks(cache, tag, ["desktop-1", "debian-1"]);
    await collect(second, "desktop-2");
    expect(there()).toHaveLength(4);
    dropImageMarks(cache, tag);
    // By the clock of the machine, which is later than that of this test.
    age("desktop-1", "debian-1");
    for (const _ of [1, 2]) await collect(second, "desktop-2");
    expect(there()).toEqual(["debian-2", "desktop-2"]);
  });

  test("stays if an earlier version of Sandlot made it, or a kept image is stacked on it", async () => {
    rmSync(`${imageFolder(cache, "desktop-1")}.chosen`);
    clock.jump(CACHE_KEPT_MS + 1);
    for (const _ of [1, 2]) await collect(first, "desktop-2");
    expect(there()).toHaveLength(4);
    expect(chooseImage(cache, "desktop-1", clock)).toBe(true);
    expect(existsSync(`${imageFolder(cache, "desktop-1")}.chosen`)).toBe(false);
  });

  test("stays if a starting server chooses it while another server searches for unused ones", async () => {
    clock.jump(CACHE_KEPT_MS + 1);
    const own = async () => {
      expect(["desktop-1", "debian-1"].map((name) => chooseImage(cache, name, clock))).toEqual([true, true]);
      return ["desktop-2", "debian-2"];
    };
    await collect(first, "desktop-2", { own });
    expect(there()).toHaveLength(4);
  });

  test("is marked in time, or missing for a server that comes too late", async () => {
    clock.jump(CACHE_KEPT_MS + 1);
    expect(second.mark(["desktop-1"])).toEqual([]);
    await collect(first, "desktop-2");
    expect(there()).toContain("desktop-1");
    await collect(second, "desktop-2");
    clock.jump(CACHE_KEPT_MS + 1);
    await collect(first, "desktop-2");
    expect(second.mark(["desktop-1"])).toEqual(["desktop-1"]);
    expect(readdirSync(join(cache, "images/.in-use")).filter((name) => name.startsWith("desktop-1"))).toEqual([]);
  });
});

test("files of an interrupted set-up are removed a day after its begin, whatever the folder's time", async () => {
  noteImage(cache, "base-9", clock);
  const unfinished = `${imageFolder(cache, "base-9")}.unfinished`;
  mkdirSync(unfinished);
  utimesSync(unfinished, 0, 0);
  await collect(first, "desktop-2");
  expect(existsSync(unfinished)).toBe(true);
  clock.jump(CACHE_KEPT_MS + 1);
  // A set-up that makes it again.
  noteImage(cache, "base-9", clock);
  await collect(first, "desktop-2");
  expect(existsSync(unfinished)).toBe(true);
  clock.jump(CACHE_KEPT_MS + 1);
  for (const _ of [1, 2]) await collect(first, "desktop-2");
  expect(names().filter((name) => name.startsWith("base-9"))).toEqual([]);
});

test("files beside an image that is being made again are kept", async () => {
  age("desktop-1");
  await collect(first, "desktop-2");
  expect(names()).not.toContain("desktop-1");
  noteImage(cache, "desktop-1", clock);
  await collect(first, "desktop-2");
  expect(names()).toEqual(expect.arrayContaining(["desktop-1.below", "desktop-1.chosen"]));
});

test("a server killed during a removal leaves no incomplete image", async () => {
  const program = join(folder, "killed.ts");
  const [module, clockModule] = ["./cached-images.ts", "../base/testing/manual-clock.ts"].map((name) =>
    JSON.stringify(join(import.meta.dir, name)),
  );
  // It drops the mark of debian-2 after it has taken desktop-1 away, and dies then.
  writeFileSync(
    program,
    `import { cachedImages } from ${module};
    import { ManualClock } from ${clockModule};
    const images = cachedImages(${JSON.stringify(cache)}, ${JSON.stringify({ path: data[0]?.path, tag: data[0]?.tag })},
      new ManualClock(${clock.now()}));
    images.mark(["debian-2"]);
    await images.collect({
      own: async () => [],
      others: () => ["debian-1", "debian-2", "desktop-2"],
      release: () => process.kill(process.pid, "SIGKILL"),
    });`,
  );
  age("desktop-1");
  const child = Bun.spawn([process.execPath, program], { stdout: "inherit", stderr: "inherit" });
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  expect(there()).toEqual(["debian-1", "debian-2", "desktop-2"]);
  const leaving = names().filter((name) => name.endsWith(".leaving"));
  expect(leaving).toHaveLength(1);
  expect(readdirSync(join(cache, "images", leaving[0] ?? ""))).toEqual(["etc"]);
  expect(chooseImage(cache, "desktop-1", clock)).toBe(false);

  make("desktop-1", "debian-1");
  await collect(second, "desktop-2");
  expect(names().filter((name) => name.endsWith(".leaving"))).toEqual([]);
  expect(there()).toContain("desktop-1");
});

function make(name: string, below?: string): void {
  noteImage(cache, name, clock);
  mkdirSync(join(imageFolder(cache, name), "etc"), { recursive: true });
  if (below === undefined) return;
  writeFileSync(belowFile(cache, name), below);
  utimesSync(belowFile(cache, name), 0, 0);
}

/** This server needs this one, with what is below. */
function uses(needed: string, some: Partial<FolderUses> = {}): FolderUses {
  const others = some.others ?? (() => []);
  return {
    own: async () => cachedStack(cache, needed),
    release: () => Promise.resolve(),
    ...some,
    others: () => [...stackedOn(cache), ...others()],
  };
}

async function collect(server: MarkedFolders, needed: string, some: Partial<FolderUses> = {}): Promise<void> {
  await server.collect(uses(needed, some));
}

function age(...images: string[]): void {
  const at = (clock.now() - CACHE_KEPT_MS - 1) / 1000;
  for (const name of images) utimesSync(`${imageFolder(cache, name)}.chosen`, at, at);
}

function names(): string[] {
  return readdirSync(join(cache, "images")).sort();
}

function there(): string[] {
  return names().filter((name) => !name.includes("."));
}
