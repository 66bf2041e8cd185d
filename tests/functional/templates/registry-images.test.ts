/** Templates that the unmodified SDK builds from registry images: one with busybox, one without a shell. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template } from "e2b";
import { ociImage, push } from "../../../src/host/testing/oci-image.ts";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { type TarEntry, tar } from "../../../src/host/testing/tar.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { startProcess } from "../../support/runtime-calls.ts";
import { newDataFolder } from "../../support/server.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { startRegistry } from "../../support/services/registry.ts";

const PORT = 5010;
const server = serverOfFile("registry-images", {
  SANDLOT_READY: "0",
  SANDLOT_REGISTRIES: `http://${OUTSIDE}:${PORT}`,
  SANDLOT_IMAGES: "example.test/own=template:small",
});

const busybox: TarEntry = {
  name: "bin/busybox",
  content: readFileSync(join(new Toolbox(CACHE).toolFolder, "usr/bin/busybox")),
  mode: 0o755,
};
const APPLETS = ["sh", "ls", "cat", "echo", "id", "sleep", "pwd", "env"];
const musl = `/lib/ld-musl-${process.arch === "x64" ? "x86_64" : "aarch64"}.so.1`;
const alpine = ociImage({
  layers: [
    tar([
      busybox,
      ...APPLETS.map((name): TarEntry => ({ name: `bin/${name}`, kind: "symlink", target: "busybox" })),
      { name: musl.slice(1), content: readFileSync(musl), mode: 0o755 },
      { name: "etc/passwd", content: "root:x:0:0:root:/root:/bin/sh\n" },
      { name: "etc/group", content: "root:x:0:\n" },
    ]),
  ],
  config: { Env: ["PATH=/bin", "FLAVOUR=musl"] },
});
/** A header of version 2 with the flag "effective", then the permitted capability: CAP_NET_BIND_SERVICE. */
const capability = "\x01\0\0\x02\0\x04".padEnd(20, "\0");
const bare = ociImage({
  layers: [
    tar([
      { ...busybox, name: "app/cat" },
      { ...busybox, name: "app/able/cat", xattrs: { "security.capability": capability } },
    ]),
  ],
});

let source: Awaited<ReturnType<typeof startRegistry>>;
beforeAll(async () => {
  source = await startRegistry(newDataFolder("registry-images-registry"), OUTSIDE, PORT);
  await push(source.url, "alpine", "3", alpine);
  await push(source.url, "bare", "1", bare);
  const build = (image: string, name: string) =>
    Template.build(Template().fromImage(`${source.name}/${image}`), name, server().options);
  await Promise.all([build("alpine:3", "small"), build("bare:1", "bare")]);
});
afterAll(() => source[Symbol.asyncDispose]());

describe("a template of musl and busybox", () => {
  test("has the account, the variables and the files of any sandbox, also after a pause", async () => {
    const sandbox = await Sandbox.create("small", server().options);
    const say = async (line: string) => (await sandbox.commands.run(line)).stdout.trim();
    expect(await say("id -un; pwd; echo $FLAVOUR; echo $0")).toBe("user\n/home/user\nmusl\n/bin/sh");
    await sandbox.files.write("/home/user/note", "kept");
    await sandbox.pause();
    await sandbox.connect(server().options);
    expect(await say("cat note")).toBe("kept");
    expect(await sandbox.files.read("/etc/hostname")).toBe("e2b.local\n");
    await sandbox.kill();
  });
});

describe("a template without a shell", () => {
  test("runs its own programs, with the capabilities that a layer gives them", async () => {
    const sandbox = await Sandbox.create("bare", server().options);
    await sandbox.files.write("/home/user/note", "kept");
    const start = (user: string, cmd: string, ...args: string[]) =>
      startProcess(server(), sandbox.sandboxId, user, { cmd, args });
    for (const user of ["user", "root"]) expect((await start(user, "/app/cat", "/home/user/note")).stdout).toBe("kept");
    const permitted = async (program: string) =>
      /CapPrm:\t(\w+)/.exec((await start("user", program, "/proc/self/status")).stdout)?.[1];
    expect(await permitted("/app/cat")).toBe("0000000000000000");
    expect(await permitted("/app/able/cat")).toBe("0000000000000400");
    const refused = { exitCode: 127, stderr: expect.stringContaining('"/bin/bash" could not be executed') };
    await expect(sandbox.commands.run("true")).rejects.toMatchObject(refused);
    await sandbox.kill();
  });
});

test("a template replaces the image that the setting names", async () => {
  await Template.build(Template().fromImage("example.test/own:1").runCmd("echo made > made"), "own", server().options);
  const sandbox = await Sandbox.create("own", server().options);
  expect((await sandbox.commands.run("cat made; echo $FLAVOUR")).stdout).toBe("made\nmusl\n");
  await sandbox.kill();
});
