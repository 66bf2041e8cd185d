/** Templates that the unmodified SDK builds from registry images: one with busybox, one without a shell. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template } from "e2b";
import { ociImage, push } from "../../../src/host/testing/oci-image.ts";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { type TarEntry, tar } from "../../../src/host/testing/tar.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { run } from "../../../src/system/command.ts";
import { HOST_ID_FIRST, ID_COUNT } from "../../../src/system/id-range.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { LONG } from "../../support/long.ts";
import { CACHE } from "../../support/machine-of-file.ts";
import { startProcess } from "../../support/runtime-calls.ts";
import { newDataFolder } from "../../support/server.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { startRegistry } from "../../support/services/registry.ts";
import { refusalOf } from "../../support/until.ts";

const PORT = 5010;
/** 600 MB, packed, sent, fetched and unpacked. */
const BASE_MS = 600_000;
const server = serverOfFile("registry-images", {
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

test("an image with a link in the place of /proc is refused, and the build says so", async () => {
  const linked = ociImage({ layers: [tar([busybox, { name: "proc", kind: "symlink", target: "/etc" }])] });
  await push(source.url, "linked", "1", linked);
  const build = Template.build(Template().fromImage(`${source.name}/linked:1`), "linked", server().options);
  await expect(build).rejects.toThrow("/proc in it is a symbolic link; sandboxes mount their own there");
});

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

  test("takes steps", async () => {
    const template = Template().fromImage(`${source.name}/alpine:3`).runCmd("echo made > made").setEnvs({ A: "1" });
    await Template.build(template, "stepped", server().options);
    const sandbox = await Sandbox.create("stepped", server().options);
    expect((await sandbox.commands.run("cat made; echo $A")).stdout).toBe("made\n1\n");
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
    await sandbox.kill();
  });

  test("has files, and says what it lacks for a command", async () => {
    const sandbox = await Sandbox.create("bare", server().options);
    await sandbox.files.write("/home/user/note", "kept");
    expect(await sandbox.files.read("/home/user/note")).toBe("kept");
    const refused = await refusalOf(sandbox.commands.run("true"));
    expect(refused).toMatchObject({
      exitCode: 127,
      stderr: expect.stringContaining('"/bin/bash" could not be executed'),
    });
    await sandbox.kill();
  });
});

test("a template stands for the image that it is said to", async () => {
  await Template.build(Template().fromImage("example.test/own:1").runCmd("echo made > made"), "own", server().options);
  const sandbox = await Sandbox.create("own", server().options);
  expect((await sandbox.commands.run("cat made; echo $FLAVOUR")).stdout).toBe("made\nmusl\n");
  await sandbox.kill();
});

/** The root filesystem of the built-in template as an archive, with the owners that it has in a sandbox. */
async function archiveOfBase(): Promise<Uint8Array<ArrayBuffer>> {
  const folder = newDataFolder("registry-images-base");
  mkdirSync(folder, { recursive: true });
  const [owners, archive] = [join(folder, "owners"), join(folder, "base.tar")];
  const lines = Array.from({ length: ID_COUNT }, (_, id) => `+${HOST_ID_FIRST + id} x:${id}\n`);
  writeFileSync(owners, lines.join(""));
  const options = ["--numeric-owner", `--owner-map=${owners}`, `--group-map=${owners}`, "--xattrs", "--format=posix"];
  const argv = ["tar", "--create", ...options, "--file", archive, "--directory", imageFolder(CACHE, BASE_IMAGE), "."];
  await run(argv, { timeoutMs: BASE_MS });
  const bytes = await Bun.file(archive).bytes();
  rmSync(folder, { recursive: true });
  return bytes;
}

test.skipIf(!LONG)(
  "the built-in template comes from a registry as it went there",
  async () => {
    await push(source.url, "base", "1", ociImage({ layers: [{ plain: await archiveOfBase() }] }));
    await Template.build(Template().fromImage(`${source.name}/base:1`), "from-afar", server().options);
    const look =
      "python3 -c 'print(6 * 7)'; id -un; pwd; sudo id -u; stat -c '%U %a' . /tmp /usr/bin/sudo; bash --version";
    const said = await Promise.all(
      ["from-afar", "base"].map(async (name) => {
        const sandbox = await Sandbox.create(name, server().options);
        const { stdout } = await sandbox.commands.run(look);
        await sandbox.kill();
        return stdout;
      }),
    );
    expect(said[0]).toStartWith("42\nuser\n/home/user\n0\n");
    expect(said[0]).toBe(said[1] ?? "");
  },
  BASE_MS,
);

test("a name that is none is refused before anything is built", async () => {
  const build = Template.build(Template().fromImage("De bian"), "none", server().options);
  expect((await refusalOf(build)).message).toContain("not valid");
});
