/** Attacks of a hostile sandbox through a volume: on the machine, on readers of its content, on neighbours. */
import { beforeAll, describe, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, type Volume } from "e2b";
import { timed } from "../../src/base/testing/timed.ts";
import { sharedServer } from "../support/shared-server.ts";
import { VolumesOfServer } from "../support/volumes.ts";
import { holdAgainstSwaps, statusOf } from "./attacks/swapped-places.ts";

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

describe("the isolation of a mount", () => {
  const attempts = async () => {
    // As root inside a program can be given away, but not through a volume.
    await root("cp /usr/bin/id /v/id && chmod 4755 /v/id");
    expect(await output("/v/id -u", "user")).toBe("1000");
    expect((await root("mknod /v/device c 1 3 2>&1 || echo refused")).stdout).toContain("refused");
    expect(await output("grep ' /v ' /proc/self/mountinfo")).toMatch(/ rw,nosuid,nodev/);
    expect((await root("ln /v/id /tmp/id 2>&1 || echo refused")).stdout).toContain("refused");
    expect((await root("umount /v 2>&1 || mount -o remount,suid /v 2>&1 || echo refused")).stdout).toContain("refused");
  };

  test("holds", attempts);

  test("holds after a pause", async () => {
    await sandbox.pause();
    sandbox = await Sandbox.connect(sandbox.sandboxId, { ...server().options, timeoutMs: 600_000 });
    await attempts();
  });

  test("mount information inside does not show its path on the machine", async () => {
    const shown = await output("cat /proc/self/mountinfo /proc/mounts");
    for (const reported of [volume.volumeId, server().dataFolder, "disk.img"]) expect(shown).not.toContain(reported);
  });
});

describe("a reader of a volume", () => {
  holdAgainstSwaps({ server, volumes, volume: () => volume, sandbox: () => sandbox, rounds: 60 });

  timed("is not delayed by a flood of requests for another volume", async () => {
    const quiet = await volumes.make("quiet");
    await quiet.writeFile("/x", "x", volumes.at);
    const flood = Array.from({ length: 200 }, () => statusOf(volume.list("/", { ...volumes.at, depth: 10 })));
    const began = performance.now();
    expect(await quiet.readFile("/x", volumes.at)).toBe("x");
    expect(performance.now() - began).toBeLessThan(5_000);
    const answers = await Promise.all(flood);
    // Requests above the concurrency limit are told to retry.
    expect(answers.filter((answer) => answer !== "503" && /^\d{3}$/.test(answer))).toEqual([]);
  });
});

test("a volume uses at most its size in bytes and files", async () => {
  const { body } = await server().call("POST", "/volumes", { name: `bounded-${process.pid}`, sizeMB: 32 });
  const { volumeID, name } = body as { volumeID: string; name: string };
  const greedy = await Sandbox.create({ ...server().options, volumeMounts: { "/v": name } });
  const run = async (command: string) => (await greedy.commands.run(`${command} 2>&1 || true`)).stdout;
  expect(await run("dd if=/dev/zero of=/v/zero bs=1M count=64")).toContain("No space left");
  expect(await run("truncate -s 1T /v/sparse; rm /v/zero; mkdir /v/d; cd /v/d; seq 10000 | xargs touch")).toContain(
    "No space left",
  );
  const { blocks, size } = statSync(join(server().dataFolder, "volumes", volumeID, "disk.img"));
  expect([size, blocks * 512 <= size]).toEqual([32 * 1024 * 1024, true]);
  await greedy.kill();
  await server().call("DELETE", `/volumes/${volumeID}`);
});
