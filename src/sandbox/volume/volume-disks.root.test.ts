/** Volumes on the real kernel: made, mounted once, released and removed, by servers that stop or are killed. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { attempt, run } from "../../system/command.ts";
import { HOST_ID_FIRST } from "../../system/id-range.ts";
import { deviceOf } from "../../system/mount/loop-devices.ts";
import { mountPoints } from "../../system/mount/mount-namespace.ts";
import { SIZE_MB, VolumesOfFile } from "./testing/volumes-of-file.ts";

const files = new VolumesOfFile();

function mountsOf(name: string): string[] {
  return mountPoints().filter((path) => path === join(files.mountFolder, name));
}

async function made(name: string): Promise<string> {
  await files.volumes.create(name, SIZE_MB);
  return name;
}

/** Simulates a killed server: nothing is released. */
async function forgotten(): Promise<void> {
  files.mounts.close();
  await files.open();
}

async function untilGone(name: string): Promise<void> {
  await untilTrue(() => mountsOf(name).length === 0);
}

describe("a volume", () => {
  test("is writable for every user, belongs to the mapped root, and takes no space before use", async () => {
    using held = await files.volumes.hold(await made("new"));
    const { uid, gid, mode } = statSync(held.path);
    expect([uid, gid, mode & 0o7777]).toEqual([HOST_ID_FIRST, HOST_ID_FIRST, 0o777]);
    expect(readdirSync(held.path)).toEqual([]);
    expect(statSync(files.imageOf("new")).blocks * 512).toBeLessThan((SIZE_MB * 1024 * 1024) / 8);
  });

  test("has a journal, and disables devices and set-uid bits", async () => {
    using held = await files.volumes.hold(await made("runtimes"));
    const line = readFileSync("/proc/self/mountinfo", "utf8")
      .split("\n")
      .find((each) => each.includes(` ${join(held.path, "..")} `));
    expect(line).toContain("nosuid,nodev");
    expect(await run(["dumpe2fs", "-h", files.imageOf("runtimes")])).toContain("has_journal");
  });

  test("keeps its content, and is full at its size and at its number of files", async () => {
    const name = await made("full");
    {
      using held = await files.volumes.hold(name);
      writeFileSync(join(held.path, "kept"), "kept");
      const filled = await attempt(["dd", "if=/dev/zero", `of=${held.path}/big`, "bs=1M", "count=1000"]);
      expect(filled.stderr).toContain("No space left");
      await run(["rm", join(held.path, "big")]);
      const many = `cd '${held.path}' && mkdir many && cd many && seq 1 20000 | xargs touch`;
      expect((await attempt(["/bin/sh", "-c", many])).stderr).toContain("No space left");
    }
    await files.close();
    await files.open();
    using held = await files.volumes.hold(name);
    expect(readFileSync(join(held.path, "kept"), "utf8")).toBe("kept");
  });

  test("is 404 if it does not exist, and keeps its content if it is made again", async () => {
    await expect(files.volumes.hold("nothing")).rejects.toMatchObject({ status: 404 });
    using held = await files.volumes.hold(await made("twice"));
    writeFileSync(join(held.path, "a"), "a");
    await made("twice");
    expect(readdirSync(held.path)).toEqual(["a"]);
  });
});

