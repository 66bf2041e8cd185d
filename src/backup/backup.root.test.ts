/** Backups of a data folder without a server, with restic, into another data folder over copies of the images. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { failureOf } from "../base/testing/failure.ts";
import { LONG } from "../base/testing/long.ts";
import { cachedImages, imagesMarkedBy, noteImage } from "../images/cached-images.ts";
import { Disks } from "../images/disk/disks.ts";
import { Images } from "../images/images.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Manifest } from "../sandbox/checkpoint/manifest.ts";
import { Volumes } from "../sandbox/volume/volume-disks.ts";
import { STORE_VERSION } from "../store/copy.ts";
import { openStore } from "../store/store.ts";
import { attempt, run } from "../system/command.ts";
import { DataFolder } from "../system/data-folder.ts";
import { SHARED_IDS } from "../system/id-range.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { Toolbox } from "../system/toolbox.ts";
import { backUp } from "./backup.ts";
import {
  backupsAmong,
  CONTENTS,
  type Contents,
  newestBackup,
  olderThan,
  PART_TAG,
  parseContents,
  requireComplete,
  STAGING_MOUNT,
} from "./contents.ts";
import { Repository } from "./repository.ts";
import { restore } from "./restore.ts";
import { makeQuickRepository, PASSWORD } from "./testing/quick-repository.ts";
import { verify } from "./verify.ts";

const TOOLS = new Toolbox(process.env.SANDLOT_CACHE ?? "/var/cache/sandlot");
const folder = mkdtempSync(join(tmpdir(), "sandlot-backup-"));
const target = join(folder, "repository");
const mounts = new Mounts();
const at = (name: string) => ({ dataFolder: join(folder, name), cacheFolder: join(folder, `${name}-cache`) });
const [old, there, torn] = [at("old"), at("new"), at("torn")];
/** Always the same, so that restic cuts it at the same places. */
const RANDOM = "openssl enc -aes-256-ctr -k fixed -nosalt -md sha256 < /dev/zero 2> /dev/null | head -c 8M";
let server: Parameters<typeof backUp>[0];

function repository(restic = TOOLS.restic): Repository {
  return new Repository(target, restic, join(folder, "restic-cache"), { RESTIC_PASSWORD: PASSWORD });
}

/** Bytes sent, as `sandlot backup` prints them. */
async function backedUp(): Promise<number> {
  const lines: string[] = [];
  expect(await backUp(server, repository(), { init: true, keepDays: 1 }, (line) => lines.push(line))).toBe(true);
  return Number(/([\d.]+) MiB were sent/.exec(lines.join())?.[1]);
}

/** Whether `sandlot verify` succeeds, and its last lines. */
async function verified(): Promise<[boolean, string]> {
  const lines: string[] = [];
  const isGood = await verify(repository(), (line) => lines.push(line));
  return [isGood, lines.join("\n")];
}

/** A stand-in for restic that runs a line of shell before it. */
function resticAfter(line: string): string[] {
  const path = join(folder, "stand-in");
  writeFileSync(path, `#!/bin/bash\n${line}\nexec ${TOOLS.restic.join(" ")} "$@"\n`);
  chmodSync(path, 0o755);
  return [path];
}

async function contentsOf(id: string | undefined) {
  return parseContents(await repository().text(id ?? "", CONTENTS), STORE_VERSION);
}

async function shell(line: string, cwd: string): Promise<string> {
  return await run(["bash", "-ec", line], { cwd });
}

async function writtenDisk(disks: Disks, images: Images, image: string, line: string): Promise<string> {
  const [place, name] = [join(folder, "place"), Disks.newName()];
  mkdirSync(place);
  const { root } = await disks.attach(name, 64, images.lowersOf(image), place, SHARED_IDS);
  await shell(line, root);
  for (const each of ["root", "disk"]) await run(["umount", join(place, each)]);
  await disks.releaseMounts(place);
  rmSync(place, { recursive: true });
  return disks.imageOf(name);
}

