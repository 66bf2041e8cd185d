/** Backups of a data folder without a server, with restic, into another data folder over copies of the images. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { cachedImages, noteImage } from "../images/cached-images.ts";
import { Disks } from "../images/disk/disks.ts";
import { Images } from "../images/images.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Manifest } from "../sandbox/checkpoint/manifest.ts";
import { Volumes } from "../sandbox/volume/volumes.ts";
import { openStore } from "../store/store.ts";
import { attempt, run } from "../system/command.ts";
import { DataFolder } from "../system/data-folder.ts";
import { SHARED_IDS } from "../system/id-range.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { Toolbox } from "../system/toolbox.ts";
import { backUp } from "./backup.ts";
import { BACKUP } from "./contents.ts";
import { Repository } from "./repository.ts";
import { restore } from "./restore.ts";

const TOOLS = new Toolbox(process.env.SANDLOT_CACHE ?? "/var/cache/sandlot");
const folder = mkdtempSync(join(tmpdir(), "sandlot-backup-"));
const target = join(folder, "repository");
const mounts = new Mounts();
const at = (name: string) => ({ dataFolder: join(folder, name), cacheFolder: join(folder, `${name}-cache`) });
const [old, there] = [at("old"), at("new")];
let server: Parameters<typeof backUp>[0];

function repository(restic = TOOLS.restic): Repository {
  return new Repository(target, restic, join(folder, "restic-cache"), { RESTIC_PASSWORD: "secret" });
}

/** Bytes sent, as `sandlot backup` prints them. */
async function backedUp(): Promise<number> {
  const lines: string[] = [];
  await backUp(server, repository(), (line) => lines.push(line));
  return Number(/([\d.]+) MiB were sent/.exec(lines.join())?.[1]);
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
  const checkpoints = new Checkpoints(disks.checkpointsFolder);
  const draft = checkpoints.begin("paused");
  const changed =
    "echo more >> one; rm gone; mv share/doc share/moved; echo new > new; head -c 4M /dev/urandom > random";
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
  for (const { dataFolder } of [old, there]) {
    if (DataFolder.isAt(dataFolder)) rmSync(new DataFolder(dataFolder).runFolder, { recursive: true, force: true });
    await attempt(["umount", join(dataFolder, "disks")]);
  }
  rmSync(folder, { recursive: true });
});

describe("a backup", () => {
  test("is complete, and a second one of the same data sends few bytes", async () => {
    expect(await backedUp()).toBeWithin(4, 6);
    // The names of a changed file are written on a new copy of the disk each time, in other blocks.
    expect(await backedUp()).toBeLessThan(2);
    expect(readdirSync(join(old.dataFolder, "disks"))).not.toContain("backup");
  });

  test("that fails leaves the earlier ones as they were", async () => {
    const before = await repository().list(BACKUP);
    // A stand-in for restic that dies where it would write the main snapshot.
    const broken = join(folder, "broken");
    const lines = `#!/bin/bash\n[[ "$*" == *--tag?backup* ]] && kill -9 $$\nexec ${TOOLS.restic.join(" ")} "\${@:4}"\n`;
    writeFileSync(broken, lines);
    chmodSync(broken, 0o755);
    const failing = backUp(server, repository([broken, "", "", ""]), () => undefined);
    await expect(failing).rejects.toThrow("restic could not backup");
    expect(await repository().list(BACKUP)).toEqual(before);
  });

  test("is refused while another one runs", async () => {
    using _lock = server.data.lockImages();
    expect(server.data.lockImages()).toBeUndefined();
  });
});

describe("a restore", () => {
  test("into a folder that is not empty, or over another image of that name, changes nothing", async () => {
    const other = at("other");
    mkdirSync(other.dataFolder);
    mkdirSync(join(other.cacheFolder, "images/base"), { recursive: true });
    await expect(restore(other, repository(), undefined, () => undefined)).rejects.toThrow("images/base differs");
    expect(readdirSync(other.dataFolder)).toEqual([]);
    await expect(restore(old, repository(), undefined, () => undefined)).rejects.toThrow("is not empty");
  });

  test("brings back disks over copies of their images, images, volumes and the store", async () => {
    const lines: string[] = [];
    // No tool can write the path of the deepest file.
    expect(await restore(there, repository(), undefined, (line) => lines.push(line))).toBe(false);
    expect(lines.join("\n")).toMatch(/files of volume cabinet could be restored: .*: File name too long/s);
    const { dataFolder, cacheFolder } = there;
    expect(readFileSync(join(dataFolder, "api-key"), "utf8")).toBe("api-key");
    await (await openStore(`sqlite://${join(dataFolder, "store.sqlite")}`, systemClock.now())).close();
    const disks = await Disks.open(dataFolder, mounts);
    const { folder: paused, manifest } = new Checkpoints(disks.checkpointsFolder).read("paused");
    expect(manifest.memory?.guestFolder).toBe(join(cacheFolder, "guests/0123"));
    const place = join(folder, "seen");
    mkdirSync(place);
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
