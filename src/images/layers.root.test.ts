/** Layers of a root, really mounted. Sandboxes on them: tests/functional/host. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import {
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attempt, run } from "../system/command.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, type IdForm } from "../system/id-range.ts";
import type { Lower } from "../system/mount/mount-job.ts";
import { mountPoints } from "../system/mount/mount-namespace.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { IMAGE_LEVELS_MAX } from "./images.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-layers-"));
const mounts = new Mounts();
/** A sandbox's own id range. */
const OWN = HOST_ID_FIRST + 5 * 65_536;

afterAll(() => {
  mounts.close();
  rmSync(folder, { recursive: true });
});

let at: string;
let count = 0;
beforeEach(() => {
  at = join(folder, String(count++));
  for (const name of ["", "disk", "root"]) mkdirSync(join(at, name));
});

/** The file of a disk whose two folders belong to these. */
async function diskOf(ids: IdForm, prepare = ":"): Promise<string> {
  const file = join(at, "disk.img");
  await run(["truncate", "--size=16M", file]);
  await run(["mkfs.ext4", "-q", "-F", file]);
  const owner = ids === "plain" ? { upper: 0, work: HOST_ROOT_ON_DISK } : { upper: HOST_ID_FIRST, work: 0 };
  await mounts.do({ kind: "loop", image: file, target: join(at, "disk"), type: "ext4", options: "" });
  for (const [name, id] of Object.entries(owner)) {
    mkdirSync(join(at, "disk", name));
    chownSync(join(at, "disk", name), id, id);
  }
  await run(["/bin/sh", "-ec", prepare], { cwd: join(at, "disk") });
  await flushDisk();
  await run(["umount", join(at, "disk")]);
  return file;
}

/** Another test may just be making a namespace of mounts, in which the disk stays mounted a moment longer. */
async function flushDisk(): Promise<void> {
  await attempt(["sync", "--file-system", join(at, "disk")]);
}

function lowerOf(name: string, ids: IdForm, owner: number): Lower {
  const path = join(at, name);
  mkdirSync(path);
  writeFileSync(join(path, name), name);
  for (const each of [path, join(path, name)]) chownSync(each, owner, owner);
  return { folder: path, ids };
}

/** Mounts a root, looks at it, and takes it away. */
async function withRoot<Result>(
  disk: string,
  lowers: readonly Lower[],
  look: (root: string) => Result,
  firstId: number = HOST_ID_FIRST,
) {
  const root = join(at, "root");
  await mounts.do({ kind: "disk", image: disk, target: join(at, "disk"), options: "", firstId });
  try {
    await mounts.do({ kind: "overlay", target: root, disk: join(at, "disk"), lowers, folder: at, firstId });
    return look(root);
  } finally {
    await flushDisk();
    for (const name of ["root", "disk"]) await attempt(["umount", join(at, name)]);
    expect(mountPoints().filter((point) => point.startsWith(folder))).toEqual([]);
    expect(readdirSync(at).filter((name) => name.startsWith("lower-"))).toEqual([]);
  }
}

test("owners are mapped in the root and plain on the disk, whatever form the layers below have", async () => {
  const lowers = [lowerOf("plain", "plain", 1000), lowerOf("shifted", "shifted", HOST_ID_FIRST + 1000)];
  const disk = await diskOf("plain");
  await withRoot(disk, lowers, (root) => {
    expect(["", "plain", "shifted"].map((name) => lstatSync(join(root, name)).uid - HOST_ID_FIRST)).toEqual([
      0, 1000, 1000,
    ]);
    chownSync(join(root, "shifted"), HOST_ID_FIRST + 7, HOST_ID_FIRST + 7);
    writeFileSync(join(root, "plain"), "changed");
  });
  await mounts.do({ kind: "look", image: disk, target: join(at, "disk"), type: "ext4" });
  const owners = ["shifted", "plain", ""].map((name) => lstatSync(join(at, "disk/upper", name)).uid);
  await run(["umount", join(at, "disk")]);
  expect(owners).toEqual([7, 1000, 0]);
});

test.each([OWN, 4_200_000_000])("the same layers and disks serve any range of ids: %d", async (first) => {
  const lowers = [lowerOf("plain", "plain", 1000), lowerOf("shifted", "shifted", HOST_ID_FIRST + 1000)];
  const ownersIn = (root: string) =>
    ["", "plain", "shifted"].map((name) => [lstatSync(join(root, name)).uid, lstatSync(join(root, name)).gid]);
  for (const ids of ["plain", "shifted"] as const) {
    const disk = await diskOf(ids);
    const owners = [first, first + 1000, first + 1000].map((id) => [id, id]);
    expect(await withRoot(disk, lowers, ownersIn, first)).toEqual(owners);
    await withRoot(disk, lowers, (root) => chownSync(join(root, "shifted"), first + 7, first + 7), first);
    expect(await withRoot(disk, lowers, (root) => lstatSync(join(root, "shifted")).uid)).toBe(HOST_ID_FIRST + 7);
    rmSync(disk);
  }
});

