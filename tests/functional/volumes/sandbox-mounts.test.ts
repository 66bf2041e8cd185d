/** Volumes in sandboxes, through the official client: mounted, shared, kept, and not deleted while in use. */
import { expect, test } from "bun:test";
import { Sandbox, type Volume } from "e2b";
import { untilTrue } from "../../../src/base/testing/until.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { VolumesOfServer } from "../../support/volumes.ts";

const server = sharedServer();
const volumes = new VolumesOfServer(server);

async function mounted(volume: Volume, path = "/mnt/data"): Promise<Sandbox> {
  return await Sandbox.create({ ...server().options, volumeMounts: { [path]: volume } });
}

async function output(sandbox: Sandbox, command: string): Promise<string> {
  return (await sandbox.commands.run(command)).stdout.trim();
}

test("volumes are mounted at several paths for every user and shared between sandboxes", async () => {
  const [one, two] = [await volumes.make(), await volumes.make()];
  await one.writeFile("/from-outside", "hello", volumes.at);
  const volumeMounts = { "/mnt/one": one, "/srv/deep/two": two.name };
  const sandbox = await Sandbox.create({ ...server().options, volumeMounts });
  expect((await sandbox.getInfo()).volumeMounts).toEqual([
    { name: one.name, path: "/mnt/one" },
    { name: two.name, path: "/srv/deep/two" },
  ]);
  expect(await sandbox.files.read("/mnt/one/from-outside")).toBe("hello");
  await sandbox.files.write("/srv/deep/two/from-inside", "world");
  expect(await two.getInfo("/from-inside", volumes.at)).toMatchObject({ size: 5, uid: 1000 });
  const other = await mounted(two);
  expect(await output(other, "cat /mnt/data/from-inside; echo more >> /mnt/data/from-inside")).toBe("world");
  expect(await sandbox.files.read("/srv/deep/two/from-inside")).toBe("worldmore\n");
  await Promise.all([sandbox.kill(), other.kill()]);
  expect(await two.readFile("/from-inside", volumes.at)).toBe("worldmore\n");
});

test("volumes and files open on them survive pause, resume, fork and snapshot", async () => {
  const volume = await volumes.make();
  const sandbox = await mounted(volume);
  await sandbox.commands.run("cd /mnt/data && exec 3>>log && while sleep 0.05; do echo tick >&3; done", {
    background: true,
    timeoutMs: 0,
  });
  const length = async () => (await volume.readFile("/log", volumes.at)).length;
  const goesOn = async () => {
    const before = await length();
    await untilTrue(async () => (await length()) > before);
  };
  await untilTrue(async () => await volume.exists("/log", volumes.at));
  await sandbox.pause();
  const paused = await length();
  expect((await Sandbox.getInfo(sandbox.sandboxId, server().options)).volumeMounts).toHaveLength(1);
  await volume.writeFile("/meanwhile", "x", volumes.at);
  expect(await length()).toBe(paused);
  const resumed = await Sandbox.connect(sandbox.sandboxId, server().options);
  await goesOn();
  expect(await resumed.files.read("/mnt/data/meanwhile")).toBe("x");

  const { snapshotId } = await resumed.createSnapshot();
  await resumed.kill();
  const copy = await Sandbox.create(snapshotId, server().options);
  expect((await copy.getInfo()).volumeMounts).toEqual([{ name: volume.name, path: "/mnt/data" }]);
  await goesOn();
  await copy.files.write("/mnt/data/of-the-copy", "y");
  expect(await volume.exists("/of-the-copy", volumes.at)).toBe(true);
  await copy.kill();
  await Sandbox.deleteSnapshot(snapshotId, server().options);
});

test("one error lists all invalid mounts, and no sandbox is created", async () => {
  const { options } = server();
  const volume = await volumes.make();
  const body = {
    templateID: "base",
    volumeMounts: [
      { name: volume.name, path: "/mnt/ok" },
      { name: "nowhere", path: "relative" },
      { name: volume.name, path: "/mnt/../etc" },
      { name: "none", path: "/proc/self" },
      { name: "nil", path: "/mnt/ok" },
      { name: "null", path: "/mnt/ok/below" },
      { name: "nought", path: "/" },
      { name: "nada", path: "" },
    ],
  };
  const refusal = await server().call("POST", "/sandboxes", body);
  expect(refusal.status).toBe(400);
  for (const output of [
    '[1]: there is no volume "nowhere"',
    '[1]: the path "relative" is not absolute',
    `[2]: volume "${volume.name}" is mounted twice`,
    '[2]: the path "/mnt/../etc" is not clean',
    '[3]: the path "/proc/self" is the system\'s',
    '[4]: the path "/mnt/ok" is used twice',
    '[5]: the paths "/mnt/ok/below" and "/mnt/ok" lie within each other',
    '[6]: the path "/" is the system\'s',
    "[7]: its path is empty",
  ]) {
    expect(refusal.body.message).toContain(output);
  }
  expect(await Sandbox.list(options).nextItems()).toEqual([]);
});
