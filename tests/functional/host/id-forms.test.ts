/**
 * Owners of files on disks: plain ids where the kernel can map them, shifted ids where it cannot and on older disks.
 * The kernels that these tests run on can map them.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "../../../src/sandbox/allocation.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { HOST_ID_FIRST, ID_COUNT, type IdForm } from "../../../src/system/id-range.ts";
import { buildImage, requestOf } from "../../support/built-image.ts";
import { recordOf, shell } from "../../support/inside.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";
import { askService, startService } from "../../support/memory-service.ts";

const here = new MachineOfFile("id-forms");

async function reopen(options: { mapIds: boolean }): Promise<void> {
  await here.machine.close();
  await here.open(options);
}

/** The form of an image, and the owners of two of its files on the disk. */
function formOf(image: string): [IdForm, number, number] {
  const folder = join(here.machine.parts.disks.imagesFolder, image);
  const owner = (path: string) => lstatSync(join(folder, "layer", path)).uid;
  return [
    JSON.parse(readFileSync(join(folder, "image.json"), "utf8")).ids,
    owner("root/root"),
    owner("home/user/user"),
  ];
}

const WRITE = "echo root > /root/root; echo user > /home/user/user; chown user:user /home/user/user";

/** A user process that holds files which a checkpoint has to look up on the disk again. */
async function startHolder(id: string): Promise<string> {
  const setup = `
for each in ["/run/mine", "/dev/shm/mine"]: open(each, "w").close(); os.chown(each, 1000, 1000)
os.setgroups([]); os.setgid(1000); os.setuid(1000); os.chdir("/home/user")
terminal = os.openpty(); memory = os.memfd_create("mine"); segment = libc.shmget(0, 4096, 0o600)
def segment_owner():
    found = (ctypes.c_int * 64)(); assert libc.shmctl(segment, 2, found) == 0
    return found[1]
gone = open("gone", "w+"); gone.write("still here"); gone.flush(); os.unlink("gone")
copied = open("/home/user/user", "a+")
listener = socket.socket(socket.AF_UNIX); listener.bind("socket"); listener.listen()
one = socket.socket(socket.AF_UNIX); one.connect("socket"); other = listener.accept()[0]
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"/home/user/user", 0x2) > 0 and libc.inotify_add_watch(watch, b"/home/user", 0x100) > 0
def look():
    gone.seek(0); copied.seek(0); one.send(b"x")
    try: seen = len(os.read(watch, 4096)) > 0
    except BlockingIOError: seen = False
    fresh = socket.socket(socket.AF_UNIX); fresh.connect("socket"); listener.accept()[0].close(); fresh.close()
    ids = [os.fstat(gone.fileno()).st_uid, os.stat("user").st_uid, os.stat("socket").st_uid, os.stat("/root").st_uid]
    paths = [os.ttyname(terminal[1]), "/dev/shm/mine", "/run/mine"]
    ids += [os.fstat(memory).st_uid, segment_owner()] + [os.stat(each).st_uid for each in paths]
    return [gone.read(), copied.read(), other.recv(1), seen, ids, os.stat(paths[0]).st_gid]`;
  return await startService(here.machine, id, setup, "return look()");
}
const held = (text: string, seen: boolean) =>
  `['still here', '${text}', b'x', ${seen ? "True" : "False"}, [1000, 1000, 1000, 0, 1000, 1000, 1000, 1000, 1000], 5]`;

/** The contents and the owner of such a process survive a pause, and reach a copy. */
async function expectHeld(id: string, image: string, checkpoint: string): Promise<void> {
  await here.machine.pause(id, checkpoint, { memory: true });
  await here.machine.resume({ ...requestOf(image), id, checkpoint, memory: true });
  const copy = await here.machine.create({ ...requestOf(image), checkpoint });
  const [first, other] = [id, copy.id].map((each) => recordOf(here.data, each).firstId);
  expect(Math.min(Number(first), Number(other))).toBeGreaterThan(HOST_ID_FIRST);
  expect(first).not.toBe(other);
  for (const which of [id, copy.id]) {
    expect(await askService(here.machine, which)).toBe(held("user\\n", false));
    await shell(here.data, which, "echo more >> /home/user/user");
    expect(await askService(here.machine, which)).toBe(held("user\\nmore\\n", true));
    expect(await shell(here.data, which, "stat -c %U /home/user/user /root/root")).toBe("user\nroot");
  }
  await here.machine.destroy(copy.id);
}