beforeAll(async () => {
  // Both servers, and the repository, in memory: otherwise these tests mostly wait for the disk.
  await run(["mount", "-t", "tmpfs", "tmpfs", folder]);
  const base = join(old.cacheFolder, "images/base");
  mkdirSync(join(base, "share/doc"), { recursive: true });
  for (const name of ["one", "gone", "share/doc/text"]) writeFileSync(join(base, name), `${name}\n`);
  linkSync(join(base, "one"), join(base, "other-name"));
  noteImage(old.cacheFolder, "base");
  const data = new DataFolder(old.dataFolder);
  data.makeRunFolder();
  server = { data, cacheFolder: old.cacheFolder, program: "1.2.3" };
  cachedImages(old.cacheFolder, data).mark(["base"]);
  for (const name of ["api-key", "link-secret"]) writeFileSync(join(data.path, name), name, { mode: 0o600 });
  await (await openStore(`sqlite://${data.storeFile}`, systemClock.now())).close();
  const disks = await Disks.open(data.path, mounts);
  const images = Images.reading(old.cacheFolder, disks);
  const wrote = "echo built > built; chmod 4755 built; truncate --size=3T hole";
  await images.add("layer", { parent: "base", disk: await writtenDisk(disks, images, "base", wrote) });
  mkdirSync(data.fetchedNotesFolder);
  writeFileSync(join(data.fetchedNotesFolder, "layer.json"), "{}");
  const checkpoints = new Checkpoints(disks.checkpointsFolder);
  const draft = checkpoints.begin("paused");
  const changed = `echo more >> one; rm gone; mv share/doc share/moved; echo new > new; ${RANDOM} > random`;
  await disks.clone(await writtenDisk(disks, images, "layer", changed), draft.disk);
  const memory = { guestFolder: join(old.cacheFolder, "guests/0123") };
  checkpoints.describe(draft, { format: 1, kind: { image: "layer" }, memory } as unknown as Manifest);
  await checkpoints.commit("paused", draft, false);
  const volumes = await Volumes.open(data, mounts);
  await volumes.create("cabinet", 64);
  {
    using held = await volumes.hold("cabinet");
    const deep = "for n in $(seq 60); do mkdir d$(printf %099d 0) && cd d*; done; echo deep > file";
    await shell(`echo x > a; ln a b; chown 1000:1000 a; truncate --size=3T hole; touch $'\\xff'; (${deep})`, held.path);
  }
  await volumes.close();
});

afterAll(async () => {
  mounts.close();
  for (const { dataFolder } of [old, there, torn, at("torn-restore"), at("torn-read")]) {
    if (DataFolder.isAt(dataFolder)) rmSync(new DataFolder(dataFolder).runFolder, { recursive: true, force: true });
    await attempt(["umount", join(dataFolder, "disks")]);
  }
  await run(["umount", "--lazy", folder]);
  rmSync(folder, { recursive: true });
});

