/** Sandboxes on images of several layers, as made by builds that start from other builds. */
import { beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { IMAGE_LEVELS_MAX } from "../../../src/images/images.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { run } from "../../../src/system/command.ts";
import { buildImage, requestOf, withDiskAfter } from "../../support/built-image.ts";
import { shell } from "../../support/inside.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";
import { askService, startService } from "../../support/memory-service.ts";

const here = new MachineOfFile("stacked-images");

/** Each line of a script of the image below the next. */
const LOW = `
mkdir -p /data/opaque /data/moved/inner /data/kept
echo low > /data/whiteout; echo low > /data/opaque/old; echo low > /data/moved/inner/file; echo low > /data/kept/low
echo linked > /data/first; ln /data/first /data/second
mkdir -m 0750 /data/far; chown user /data/far; ln /data/second "$(printf '/data/far/third \\n\\377')"
echo whole > /data/whole; ln /data/whole /data/whole-2
truncate -s 1G /data/sparse; mkfifo -m 0640 /data/fifo
printf '\\377' > "$(printf '/data/odd \\n\\377')"
install -o user -g user -m 4755 /bin/true /data/set-id; cp /bin/grep /data/capable
touch -d @1000000000.123456789 /data/dated
python3 - <<'END'
import os, socket
os.setxattr("/data/kept", "user.colour", b"blue")
for path in "/data/set-id", "/data/capable": os.setxattr(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
socket.socket(socket.AF_UNIX).bind("/data/socket")
END
`;
const MIDDLE = `
rm /data/whiteout /etc/debian_version
rm -r /data/opaque; mkdir /data/opaque; echo middle > /data/opaque/new
mv /data/moved /data/renamed; echo middle > /data/renamed/beside
echo middle > /data/kept/middle; echo more >> /data/first
mv /usr/share/doc /usr/share/papers
`;
const TOP = `
mv /data/renamed /data/again; echo top > /data/again/inner/added
echo top > /data/whiteout; echo top > /data/kept/top; rm -r /usr/share/papers/bash
`;

beforeAll(async () => {
  await buildImage(here, "low", BASE_IMAGE, LOW);
  await buildImage(here, "middle", "low", MIDDLE);
  await buildImage(here, "top", "middle", TOP);
});

/** The first answer of a process that watches this file and folder: the events so far. */
async function startWatch(id: string): Promise<string> {
  const setup = `
fd = libc.inotify_init1(os.O_NONBLOCK)
for path in (b"/data/again/inner/file", b"/data/kept"): assert libc.inotify_add_watch(fd, path, 0x102) > 0
def told():
    try: return len(os.read(fd, 4096)) > 0
    except BlockingIOError: return False`;
  return await startService(here.machine, id, setup, "return told()");
}

describe("a sandbox on a stack of three builds", () => {
  test("sees files of every layer with all their attributes", async () => {
    const { id } = await here.machine.create(requestOf("top"));
    const read = (line: string) => shell(here.data, id, line);
    expect(await read("cat /data/whiteout; ls /data/opaque /data/kept")).toBe(
      "top\n/data/kept:\nlow\nmiddle\ntop\n\n/data/opaque:\nnew",
    );
    expect(await read("ls -R /data/again; ls -d /data/moved /data/renamed /etc/debian_version 2>&1 | wc -l")).toBe(
      "/data/again:\nbeside\ninner\n\n/data/again/inner:\nadded\nfile\n3",
    );
    expect(await read("ls -d /usr/share/doc /usr/share/papers/bash 2>&1 | wc -l; ls -d /usr/share/papers/sudo")).toBe(
      "2\n/usr/share/papers/sudo",
    );
    const links =
      "stat -c %h:%i /data/first /data/second /data/far/* | uniq | wc -l; stat -c %h /data/first /data/whole";
    expect(await read(`cat /data/second; ${links}; stat -c %U:%a /data/far`)).toBe("linked\nmore\n1\n3\n2\nuser:750");
    expect(await read("stat -c '%n %s %b' /data/sparse; stat -c '%A %U' /data/fifo /data/socket /data/set-id")).toBe(
      "/data/sparse 1073741824 0\nprw-r----- root\nsrwxr-xr-x root\n-rwsr-xr-x user",
    );
    expect(
      await read("stat -c %.9Y /data/dated; cat /data/odd* | xxd -p 2>/dev/null || cat /data/odd* | od -An -tx1"),
    ).toBe("1000000000.123456789\n ff");
    const attributes = `
import os
print(os.getxattr("/data/kept", "user.colour"), os.getxattr("/data/set-id", "security.capability").hex())`;
    expect(await read(`python3 -c '${attributes}'`)).toBe("b'blue' 0100000200040000000000000000000000000000");
    const as = (user: number) => `setpriv --reuid ${user} --clear-groups`;
    // A program that may bind low ports, whichever user starts it.
    expect(await read(`${as(1000)} /data/capable CapEff /proc/self/status`)).toBe("CapEff:\t0000000000000400");
    expect(await read(`${as(1000)} grep CapEff /proc/self/status`)).toBe("CapEff:\t0000000000000000");
    expect(await read(`${as(1001)} /data/set-id; ${as(1001)} python3 -c 'import os; os.stat("/data/set-id")'`)).toBe(
      "",
    );
    await here.machine.destroy(id);
  });

  test("keeps watches, links and renamed folders through a pause and in a copy", async () => {
    const { id } = await here.machine.create(requestOf("top"));
    await shell(here.data, id, "mv /data/again /data/last; mv /data/last /data/again; echo mine >> /data/second");
    expect(await startWatch(id)).toBe("False");
    await here.machine.pause(id, "stack", { memory: true });
    await here.machine.resume({ ...requestOf("top"), id, checkpoint: "stack", memory: true });
    const copy = await here.machine.create({ ...requestOf("top"), checkpoint: "stack" });
    for (const [which, line] of [
      [id, "echo x >> /data/again/inner/file"],
      [copy.id, "touch /data/kept/new"],
    ] as const) {
      expect(await askService(here.machine, which)).toBe("False");
      await shell(here.data, which, line);
      expect(await askService(here.machine, which)).toBe("True");
      expect(await shell(here.data, which, "cat /data/first")).toBe("linked\nmore\nmine");
    }
    const cold = await here.machine.create({ ...requestOf("top"), checkpoint: "stack" });
    expect(await shell(here.data, cold.id, "ls /data/again/inner")).toBe("added\nfile");
    for (const each of [id, copy.id, cold.id]) await here.machine.destroy(each);
    await here.machine.removeCheckpoint("stack");
  });
});

test("a sandbox on the deepest possible stack of builds is paused and resumed", async () => {
  const levels = Array.from({ length: IMAGE_LEVELS_MAX }, (_, index) => `level-${index}`);
  const top = levels.at(-1) ?? "";
  await withDiskAfter(here, BASE_IMAGE, "echo level > /level; rm /etc/debian_version", async (disk) => {
    for (const [index, name] of levels.entries()) {
      await here.machine.parts.images.add(name, { parent: levels[index - 1] ?? BASE_IMAGE, disk });
    }
    const above = here.machine.parts.images.add("above", { parent: top, disk });
    await expect(above).rejects.toMatchObject({ status: 400, message: expect.stringContaining("FIX: ") });
  });
  const { id } = await here.machine.create(requestOf(top));
  await startService(here.machine, id, "", "return open('/level').read()");
  await here.machine.pause(id, "deep", { memory: true });
  await here.machine.resume({ ...requestOf(top), id, checkpoint: "deep", memory: true });
  expect(await askService(here.machine, id)).toBe("level\n");
  expect(await shell(here.data, id, "echo more >> /level; cat /level; ls /etc/debian_version 2>&1 | wc -l")).toBe(
    "level\nmore\n1",
  );
  await here.machine.destroy(id);
  await here.machine.removeCheckpoint("deep");
  // On a slow machine, images that have never been named are not new any more.
  await here.machine.collectImages(["low", "middle", "top", ...levels]);
});

describe("two sandboxes of one image", () => {
  const MIB = 1024 * 1024;
  const cacheOf = async (id: string) => (await here.machine.measure([id]))[id]?.memCache ?? 0;

  test("share its files in the page cache", async () => {
    await buildImage(here, "large", "top", "head -c 64M /dev/urandom > /large");
    // Written just now, it is in memory already.
    const file = join(here.machine.parts.disks.imagesFolder, "large/layer/large");
    await run(["dd", `if=${file}`, "iflag=nocache", "count=0"]);
    const grown: number[] = [];
    const both = [await here.machine.create(requestOf("large")), await here.machine.create(requestOf("large"))];
    for (const { id } of both) {
      const before = await cacheOf(id);
      await startService(here.machine, id, "open('/large', 'rb').read()", "return 'read'");
      grown.push((await cacheOf(id)) - before);
    }
    // The kernel charges a page to its first reader.
    expect(grown[0]).toBeGreaterThan(60 * MIB);
    expect(grown[1]).toBeLessThan(20 * MIB);
    for (const { id } of both) await here.machine.destroy(id);
  });
});

describe("images that are collected", () => {
  const names = async (...keep: string[]) => (await here.machine.collectImages(keep)).images.map(({ name }) => name);

  test("never include those of a sandbox that is being paused, resumed, copied or started", async () => {
    await buildImage(here, "busy", "top", "echo busy > /whose");
    const all = ["low", "middle", "top", "large"];
    await here.machine.collectImages([...all, "busy"]);
    let isOver = false;
    let rounds = 0;
    const collecting = (async () => {
      for (; !isOver; rounds++) {
        expect(await names(...all)).toContain("busy");
        await Bun.sleep(1);
      }
    })();
    collecting.catch(() => undefined);
    let { id } = await here.machine.create(requestOf("busy"));
    for (const checkpoint of ["turn-1", "turn-2"]) {
      await here.machine.pause(id, checkpoint, { memory: true });
      await here.machine.resume({ ...requestOf("busy"), id, checkpoint, memory: true });
      await here.machine.removeCheckpoint(checkpoint);
      const next = await here.machine.create(requestOf("busy"));
      await here.machine.destroy(id);
      id = next.id;
    }
    expect(await shell(here.data, id, "cat /whose")).toBe("busy");
    isOver = true;
    await collecting;
    expect(rounds).toBeGreaterThan(10);
    await here.machine.destroy(id);
    expect(await names(...all)).not.toContain("busy");
  });

  test("never include those of a sandbox or a checkpoint, which keep working", async () => {
    await buildImage(here, "of-sandbox", "top", "echo sandbox > /whose");
    await buildImage(here, "of-checkpoint", "top", "echo checkpoint > /whose");
    const all = ["low", "middle", "top", "of-sandbox", "of-checkpoint"];
    // Named once, they are not new any more.
    expect(await names(...all, "large")).toContain("large");
    const { id } = await here.machine.create(requestOf("of-sandbox"));
    const paused = await here.machine.create(requestOf("of-checkpoint"));
    await here.machine.pause(paused.id, "collect", { memory: true });
    expect((await names()).sort()).toEqual(all.toSorted());
    await here.machine.resume({ ...requestOf("of-checkpoint"), id: paused.id, checkpoint: "collect", memory: true });
    expect(await shell(here.data, paused.id, "cat /whose")).toBe("checkpoint");
    await here.machine.destroy(id);
    await here.machine.destroy(paused.id);
    expect((await names("low")).sort()).toEqual(["low", "middle", "of-checkpoint", "top"]);
    await here.machine.removeCheckpoint("collect");
    expect(await names()).toEqual([]);
    await expect(here.machine.create(requestOf("top"))).rejects.toMatchObject({
      status: 404,
      message: 'the image "top" is not on this machine',
    });
  });
});
