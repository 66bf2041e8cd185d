/** What a hostile sandbox tries with a volume: against the machine, against who looks into it, against neighbours. */
import { beforeAll, describe, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, type Volume } from "e2b";
import { timed } from "../../src/work/testing/timed.ts";
import { sharedServer } from "../support/shared-server.ts";
import { VolumesOfServer } from "../support/volumes.ts";

const ROUNDS = 60;
const server = sharedServer();
const volumes = new VolumesOfServer(server);
let volume: Volume;
let sandbox: Sandbox;

beforeAll(async () => {
  volume = await volumes.make("hostile");
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000, volumeMounts: { "/v": volume } });
});

const root = async (command: string) => await sandbox.commands.run(command, { user: "root" });
const output = async (command: string, user = "root") => (await sandbox.commands.run(command, { user })).stdout.trim();

async function statusOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    (value) => String(value),
    (error: Error) => /^(\d{3})/.exec(error.message)?.[1] ?? error.constructor.name,
  );
}

describe("the walls of a mount", () => {
  const walls = async () => {
    // As root inside a program can be given away, but not through a volume.
    await root("cp /usr/bin/id /v/id && chmod 4755 /v/id");
    expect(await output("/v/id -u", "user")).toBe("1000");
    expect((await root("mknod /v/device c 1 3 2>&1 || echo refused")).stdout).toContain("refused");
    expect(await output("grep ' /v ' /proc/self/mountinfo")).toMatch(/ rw,nosuid,nodev/);
    expect((await root("ln /v/id /tmp/id 2>&1 || echo refused")).stdout).toContain("refused");
    expect((await root("umount /v 2>&1 || mount -o remount,suid /v 2>&1 || echo refused")).stdout).toContain("refused");
  };

  test("hold", walls);

  test("hold after a pause", async () => {
    await sandbox.pause();
    sandbox = await Sandbox.connect(sandbox.sandboxId, { ...server().options, timeoutMs: 600_000 });
    await walls();
  });

  test("nothing inside says where on the machine it lies", async () => {
    const shown = await output("cat /proc/self/mountinfo /proc/mounts");
    for (const told of [volume.volumeId, server().dataFolder, "disk.img"]) expect(shown).not.toContain(told);
  });
});

describe("who looks into a volume", () => {
  test("is led nowhere else by folders and links that change places", async () => {
    await root("mkdir /v/real && echo mine > /v/real/server.json && chmod 777 /v/real");
    await root(`ln -s ${server().dataFolder} /v/link`);
    const swap = `import ctypes, os
os.chdir("/v")
swap = ctypes.CDLL(None).renameat2
while True: swap(-100, b"real", -100, b"link", 2)`;
    await sandbox.files.write("/tmp/swap.py", swap);
    const swapper = await sandbox.commands.run("python3 /tmp/swap.py", {
      user: "root",
      background: true,
      timeoutMs: 0,
    });
    const own = join(server().dataFolder, "server.json");
    const before = await Bun.file(own).text();
    const seen = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const at = volumes.at;
      seen.add(await statusOf(volume.readFile("/real/server.json", at)));
      await statusOf(volume.writeFile("/real/server.json", "mine\\n", { ...at, force: true }));
      await statusOf(volume.updateMetadata("/real/server.json", { mode: 0o666 }, at));
      for (const { path } of await volume.list("/", { ...at, depth: 3 }).catch(() => []))
        expect(path).not.toMatch(/store/);
      await statusOf(volume.remove("/real/api-key", at));
    }
    await swapper.kill();
    expect([...seen].filter((each) => !/^mine|^404|NotFound/.test(each))).toEqual([]);
    expect(seen.size).toBeGreaterThan(1);
    expect(await Bun.file(own).text()).toBe(before);
    expect(statSync(own).mode & 0o777).toBe(0o600);
    expect(statSync(join(server().dataFolder, "api-key")).isFile()).toBe(true);
  });

  test("opens no pipe, also not one that takes a file's place at that moment, and nobody waits for it", async () => {
    await root("echo file > /v/file && mkfifo /v/pipe");
    const swap = `import ctypes, os
os.chdir("/v")
swap = ctypes.CDLL(None).renameat2
while True: swap(-100, b"file", -100, b"pipe", 2)`;
    await sandbox.files.write("/tmp/pipes.py", swap);
    const swapper = await sandbox.commands.run("python3 /tmp/pipes.py", {
      user: "root",
      background: true,
      timeoutMs: 0,
    });
    // Would be let go by whoever opens the other end.
    const writer = await sandbox.commands.run(
      "for n in 1 2; do echo x > /v/$(ls -F /v | grep -o '.*|' | tr -d '|'); done",
      {
        user: "root",
        background: true,
        timeoutMs: 0,
      },
    );
    const seen = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      seen.add(await statusOf(volume.readFile("/file", volumes.at)));
      await statusOf(volume.writeFile("/file", "file\\n", { ...volumes.at, force: true }));
      expect((await fetch(`${server().url}/health`)).status).toBe(200);
    }
    await swapper.kill();
    await writer.kill();
    expect([...seen].filter((each) => !/^file|^x|^400|^404|NotFound|^$/.test(each))).toEqual([]);
    await root("rm -f /v/file /v/pipe");
  });

  timed("is not kept busy by one who hammers another volume", async () => {
    const quiet = await volumes.make("quiet");
    await quiet.writeFile("/x", "x", volumes.at);
    const flood = Array.from({ length: 200 }, () => statusOf(volume.list("/", { ...volumes.at, depth: 10 })));
    const began = performance.now();
    expect(await quiet.readFile("/x", volumes.at)).toBe("x");
    expect(performance.now() - began).toBeLessThan(5_000);
    const answers = await Promise.all(flood);
    // Those that are too many at once are told to come again.
    expect(answers.filter((answer) => answer !== "503" && /^\d{3}$/.test(answer))).toEqual([]);
  });
});

test("a volume takes no more of the machine than its size, in bytes and in files", async () => {
  const answer = await fetch(`${server().url}/volumes`, {
    method: "POST",
    headers: { "X-API-Key": server().apiKey },
    body: JSON.stringify({ name: `bounded-${process.pid}`, sizeMB: 32 }),
  });
  const { volumeID, name } = (await answer.json()) as { volumeID: string; name: string };
  const greedy = await Sandbox.create({ ...server().options, volumeMounts: { "/v": name } });
  const run = async (command: string) => (await greedy.commands.run(`${command} 2>&1 || true`)).stdout;
  expect(await run("dd if=/dev/zero of=/v/zero bs=1M count=64")).toContain("No space left");
  expect(await run("truncate -s 1T /v/sparse; rm /v/zero; mkdir /v/d; cd /v/d; seq 10000 | xargs touch")).toContain(
    "No space left",
  );
  const { blocks, size } = statSync(join(server().dataFolder, "volumes", volumeID, "disk.img"));
  expect([size, blocks * 512 <= size]).toEqual([32 * 1024 * 1024, true]);
  await greedy.kill();
  await fetch(`${server().url}/volumes/${volumeID}`, { method: "DELETE", headers: { "X-API-Key": server().apiKey } });
});
