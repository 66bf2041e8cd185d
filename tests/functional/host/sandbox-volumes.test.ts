/** Volumes in sandboxes at the host: mounted, shared, and mounted again after a checkpoint. */
import { beforeAll, expect, test } from "bun:test";
import {
  appendFileSync,
  chownSync,
  existsSync,
  lstatSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { CreateSandbox } from "../../../src/contract/internal/host.ts";
import { HOST_ID_FIRST } from "../../../src/system/id-range.ts";
import { deviceOf } from "../../../src/system/mount/loop-devices.ts";
import { mountPointsIn } from "../../../src/system/mount/mount-namespace.ts";
import { ask, recordOf, shell, startPython } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";

const PORT = 5000;
const VOLUME = "shared";
const f = new MachineOfFile("volumes");
const mounted: CreateSandbox = { ...request, volumes: [{ volume: VOLUME, path: "/data/shared" }] };
let tree: string;
let checkpoints = 0;

/** Holds files of the volume open and reports the state of each. */
const HOLDER = `
import mmap, os, socket
os.chdir("/data/shared")
kept, log, gone = open("kept", "r+"), open("log", "a"), open("gone", "w+")
gone.write("still here"); gone.flush(); os.unlink("gone")
mapped = mmap.mmap(kept.fileno(), 4)
server = socket.create_server(("", ${PORT}))
while True:
    client, _ = server.accept()
    log.write("x"); log.flush(); gone.seek(0); kept.seek(0)
    client.send(f"{os.getcwd()} {kept.read()} {mapped[:].decode()} {gone.read()}".encode())
    client.close()
`;

beforeAll(async () => {
  await f.machine.createVolume(VOLUME, 64);
  tree = (await f.machine.parts.volumes.hold(VOLUME)).path;
});

/** As root of a sandbox would write it. */
function put(name: string, text: string): void {
  writeFileSync(join(tree, name), text);
  chownSync(join(tree, name), HOST_ID_FIRST, HOST_ID_FIRST);
}

async function holder(): Promise<string> {
  put("kept", "kept");
  const { id } = await f.machine.create(mounted);
  await startPython(f.machine, id, HOLDER);
  expect(await ask(f.machine, id, PORT)).toBe("/data/shared kept kept still here");
  return id;
}

async function paused(id: string, memory = true): Promise<string> {
  const name = `checkpoint-${++checkpoints}`;
  await f.machine.pause(id, name, { memory });
  return name;
}

const resume = (id: string, checkpoint: string, memory = true) =>
  f.machine.resume({ ...mounted, id, checkpoint, memory });

function mountLine(id: string): string | undefined {
  const lines = readFileSync(`/proc/${recordOf(f.data, id).pid}/mountinfo`, "utf8").split("\n");
  return lines.find((line) => mountPointsIn(line)[0] === "/data/shared");
}

test("sandboxes see each other's writes and owners; devices and set-uid bits are disabled", async () => {
  const [one, other] = await Promise.all([f.machine.create(mounted), f.machine.create(mounted)]);
  await shell(f.data, one.id, "su user -c 'echo hello > /data/shared/greeting'");
  expect(await shell(f.data, other.id, "cat /data/shared/greeting; stat -c %U /data/shared/greeting")).toBe(
    "hello\nuser",
  );
  await expect(shell(f.data, one.id, "mknod /data/shared/null c 1 3")).rejects.toThrow();
  expect(mountLine(one.id)).toContain("rw,nosuid,nodev");
  expect(await shell(f.data, one.id, "df --output=size -BM /data/shared | tail -1")).toMatch(/^ *(?:[1-5]\d|6[0-4])M$/);
  const firsts = [one, other].map(({ id }) => recordOf(f.data, id).firstId);
  await Promise.all([one, other].map(({ id }) => f.machine.destroy(id)));
  expect(readFileSync(join(tree, "greeting"), "utf8")).toBe("hello\n");
  // Each sandbox has its own ids; on the volume they are the same for all.
  expect(new Set([...firsts, HOST_ID_FIRST]).size).toBe(3);
  expect(lstatSync(join(tree, "greeting"))).toMatchObject({ uid: HOST_ID_FIRST + 1000, gid: HOST_ID_FIRST + 1000 });
});

test("files open on a volume survive a pause, also deleted and grown ones", async () => {
  const id = await holder();
  const checkpoint = await paused(id);
  appendFileSync(join(tree, "kept"), " and more");
  appendFileSync(join(tree, "log"), "of another");
  await resume(id, checkpoint);
  expect(await ask(f.machine, id, PORT)).toBe("/data/shared kept and more kept still here");
  expect(readFileSync(join(tree, "log"), "utf8")).toMatch(/of anotherx+$/);
  expect(await shell(f.data, id, "stat -c %U /data/shared/greeting /data/shared/log")).toBe("user\nroot");
  expect(mountLine(id)).toContain("rw,nosuid,nodev");
  // The image itself is as it was written: it can be resumed once more.
  const again = await paused(id);
  await resume(id, again);
  await f.machine.destroy(id);
});

test("a resume whose open file is missing or shorter names it; with the file, or without memory, it works", async () => {
  const id = await holder();
  const checkpoint = await paused(id);
  const message = (what: string) => expect.stringMatching(new RegExp(`^"/data/shared/kept".*${what}`));
  truncateSync(join(tree, "kept"), 2);
  await expect(resume(id, checkpoint)).rejects.toMatchObject({ status: 422, message: message("shorter") });
  rmSync(join(tree, "kept"));
  await expect(resume(id, checkpoint)).rejects.toMatchObject({ status: 422, message: message("is gone") });
  put("kept", "kept");
  await resume(id, checkpoint);
  expect(await ask(f.machine, id, PORT)).toContain("kept");
  const second = await paused(id);
  rmSync(join(tree, "kept"));
  await resume(id, second, false);
  expect(await shell(f.data, id, "cat /data/shared/greeting")).toBe("hello");
  await f.machine.destroy(id);
});

test("a resume whose lock another sandbox holds fails, and works after its release", async () => {
  const locker = `
import fcntl, os, socket
file = open("/data/shared/lock", "a+")
fcntl.flock(file, fcntl.LOCK_EX)
server = socket.create_server(("", ${PORT}))
while True:
    client, _ = server.accept()
    client.send(b"locked")
    client.close()
`;
  const start = async () => {
    const { id } = await f.machine.create(mounted);
    await startPython(f.machine, id, locker);
    expect(await ask(f.machine, id, PORT)).toBe("locked");
    return id;
  };
  const id = await start();
  const checkpoint = await paused(id);
  const other = await start();
  await expect(resume(id, checkpoint)).rejects.toMatchObject({ status: 422, message: expect.stringContaining("lock") });
  await f.machine.destroy(other);
  await resume(id, checkpoint);
  expect(await ask(f.machine, id, PORT)).toBe("locked");
  await f.machine.destroy(id);
});

test("a copy has the same volumes; with its memory no others, without it any", async () => {
  const id = await holder();
  await f.machine.snapshot(id, "copied", { memory: true });
  const { id: copy } = await f.machine.create({ ...mounted, checkpoint: "copied" });
  expect(await ask(f.machine, copy, PORT)).toContain("still here");
  await shell(f.data, copy, "echo copy > /data/shared/copy");
  expect(await shell(f.data, id, "cat /data/shared/copy")).toBe("copy");
  const refused = { status: 422, message: expect.stringContaining("volumes") };
  await expect(f.machine.create({ ...request, checkpoint: "copied" })).rejects.toMatchObject(refused);
  await f.machine.snapshot(id, "files", { memory: false });
  const { id: bare } = await f.machine.create({ ...request, checkpoint: "files" });
  expect(await shell(f.data, bare, "ls -A /data/shared")).toBe("");
  await Promise.all([id, copy, bare].map((each) => f.machine.destroy(each)));
});

test("a mount path that the template uses otherwise is rejected, and nothing is left of the sandbox", async () => {
  const { id } = await f.machine.create(request);
  await shell(f.data, id, "ln -s /etc /link && touch /file");
  await f.machine.snapshot(id, "links", { memory: false });
  await f.machine.destroy(id);
  for (const path of ["/file/below", "/link/data", "/link", "/file"]) {
    const create = f.machine.create({ ...request, checkpoint: "links", volumes: [{ volume: VOLUME, path }] });
    await expect(create).rejects.toMatchObject({ status: 422, message: expect.stringContaining(`"${path}"`) });
  }
  const unknown = f.machine.create({ ...request, volumes: [{ volume: "nothing", path: "/data" }] });
  await expect(unknown).rejects.toMatchObject({ status: 422 });
});

test("a sandbox keeps its volume after the server unmounts it, and the last one frees it", async () => {
  await f.machine.createVolume("own", 64);
  const { id } = await f.machine.create({ ...request, volumes: [{ volume: "own", path: "/mnt" }] });
  await f.machine.close();
  await f.open();
  await f.machine.adopt({ sandboxes: [id], checkpoints: [] });
  tree = (await f.machine.parts.volumes.hold(VOLUME)).path;
  await shell(f.data, id, "echo kept > /mnt/kept");
  const image = join(f.dataFolder, "volumes/own/disk.img");
  const device = deviceOf(image);
  {
    using held = await f.machine.parts.volumes.hold("own");
    expect(readFileSync(join(held.path, "kept"), "utf8")).toBe("kept\n");
    expect(deviceOf(image)).toBe(device);
    expect(statSync(held.path).isDirectory()).toBe(true);
  }
  await f.machine.destroy(id);
  await f.machine.removeVolume("own");
  expect(existsSync(image)).toBe(false);
});