describe("where the kernel maps owners", () => {
  test("new disks and images have plain ids", async () => {
    await buildImage(here, "plain", BASE_IMAGE, WRITE);
    expect(formOf("plain")).toEqual(["plain", 0, 1000]);
    const { id } = await here.machine.create(requestOf("plain"));
    expect(await startHolder(id)).toBe(held("user\\n", false));
    await expectHeld(id, "plain", "plain");
    await here.machine.destroy(id);
    await here.machine.removeCheckpoint("plain");
  });

  test("sandboxes that outlive a server keep their ids, and new ones get different ids", async () => {
    const { id } = await here.machine.create(requestOf(BASE_IMAGE));
    const { firstId, pid } = recordOf(here.data, id);
    // Left by a server that was killed before it wrote a record; the next one ends it when it adopts the others.
    const halfMade = join(here.data.sandboxesFolder, "halfmade");
    makeFolder(halfMade, { first: firstId + ID_COUNT });
    await reopen({ mapIds: true });
    const others = [await here.machine.create(requestOf(BASE_IMAGE)), await here.machine.create(requestOf(BASE_IMAGE))];
    const theirs = others.map((other) => recordOf(here.data, other.id).firstId);
    expect(theirs).not.toContain(firstId);
    expect(theirs).not.toContain(firstId + ID_COUNT);
    await here.machine.adopt({ sandboxes: [id, ...others.map((other) => other.id)], checkpoints: [] });
    expect(existsSync(halfMade)).toBe(false);
    expect(recordOf(here.data, id)).toMatchObject({ firstId, pid });
    expect(readFileSync(`/proc/${pid}/uid_map`, "utf8")).toContain(` ${firstId} `);
    for (const each of [id, ...others.map((other) => other.id)]) await here.machine.destroy(each);
  });

  test("sandboxes, checkpoints and images with shifted ids still work, also as a base for new ones", async () => {
    await reopen({ mapIds: false });
    await buildImage(here, "shifted", BASE_IMAGE, WRITE);
    expect(formOf("shifted").map((each) => typeof each === "number" && each > 65_536)).toEqual([false, true, true]);
    const [running, paused] = [
      await here.machine.create(requestOf("shifted")),
      await here.machine.create(requestOf("shifted")),
    ];
    for (const { id } of [running, paused]) expect(await startHolder(id)).toBe(held("user\\n", false));
    await here.machine.pause(paused.id, "paused", { memory: true });
    await here.machine.resume({ ...requestOf("shifted"), id: paused.id, checkpoint: "paused", memory: true });
    expect(await askService(here.machine, paused.id)).toBe(held("user\\n", false));
    expect(recordOf(here.data, paused.id).firstId).toBe(HOST_ID_FIRST);
    await here.machine.removeCheckpoint("paused");
    await here.machine.pause(paused.id, "paused", { memory: true });

    await reopen({ mapIds: true });
    const found = await here.machine.adopt({ sandboxes: [running.id], checkpoints: ["paused"] });
    expect(recordOf(here.data, running.id).firstId).toBe(HOST_ID_FIRST);
    expect(found).toEqual({ sandboxes: [running.id], checkpoints: ["paused"] });
    await expectHeld(running.id, "shifted", "later");
    await here.machine.resume({ ...requestOf("shifted"), id: paused.id, checkpoint: "paused", memory: true });
    expect(await askService(here.machine, paused.id)).toBe(held("user\\n", false));
    for (const { id } of [running, paused]) await here.machine.destroy(id);
    for (const name of ["paused", "later"]) await here.machine.removeCheckpoint(name);

    await buildImage(
      here,
      "above",
      "shifted",
      "echo above >> /home/user/user; touch /root/root; mv /home/user /home/moved; mv /home/moved /home/user",
    );
    expect(formOf("above")).toEqual(["plain", 0, 1000]);
    const { id } = await here.machine.create(requestOf("above"));
    const read = "cat /home/user/user; stat -c %U:%G /home/user /home/user/user /root/root /usr/bin/su";
    expect(await shell(here.data, id, read)).toBe("user\nabove\nuser:user\nuser:user\nroot:root\nroot:root");
    await here.machine.destroy(id);
  });
});