test("a disk with shifted ids is mounted unchanged, also over a layer with plain ids", async () => {
  const disk = await diskOf("shifted");
  const owners = await withRoot(disk, [lowerOf("plain", "plain", 5)], (root) => {
    writeFileSync(join(root, "plain"), "changed");
    return ["disk/upper", "disk/upper/plain", "root/plain"].map((name) => lstatSync(join(at, name)).uid);
  });
  expect(owners).toEqual([HOST_ID_FIRST, HOST_ID_FIRST + 5, HOST_ID_FIRST + 5]);
});

test("plain ids are rejected on kernels that cannot map them, and nothing stays mounted", async () => {
  const disk = await diskOf("plain");
  const mounted = mounts.do({ kind: "disk", image: disk, target: join(at, "disk"), options: "", firstId: undefined });
  await expect(mounted).rejects.toMatchObject({ status: 422, message: expect.stringContaining("Linux 5.19 or later") });
  expect(mountPoints().filter((point) => point.startsWith(folder))).toEqual([]);
});

// Their paths alone are longer than the page that mount(2) takes.
test.each<IdForm>(["plain", "shifted"])("the maximum number of layers is mounted: %s", async (ids) => {
  const names = Array.from({ length: IMAGE_LEVELS_MAX + 1 }, (_, index) => `${index}-${"x".repeat(200)}`);
  const lowers = names.map((name) => lowerOf(name, ids, ids === "plain" ? 0 : HOST_ID_FIRST));
  const found = await withRoot(await diskOf(ids), lowers, (root) =>
    names.map((name) => readFileSync(join(root, name), "utf8")),
  );
  expect(found).toEqual(names);
});

test("a root that the kernel mounts with fewer options than requested is rejected", async () => {
  // Nothing can be made in there, so the overlay has no place for its own files.
  const disk = await diskOf("plain", "chattr +i work");
  const mounted = withRoot(disk, [lowerOf("lower", "plain", 0)], () => undefined);
  await expect(mounted).rejects.toMatchObject({ status: 500, message: expect.stringContaining("without index") });
});

function descriptorsOfThis(): string[] {
  return readdirSync("/proc/self/fd").flatMap((name) => {
    try {
      return [readlinkSync(`/proc/self/fd/${name}`)];
    } catch {
      // It was that of this very look.
      return [];
    }
  });
}

test("the mount thread keeps no descriptor of mapped folders, also after a failed mount", async () => {
  // Of namespaces, and of mounts that are made or nowhere yet; this process has others, which come and go.
  const kept = /^(?:user:|anon_inode:\[fs|\/$)/;
  const descriptors = () => descriptorsOfThis().filter((link) => kept.test(link) || link.startsWith(at)).length;
  const lowers = [lowerOf("plain", "plain", 0), lowerOf("shifted", "shifted", HOST_ID_FIRST)];
  const disk = await diskOf("plain");
  await withRoot(disk, lowers, () => undefined, OWN);
  const before = descriptors();
  for (let times = 0; times < 5; times++) {
    await withRoot(disk, lowers, () => undefined, OWN);
    const missing = [...lowers, { folder: join(at, "missing"), ids: "plain" } as const];
    await expect(withRoot(disk, missing, () => undefined, OWN)).rejects.toThrow("ENOENT");
  }
  // What others in this process had open may have been closed meanwhile.
  expect(descriptors()).toBeLessThanOrEqual(before);
});

test("a fresh disk gets its own identity files, readable for all users", async () => {
  const image = await diskOf("plain");
  const etc = { owner: OWN, files: { hostname: "here\n" } };
  await mounts.do({ kind: "disk", image, target: join(at, "disk"), options: "", firstId: OWN, etc });
  const folder = join(at, "disk/upper/etc");
  expect(readFileSync(join(folder, "hostname"), "utf8")).toBe("here\n");
  const [ofFolder, ofFile] = [lstatSync(folder), lstatSync(join(folder, "hostname"))];
  expect([ofFolder.uid, ofFolder.gid, ofFolder.mode & 0o777]).toEqual([OWN, OWN, 0o755]);
  expect([ofFile.uid, ofFile.gid, ofFile.mode & 0o777]).toEqual([OWN, OWN, 0o644]);
  await mounts.do({ kind: "release", folder: at, places: ["root", "disk"] });
});

test("all mounts below a folder are released at once, also stacked ones; others stay", async () => {
  const other = `${at}-other`;
  for (const path of [other, join(other, "disk")]) mkdirSync(path);
  const tmpfs = async (target: string) => await mounts.do({ kind: "tmpfs", target, options: "size=1m" });
  await tmpfs(join(at, "root"));
  mkdirSync(join(at, "root/inner"));
  await tmpfs(join(at, "root/inner"));
  await tmpfs(join(other, "disk"));
  await mounts.do({ kind: "release", folder: at, places: ["root", "disk"] });
  expect(mountPoints().filter((path) => path.startsWith(at))).toEqual([join(other, "disk")]);
  expect(readdirSync(at)).toEqual([]);
  // There is nothing to release any more, which is as good.
  await mounts.do({ kind: "release", folder: at, places: ["root", "disk"] });
  await mounts.do({ kind: "detach", target: join(other, "disk") });
});
