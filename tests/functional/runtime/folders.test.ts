/** The file tree of a sandbox: move and remove. Tests of the Filesystem service cover listings and entries. */
import { beforeAll, expect, test } from "bun:test";
import { FileNotFoundError, FileType, InvalidArgumentError, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const shell = async (script: string) => (await sandbox.commands.run(script)).stdout;

test("exists is true for files, folders and links only", async () => {
  await shell("mkdir is && touch is/file && ln -s nowhere is/broken");
  expect(await sandbox.files.exists("is")).toBe(true);
  expect(await sandbox.files.exists("is/file")).toBe(true);
  expect(await sandbox.files.exists("is/broken")).toBe(true);
  expect(await sandbox.files.exists("is/not")).toBe(false);
  expect(await sandbox.files.exists("/no/such/folder/at/all")).toBe(false);
});

test("a file or a whole folder is renamed, parents are made, and a file in the way is replaced", async () => {
  await sandbox.files.write("old/one", "1");
  await sandbox.files.write("old/two", "2");
  const moved = await sandbox.files.rename("old", "brand/new/place");
  expect(moved).toMatchObject({ path: "/home/user/brand/new/place", type: FileType.DIR });
  expect(await sandbox.files.exists("old")).toBe(false);
  expect(await sandbox.files.read("brand/new/place/two")).toBe("2");
  await sandbox.files.rename("brand/new/place/one", "brand/new/place/two");
  expect(await sandbox.files.read("brand/new/place/two")).toBe("1");
  expect(await refusalOf(sandbox.files.rename("old", "anywhere"))).toBeInstanceOf(FileNotFoundError);
});

test.each([
  "/",
  "//",
  "/tmp/..",
  "to-root/",
  "/proc/self/root/",
  "/proc",
  "/sys",
  "/dev",
  "/run",
  "/run/sandlot",
  "/.sandlot",
])("remove of %s, a part of the running system, removes nothing", async (path) => {
  await shell("ln -sfn / to-root; echo kept > still-here");
  const everything = "sudo find /run /etc /dev -xdev | sort";
  const before = await shell(everything);
  expect(await refusalOf(sandbox.files.remove(path, { user: "user" }))).toBeInstanceOf(InvalidArgumentError);
  expect(await sandbox.files.read("still-here")).toBe("kept\n");
  expect(await shell(everything)).toBe(before);
});

test("remove of a link to / removes only the link", async () => {
  await shell("ln -sfn / to-root");
  await sandbox.files.remove("to-root");
  expect(await sandbox.files.exists("to-root")).toBe(false);
  expect(await sandbox.files.exists("/etc/passwd")).toBe(true);
});

test("a folder that comes with the image is renamed like any other, and stays so through a pause", async () => {
  const before = await shell("find /usr/share/doc/bash | sort");
  await sandbox.files.rename("/usr/share/doc/bash", "/usr/share/doc/bash2", { user: "root" });
  await sandbox.pause();
  await sandbox.connect();
  expect(await sandbox.files.exists("/usr/share/doc/bash")).toBe(false);
  expect((await shell("find /usr/share/doc/bash2 | sort")).replaceAll("bash2", "bash")).toBe(before);
});