describe("a backup", () => {
  test("makes no repository unless it is told to", async () => {
    expect(await failureOf(backUp(server, repository(), { init: false }, () => undefined))).toContain(
      "there is no repository",
    );
    expect(existsSync(target)).toBe(false);
    makeQuickRepository(target);
  });

  test("is missed by verify in a repository with only the remains of one", async () => {
    await repository().saveOutput("/file", ["echo", "remains"], [PART_TAG]);
    expect(await verified()).toEqual([false, expect.stringContaining("there is no backup to restore")]);
    await repository().forget((await repository().list()).map(({ id }) => id));
  });

  test("is complete; a second one sends few bytes, and meanwhile a third is refused", async () => {
    expect(await backedUp()).toBeWithin(8, 12);
    const second = backedUp();
    const third = backUp(server, repository(), { init: false, lockWaitMs: 1 }, () => undefined);
    expect(await failureOf(third)).toContain("another backup");
    // The names of a changed file are written on a new copy of the disk each time, in other blocks.
    expect(await second).toBeLessThan(4);
    expect(readdirSync(join(old.dataFolder, "disks"))).not.toContain("backup");
  });

  const failures = [
    ["restic could not read a file", '[[ "$*" == */run/sandlot/backup ]] && BROKEN && exit 3'],
    ["restic is killed before the end", '[[ "$*" == *--tag?backup* ]] && kill -9 $$'],
  ] as const;
  test.skipIf(!LONG).each(failures)("is none when %s", async (_, line) => {
    const before = backupsAmong(await repository().list());
    const real = `${TOOLS.restic.join(" ")} "$@" > /dev/null`;
    const failing = repository(resticAfter(line.replace("BROKEN", real)));
    expect(await failureOf(backUp(server, failing, { init: false }, () => undefined))).toContain(
      "restic could not backup",
    );
    expect(backupsAmong(await repository().list())).toEqual(before);
  });

  test("can be removed as a whole after restic was killed, as can the remains of failed ones, but not the newest", async () => {
    const before = await repository().list();
    const newest = backupsAmong(before).at(-1);
    const killed = repository().saveOutput("/file", ["bash", "-c", "kill -9 $PPID"], [PART_TAG]);
    expect(await failureOf(killed)).toContain("restic could not backup");
    expect(readdirSync(join(target, "locks"))).toHaveLength(1);
    expect(before.length).toBeGreaterThanOrEqual(8);
    await repository().forget(olderThan(Date.now() + 1000, before));
    const after = await repository().list();
    expect(after).toHaveLength(4);
    expect(backupsAmong(after)).toEqual(newest === undefined ? [] : [newest]);
    expect(await verified()).toEqual([true, expect.stringContaining("1 backups at")]);
    requireComplete(await contentsOf(newest?.id), after);
  });

  test("says what it could not read, and has everything else", async () => {
    const volume = join(old.dataFolder, "volumes/damaged");
    const checkpoint = join(old.dataFolder, "disks/checkpoints/damaged");
    const images = join(old.dataFolder, "disks/images");
    mkdirSync(join(images, "damaged"));
    for (const path of [volume, checkpoint]) {
      mkdirSync(path);
      writeFileSync(join(path, "disk.img"), "nothing");
    }
    writeFileSync(join(checkpoint, "manifest.json"), JSON.stringify({ kind: { image: "layer" } }));
    const forgetful = join(old.dataFolder, "disks/checkpoints/forgetful");
    await run(["cp", "--archive", join(old.dataFolder, "disks/checkpoints/paused"), forgetful]);
    writeFileSync(join(forgetful, "memory/pages"), "nothing");
    const pages = join(STAGING_MOUNT, "checkpoints/forgetful/memory/pages");
    const lines: string[] = [];
    // In the view of restic alone, a file of the kernel that ends every read with an error lies over the pages.
    const unreadable = `mount --bind /proc/self/mem ${pages} && exec "$@"`;
    const restic = resticAfter(
      `[[ "$*" == *${images}* ]] && rm -rf ${images}/damaged
      [ -e ${pages} ] && exec unshare --mount sh -c '${unreadable}' sh ${TOOLS.restic.join(" ")} "$@"`,
    );
    expect(await backUp(server, repository(restic), { init: false }, (line) => lines.push(line))).toBe(false);
    for (const path of [volume, checkpoint, forgetful]) rmSync(path, { recursive: true });
    const { missing, volumes } = await contentsOf(newestBackup(await repository().list())?.id);
    expect(missing.map(({ name }) => name)).toEqual([
      "checkpoint damaged",
      "image damaged",
      "volume damaged",
      "checkpoint forgetful",
    ]);
    expect(Object.keys(volumes)).toEqual(["cabinet"]);
    expect(lines.join("\n")).toContain("volume damaged is missing in this backup: ");
    const [isGood, shown] = await verified();
    expect({ isGood, shown }).toEqual({ isGood: false, shown: expect.stringContaining("  without volume damaged") });
  });
});

