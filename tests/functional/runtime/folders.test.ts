/** The file tree of a sandbox: list, stat, create, move and remove. */
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

test("a folder is listed as deep as asked, each folder before what it holds", async () => {
  await shell("mkdir -p tree/sub1/deeper tree/sub2 && touch tree/file1 tree/sub1/a tree/sub1/b tree/sub1/deeper/c");
  const list = async (depth?: number) =>
    (await sandbox.files.list("tree", depth === undefined ? {} : { depth })).map(({ path }) =>
      path.replace("/home/user/tree/", ""),
    );
  expect(await list()).toEqual(["file1", "sub1", "sub2"]);
  expect(await list(1)).toEqual(["file1", "sub1", "sub2"]);
  expect(await list(2)).toEqual(["file1", "sub1", "sub1/a", "sub1/b", "sub1/deeper", "sub2"]);
  expect(await list(99)).toEqual(["file1", "sub1", "sub1/a", "sub1/b", "sub1/deeper", "sub1/deeper/c", "sub2"]);
  expect(await refusalOf(sandbox.files.list("tree", { depth: 0 }))).toBeInstanceOf(InvalidArgumentError);
});

test("a thousand files are listed, every one", async () => {
  await shell("mkdir thousand && cd thousand && seq -f 'file-%04g' 1 1000 | xargs touch");
  const names = (await sandbox.files.list("thousand")).map(({ name }) => name);
  expect(names).toEqual(Array.from({ length: 1000 }, (_, at) => `file-${String(at + 1).padStart(4, "0")}`));
});

test("an entry tells all about itself", async () => {
  const before = Date.now();
  await shell("mkdir -p about && printf 12345 > about/file && chmod 640 about/file && ln -s file about/link");
  const file = await sandbox.files.getInfo("about/file");
  expect(file).toMatchObject({
    name: "file",
    path: "/home/user/about/file",
    type: FileType.FILE,
    size: 5,
    mode: 0o640,
    permissions: "-rw-r-----",
    owner: "user",
    group: "user",
  });
  expect(file.symlinkTarget).toBeUndefined();
  expect(file.modifiedTime?.getTime()).toBeGreaterThanOrEqual(before - 1000);
  expect(file.modifiedTime?.getTime()).toBeLessThanOrEqual(Date.now() + 1000);
  const folder = await sandbox.files.getInfo("about");
  expect(folder).toMatchObject({ type: FileType.DIR, mode: 0o755, permissions: "drwxr-xr-x" });
  const link = await sandbox.files.getInfo("about/link");
  expect(link).toMatchObject({
    name: "link",
    type: FileType.FILE,
    symlinkTarget: "/home/user/about/file",
    mode: 0o640,
  });
  expect(link.permissions).toStartWith("L");
});

test("a folder is made with all its parents, once", async () => {
  expect(await sandbox.files.makeDir("made/with/parents")).toBe(true);
  expect(await sandbox.files.makeDir("made/with/parents")).toBe(false);
  expect(await sandbox.files.makeDir("made")).toBe(false);
  expect(await shell("stat -c '%U %a' made made/with made/with/parents")).toBe("user 755\nuser 755\nuser 755\n");
  await sandbox.files.write("occupied", "");
  expect(await refusalOf(sandbox.files.makeDir("occupied"))).toBeInstanceOf(InvalidArgumentError);
});

test("exists tells files, folders and links from nothing", async () => {
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

test("remove takes a file, a whole folder, or nothing; of a link only the link", async () => {
  await shell("mkdir -p gone/deep && touch gone/deep/file kept && ln -s ../kept gone/link");
  await sandbox.files.remove("gone/link");
  expect(await sandbox.files.exists("kept")).toBe(true);
  await sandbox.files.remove("gone");
  expect(await sandbox.files.exists("gone")).toBe(false);
  await sandbox.files.remove("gone");
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
])("remove of %s, a part of the running system, takes nothing", async (path) => {
  await shell("ln -sfn / to-root; echo kept > still-here");
  const everything = "sudo find /run /etc /dev -xdev | sort";
  const before = await shell(everything);
  expect(await refusalOf(sandbox.files.remove(path, { user: "user" }))).toBeInstanceOf(InvalidArgumentError);
  expect(await sandbox.files.read("still-here")).toBe("kept\n");
  expect(await shell(everything)).toBe(before);
});

test("remove of a link to / takes the link", async () => {
  await shell("ln -sfn / to-root");
  await sandbox.files.remove("to-root");
  expect(await sandbox.files.exists("to-root")).toBe(false);
  expect(await sandbox.files.exists("/etc/passwd")).toBe(true);
});

test("a name that no file can have is the name of none", async () => {
  const long = "n".repeat(256);
  expect(await sandbox.files.exists(long)).toBe(false);
  expect(await refusalOf(sandbox.files.read(long))).toBeInstanceOf(FileNotFoundError);
  expect(await refusalOf(sandbox.files.write(long, "x"))).toBeInstanceOf(InvalidArgumentError);
  expect(await refusalOf(sandbox.files.makeDir(long))).toBeInstanceOf(InvalidArgumentError);
});

test("what is not there, or is no folder, cannot be listed or looked at", async () => {
  expect(await refusalOf(sandbox.files.list("/no/such/folder"))).toBeInstanceOf(FileNotFoundError);
  expect(await refusalOf(sandbox.files.getInfo("/no/such/file"))).toBeInstanceOf(FileNotFoundError);
  expect(await refusalOf(sandbox.files.list("/etc/passwd"))).toBeInstanceOf(InvalidArgumentError);
});

test("a folder that comes with the image is renamed like any other, and stays so through a pause", async () => {
  const before = await shell("find /usr/share/doc/bash | sort");
  await sandbox.files.rename("/usr/share/doc/bash", "/usr/share/doc/bash2", { user: "root" });
  await sandbox.pause();
  await sandbox.connect();
  expect(await sandbox.files.exists("/usr/share/doc/bash")).toBe(false);
  expect((await shell("find /usr/share/doc/bash2 | sort")).replaceAll("bash2", "bash")).toBe(before);
});
