/** Disk space of builds and sandboxes: bounded, and nothing is left when there is no room. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DISK_FREE_MIN_BYTES } from "../../../src/images/disk/disks.ts";
import { DISK_BYTES_PER_FILE, DISK_SMALL_MB } from "../../../src/images/disk/prototypes.ts";
import { SmallFilesystem } from "../../chaos/small-filesystem.ts";
import { build, requestOf, requireReady, run } from "../../support/building.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { newDataFolder } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const MIB = 1024 ** 2;
const LAYERS_MAX = 40 * MIB;
const few = new MachineOfFile("few-layers", { builds: { layersMaxBytes: LAYERS_MAX } });

test("the most recently used layers stay up to the limit, and unused images are removed", async () => {
  const writing = (name: string) => requestOf([run(`head -c 10M /dev/urandom > ${name}`)]);
  const isCached = async (name: string) => {
    const { entries, outcome } = await build(few.machine, writing(name));
    requireReady(outcome);
    return entries[0]?.message.includes("CACHED") ?? false;
  };
  for (const name of ["one", "two"]) expect(await isCached(name)).toBe(false);
  // Now the second is the older one.
  expect(await isCached("one")).toBe(true);
  for (const name of ["three", "four"]) expect(await isCached(name)).toBe(false);
  expect(await isCached("one")).toBe(true);
  const { images, layerBytes } = await few.machine.collectImages([]);
  expect(layerBytes).toBeGreaterThan(10 * MIB);
  expect(layerBytes).toBeLessThanOrEqual(LAYERS_MAX);
  expect(await isCached("two")).toBe(false);
  expect(images.every(({ bytes }) => bytes >= 10 * MIB)).toBe(true);
  expect(await settledCensus(few.dataFolder, NOTHING)).toEqual(NOTHING);
});

test("a disk is full when it has its maximum number of files", async () => {
  const kind = { ...request.kind, diskSizeMB: DISK_SMALL_MB };
  const { id } = await few.machine.create({ ...request, kind });
  const most = (DISK_SMALL_MB * MIB) / DISK_BYTES_PER_FILE;
  const make = `mkdir /many && cd /many && seq 1 ${most} | xargs touch 2>&1 | grep -o 'No space left on device' | head -1`;
  expect(await shell(few.data, id, make)).toBe("No space left on device");
  expect(Number(await shell(few.data, id, "df --output=avail -BM / | tail -1 | tr -d M"))).toBeGreaterThan(100);
  await few.machine.destroy(id);
});

test("a sandbox whose disk cannot be limited does not start, and leaves nothing behind", async () => {
  const { disks } = few.machine.parts;
  // A value that the kernel does not accept as a number.
  disks.bytesPerSecond = Number.NaN;
  try {
    await expect(few.machine.create(request)).rejects.toThrow();
  } finally {
    disks.bytesPerSecond = undefined;
  }
  expect(await settledCensus(few.dataFolder, NOTHING)).toEqual(NOTHING);
});

describe("on a disk that is nearly full", () => {
  let disk: SmallFilesystem;
  beforeAll(async () => {
    disk = await SmallFilesystem.make(newDataFolder("full"), "btrfs", 3 * DISK_FREE_MIN_BYTES);
  });
  const full = new MachineOfFile("full/build");
  afterAll(() => disk.remove());

  test("a build without space for its result fails and leaves nothing", async () => {
    await disk.fill(DISK_FREE_MIN_BYTES + 60 * MIB);
    const steps = [run("head -c 100M /dev/urandom > file")];
    const { outcome } = await build(full.machine, requestOf(steps));
    expect(outcome).toMatchObject({ isReady: false, message: expect.stringMatching(/MiB are free on the disk/) });
    expect(full.machine.parts.images.list()).toEqual([]);
    expect(await settledCensus(full.dataFolder, NOTHING)).toEqual(NOTHING);
    await disk.empty();
    // The filesystem takes a moment to count freed space.
    await until("there is room again", () => disk.freeBytes > DISK_FREE_MIN_BYTES + 400 * MIB);
    requireReady((await build(full.machine, requestOf(steps))).outcome);
  });
});