describe("a restore", () => {
  test("into a full folder, a private cache folder, or over another image of that name, changes nothing", async () => {
    mkdirSync(join(folder, "private"), { mode: 0o700 });
    const hidden = { dataFolder: join(folder, "none"), cacheFolder: join(folder, "private/cache") };
    const refused = restore(hidden, repository(), undefined, () => undefined);
    expect(await failureOf(refused)).toContain(`${folder}/private is closed to other users`);
    const other = at("other");
    mkdirSync(other.dataFolder);
    mkdirSync(join(other.cacheFolder, "images/base"), { recursive: true });
    expect(await failureOf(restore(other, repository(), undefined, () => undefined))).toContain("images/base differs");
    expect(readdirSync(other.dataFolder)).toEqual([]);
    expect(await failureOf(restore(old, repository(), undefined, () => undefined))).toContain("is not empty");
  });

  test("of a backup that has lost a part changes nothing", async () => {
    const [first] = backupsAmong(await repository().list());
    const { volumes } = await contentsOf(first?.id);
    rmSync(join(target, "snapshots", volumes.cabinet?.snapshot ?? ""));
    const lost = restore(torn, repository(), first?.id, () => undefined);
    expect(await failureOf(lost)).toContain("this backup is incomplete: 1 of its snapshots are gone");
    expect(existsSync(torn.dataFolder)).toBe(false);
  });

  const losses = [
    ["at its begin", "restore", () => "restore "],
    ["in the middle of a volume", "read", ({ volumes }: Contents) => `dump ${volumes.cabinet?.snapshot}`],
  ] as const;
  test.each(LONG ? losses : losses.slice(0, 1))(
    "that loses the repository %s leaves a folder that no server starts on",
    async (_, work, words) => {
      const contents = await contentsOf(newestBackup(await repository().list())?.id);
      const dies = resticAfter(`[[ "$*" == *"${words(contents)}"* ]] && exit 1`);
      const place = at(`torn-${work}`);
      const lost = restore(place, repository(dies), undefined, () => undefined);
      expect(await failureOf(lost)).toContain(`restic could not ${work}`);
      expect(() => new DataFolder(place.dataFolder).lock()).toThrow("has not finished");
    },
  );

  test("brings back disks over copies of their images, images, volumes and the store", async () => {
    const lines: string[] = [];
    // No tool can write the path of the deepest file.
    expect(await restore(there, repository(), undefined, (line) => lines.push(line))).toBe(false);
    expect(lines.join("\n")).toMatch(/files of volume cabinet could be restored: .*: File name too long/s);
    expect(lines.join("\n")).toMatch(
      /checkpoint damaged is missing in this backup: .*\n.*image damaged .*\n.*volume damaged is missing.*\n.*forgetful/,
    );
    const { dataFolder, cacheFolder } = there;
    expect(readFileSync(join(dataFolder, "fetched-images/layer.json"), "utf8")).toBe("{}");
    expect(readFileSync(join(dataFolder, "api-key"), "utf8")).toBe("api-key");
    await (await openStore(`sqlite://${join(dataFolder, "store.sqlite")}`, systemClock.now())).close();
    const disks = await Disks.open(dataFolder, mounts);
    const { folder: paused, manifest } = new Checkpoints(disks.checkpointsFolder).read("paused");
    expect(manifest.memory?.guestFolder).toBe(join(cacheFolder, "guests/0123"));
    const place = join(folder, "seen");
    mkdirSync(place);
    expect(imagesMarkedBy(cacheFolder, new DataFolder(dataFolder).tag)).toEqual(["base"]);
    const { root } = await disks.view(paused.disk, Images.reading(cacheFolder, disks).lowersOf("layer"), place);
    const seen = await shell("cat one other-name share/moved/text new; stat -c '%a %s' built hole; ls", root);
    await disks.releaseMounts(place);
    const [both, files] = ["one\nmore\n", ["built", "etc", "hole", "new", "one", "other-name", "random", "share"]];
    expect(seen).toBe(`${both}${both}share/doc/text\nnew\n4755 6\n644 3298534883328\n${files.join("\n")}\n`);
  });

  test("keeps owners, links, holes and any names in volumes", async () => {
    const data = new DataFolder(there.dataFolder);
    data.makeRunFolder();
    const volumes = await Volumes.open(data, mounts);
    {
      using held = await volumes.hold("cabinet");
      const line = "stat -c '%n %u %h %s' a b hole; ls -b | tail -1; du -sm . | cut -f1";
      const seen = await shell(line, held.path);
      expect(seen).toMatch(/^a 1000 2 2\nb 1000 2 2\nhole 0 1 3298534883328\n\\377\n[01]\n$/);
    }
    await volumes.close();
  });
});