describe("is never mounted twice", () => {
  test("by many callers at once", async () => {
    const name = await made("many");
    const held = await Promise.all(Array.from({ length: 20 }, () => files.volumes.hold(name)));
    expect(mountsOf(name)).toHaveLength(1);
    for (const each of held) each[Symbol.dispose]();
  });

  test("after the server was killed: the next one finds it", async () => {
    const name = await made("found");
    await files.volumes.hold(name);
    await forgotten();
    using held = await files.volumes.hold(name);
    expect(mountsOf(name)).toHaveLength(1);
    writeFileSync(join(held.path, "x"), "x");
  });

  test("while a sandbox still uses it: the same filesystem is mounted again", async () => {
    const name = await made("outlived");
    const elsewhere = join(files.data.path, "elsewhere");
    mkdirSync(elsewhere);
    {
      using held = await files.volumes.hold(name);
      await run(["mount", "--bind", held.path, elsewhere]);
    }
    await files.close();
    expect(mountsOf(name)).toEqual([]);
    const device = deviceOf(files.imageOf(name));
    await files.open();
    {
      using held = await files.volumes.hold(name);
      expect(deviceOf(files.imageOf(name))).toBe(device);
      writeFileSync(join(held.path, "seen"), "by both");
      expect(readFileSync(join(elsewhere, "seen"), "utf8")).toBe("by both");
      expect(statSync(held.path).dev).toBe(statSync(elsewhere).dev);
    }
    await run(["umount", elsewhere]);
  });

  test("by other programs on this machine: the file is locked while it is attached", async () => {
    const name = await made("locked");
    const lock = ["flock", "--nonblock", files.imageOf(name), "true"];
    expect((await attempt(lock)).exitCode).toBe(0);
    await files.volumes.hold(name);
    await forgotten();
    expect((await attempt(lock)).exitCode).toBe(1);
  });
});

test("an unused volume is unmounted, and mounted again on use", async () => {
  await files.close();
  const clock = new ManualClock(0);
  await files.open(clock);
  const pass = () => clock.advance(3_600_000, async () => undefined);
  const name = await made("idle");
  {
    using held = await files.volumes.hold(name);
    writeFileSync(join(held.path, "x"), "x");
    await pass();
    expect(mountsOf(name)).toHaveLength(1);
  }
  await pass();
  await untilGone(name);
  using held = await files.volumes.hold(name);
  expect(readdirSync(held.path)).toEqual(["x"]);
});

test("after a crash of the machine the journal is replayed, and synced data exists", async () => {
  const name = await made("crashed");
  const copy = files.imageOf(await made("copy"));
  {
    using held = await files.volumes.hold(name);
    writeFileSync(join(held.path, "synced"), "x");
    await files.volumes.sync(name);
    // As the disk is at this moment: the filesystem is in use.
    await run(["cp", "--sparse=always", files.imageOf(name), copy]);
  }
  expect(await run(["dumpe2fs", "-h", copy])).toContain("needs_recovery");
  using held = await files.volumes.hold("copy");
  expect(readdirSync(held.path)).toEqual(["synced"]);
});

test("a volume damaged beyond repair is rejected, and others are not", async () => {
  const name = await made("damaged");
  await files.close();
  await run(["dd", "if=/dev/urandom", `of=${files.imageOf(name)}`, "bs=4096", "count=600", "conv=notrunc"]);
  await files.open();
  await expect(files.volumes.hold(name)).rejects.toMatchObject({
    status: 500,
    message: expect.stringContaining("damaged"),
  });
  using _other = await files.volumes.hold(await made("sound"));
});

describe("removal", () => {
  test("removes all of it, and succeeds for an unknown volume", async () => {
    const name = await made("gone");
    {
      using _held = await files.volumes.hold(name);
      await expect(files.volumes.remove(name)).rejects.toMatchObject({ status: 409 });
    }
    await files.volumes.remove(name);
    await files.volumes.remove(name);
    expect(mountsOf(name)).toEqual([]);
    expect(existsSync(join(files.data.volumesFolder, name))).toBe(false);
  });

  test("and creation that a kill interrupted are completed by the next start", async () => {
    const folder = files.data.volumesFolder;
    mkdirSync(join(folder, ".unfinished-half"));
    writeFileSync(join(folder, ".unfinished-half", "disk.img"), "half");
    await forgotten();
    expect(readdirSync(folder)).not.toContain(".unfinished-half");
    await made("half");
    expect(existsSync(join(folder, "half", "disk.img"))).toBe(true);
  });
});
