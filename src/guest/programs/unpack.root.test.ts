/** COPY as templates use it: archives as clients make them, and the destinations of their files. */
import { describe, expect, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { file, folder, hardlink, pax, type RawEntry, symlink, tar } from "../../base/testing/raw-tar.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import type { UnpackRequest } from "../../contract/runtime/guest-programs.ts";
import { unpack } from "./unpack.ts";

const lab = folderOfFile("unpack");
let count = 0;

/** Copies into a new working folder, and returns that folder. */
async function copy(
  entries: readonly RawEntry[],
  request: Partial<UnpackRequest>,
  prepare: (workdir: string) => void = () => undefined,
): Promise<string> {
  const workdir = join(lab, String(count++));
  mkdirSync(workdir);
  prepare(workdir);
  const archive = `${workdir}.tar`;
  writeFileSync(archive, gzipSync(tar(entries)));
  const whole = { archive, source: "app", target: ".", workdir, user: "root", owner: null, mode: null };
  try {
    await unpack({ ...whole, ...request });
  } finally {
    expect(existsSync(archive)).toBe(false);
  }
  return workdir;
}

/** Every path below, folders with a slash. */
function paths(root: string, below = ""): string[] {
  return readdirSync(join(root, below), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(below, entry.name);
      return entry.isDirectory() ? [`${path}/`, ...paths(root, path)] : [path];
    })
    .sort();
}

const text = (...parts: string[]) => readFileSync(join(...parts), "utf8");
const folderOfTwo = [folder("app"), file("app/a.txt", "a"), folder("app/sub"), file("app/sub/b.txt", "b")];

describe("the destination", () => {
  const cases: [what: string, entries: RawEntry[], request: Partial<UnpackRequest>, expected: string[]][] = [
    ["a folder: its contents", folderOfTwo, { target: "to" }, ["to/", "to/a.txt", "to/sub/", "to/sub/b.txt"]],
    [
      "a folder, with a slash",
      folderOfTwo,
      { source: "app/", target: "to/" },
      ["to/", "to/a.txt", "to/sub/", "to/sub/b.txt"],
    ],
    ["a folder, to the working folder", folderOfTwo, { source: "./app" }, ["a.txt", "sub/", "sub/b.txt"]],
    ["a folder in a folder", [folder("x"), folder("x/app"), file("x/app/a")], { source: "x/app" }, ["a"]],
    ["the whole context", [folder("app"), file("app/a"), file("b")], { source: "." }, ["app/", "app/a", "b"]],
    ["the whole context, as an absolute path", [file("b")], { source: "/" }, ["b"]],
    ["an empty folder", [folder("app")], { target: "to" }, ["to/"]],
    ["a file", [file("a.txt")], { source: "a.txt", target: "b.txt" }, ["b.txt"]],
    ["a file, into a folder that is new", [file("a.txt")], { source: "a.txt", target: "to/" }, ["to/", "to/a.txt"]],
    ["a file, into the working folder", [file("a.txt")], { source: "a.txt", target: "." }, ["a.txt"]],
    ["a file of a folder", [file("x/a.txt")], { source: "x/a.txt", target: "y/b.txt" }, ["y/", "y/b.txt"]],
    ["a pattern", [file("a.txt"), file("b.txt")], { source: "*.txt", target: "to" }, ["to/", "to/a.txt", "to/b.txt"]],
    [
      "a pattern in a folder",
      [file("x/a.txt"), file("x/b.txt")],
      { source: "x/*.txt", target: "to/" },
      ["to/", "to/a.txt", "to/b.txt"],
    ],
    [
      "a pattern through folders",
      [file("x/a.ts"), file("x/y/b.ts")],
      { source: "x/**/*.ts" },
      ["a.ts", "y/", "y/b.ts"],
    ],
    ["a pattern with one match, which is a file", [file("a.txt")], { source: "?.txt", target: "b.txt" }, ["b.txt"]],
    [
      "a pattern with one match, into a folder",
      [file("a.txt")],
      { source: "[a].txt", target: "to/" },
      ["to/", "to/a.txt"],
    ],
    [
      "a pattern with one match, which is a folder",
      [folder("app"), file("app/a")],
      { source: "a*", target: "to" },
      ["to/", "to/app/", "to/app/a"],
    ],
    ["a symbolic link", [symlink("l", "a.txt")], { source: "l", target: "m" }, ["m"]],
    [
      "a name that is not ASCII, by a pax header",
      [folder("app"), pax({ path: "app/ünïcödé 名前.txt" }), file("app/x")],
      {},
      ["ünïcödé 名前.txt"],
    ],
  ];
  for (const [what, entries, request, expected] of cases) {
    test(what, async () => {
      expect(paths(await copy(entries, request))).toEqual(expected);
    });
  }

  test("a file goes into a folder that exists, also without a slash", async () => {
    const workdir = await copy([file("a.txt", "new")], { source: "a.txt", target: "to" }, (at) =>
      mkdirSync(join(at, "to")),
    );
    expect(paths(workdir)).toEqual(["to/", "to/a.txt"]);
  });

  test("a relative target without a working folder is in the user's home", async () => {
    const target = `sandlot-unpack-${crypto.randomUUID()}`;
    await copy([file("a.txt", "at home")], { source: "a.txt", workdir: "", target });
    expect(text("/root", target)).toBe("at home");
    rmSync(join("/root", target));
  });

  test("a name that is split between two pieces of the archive is read completely", async () => {
    const names = Array.from({ length: 700 }, (_, nth) => `app/${nth}-${"ü".repeat(100)}/${"é".repeat(120)}`);
    const workdir = await copy([folder("app"), ...names.flatMap((path) => [pax({ path }), file("app/x")])], {});
    expect(readdirSync(workdir).length).toBe(700);
  });
});

describe("an existing target", () => {
  test("is merged: folders keep their modes, files are replaced, the rest stays", async () => {
    const workdir = await copy(folderOfTwo, { target: "to", owner: "1000:1001" }, (at) => {
      mkdirSync(join(at, "to/sub"), { recursive: true, mode: 0o700 });
      writeFileSync(join(at, "to/a.txt"), "old and longer");
      writeFileSync(join(at, "to/kept"), "kept");
    });
    expect(paths(workdir)).toEqual(["to/", "to/a.txt", "to/kept", "to/sub/", "to/sub/b.txt"]);
    expect(text(workdir, "to/a.txt")).toBe("a");
    const { uid, mode } = lstatSync(join(workdir, "to/sub"));
    expect({ uid, mode: mode & 0o777 }).toEqual({ uid: 0, mode: 0o700 });
    expect(lstatSync(join(workdir, "to/a.txt"))).toMatchObject({ uid: 1000, gid: 1001 });
  });

  test("on the way to the target, links of the image are followed", async () => {
    const workdir = await copy(folderOfTwo, { target: "link/deeper" }, (at) => {
      mkdirSync(join(at, "real"));
      symlinkSync("real", join(at, "link"));
    });
    expect(text(workdir, "real/deeper/a.txt")).toBe("a");
  });

  test("below the target, a link to a folder is not written through", async () => {
    const elsewhere = join(lab, "elsewhere");
    mkdirSync(elsewhere);
    const copied = copy(folderOfTwo, { target: "to" }, (at) => {
      mkdirSync(join(at, "to"));
      symlinkSync(elsewhere, join(at, "to/sub"));
    });
    await expect(copied).rejects.toThrow(/to\/sub" is a symbolic link: nothing can be copied into it/);
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  test("a link in a file's place is replaced, and its target stays", async () => {
    const workdir = await copy(folderOfTwo, { target: "to" }, (at) => {
      mkdirSync(join(at, "to"));
      writeFileSync(join(at, "precious"), "precious");
      symlinkSync("../precious", join(at, "to/a.txt"));
    });
    expect(lstatSync(join(workdir, "to/a.txt")).isFile()).toBe(true);
    expect(text(workdir, "precious")).toBe("precious");
  });

  const refusals: [what: string, prepare: (at: string) => void, message: RegExp][] = [
    [
      "a folder in a file's place",
      (at) => mkdirSync(join(at, "to/a.txt"), { recursive: true }),
      /is a folder: no file can take its place/,
    ],
    [
      "a file in a folder's place",
      (at) => writeFileSync(join(mkdirSync(join(at, "to"), { recursive: true }) ?? "", "sub"), ""),
      /sub" is not a folder/,
    ],
    ["a target that is a file", (at) => writeFileSync(join(at, "to"), ""), /to" is not a folder/],
    ["a target that is a link to nowhere", (at) => symlinkSync("nowhere", join(at, "to")), /leads nowhere/],
  ];
  for (const [what, prepare, message] of refusals) {
    test(`is in the way: ${what}`, async () => {
      await expect(copy(folderOfTwo, { target: "to" }, prepare)).rejects.toThrow(message);
    });
  }
});

describe("owner and mode", () => {
  const of = (path: string) => {
    const { uid, gid, mode } = lstatSync(path);
    return { uid, gid, mode: mode & 0o7777 };
  };

  test("are the user's and the archive's by default", async () => {
    const workdir = await copy([folder("app"), file("app/run", "", { mode: 0o750 })], { target: "to", user: "nobody" });
    const { uid, gid } = of(join(workdir, "to"));
    expect(uid).toBe(65_534);
    expect(of(join(workdir, "to/run"))).toEqual({ uid, gid, mode: 0o750 });
  });

  const owners: [owner: string, uid: number, gid: number][] = [
    ["daemon", 1, 1],
    ["daemon:root", 1, 0],
    ["1234", 1234, 1234],
    ["1234:56", 1234, 56],
    ["root:56", 0, 56],
  ];
  for (const [owner, uid, gid] of owners) {
    test(`${owner} is ${uid}:${gid}`, async () => {
      const workdir = await copy([folder("app"), symlink("app/l", "x"), file("app/f")], { target: "a/b", owner });
      for (const path of ["a", "a/b", "a/b/l", "a/b/f"]) expect(of(join(workdir, path))).toMatchObject({ uid, gid });
    });
  }

  test("a mode applies to files, and to folders with search permission", async () => {
    const workdir = await copy(folderOfTwo, { target: "to", mode: "0640" });
    expect(of(join(workdir, "to/a.txt")).mode).toBe(0o640);
    expect(of(join(workdir, "to/sub")).mode).toBe(0o750);
    const request = await copy([file("a")], { source: "a", target: "b", mode: "4755" });
    expect(of(join(request, "b")).mode).toBe(0o4755);
  });

  const bad: [Partial<UnpackRequest>, string][] = [
    [{ owner: "none-such" }, 'there is no user "none-such"'],
    [{ owner: "root:none-such" }, 'there is no group "none-such"'],
    [{ owner: "a:b:c" }, 'the owner "a:b:c" is neither a user nor "user:group"'],
    [{ owner: "root:" }, 'the owner "root:" is neither'],
    [{ owner: "70000" }, "beyond 65535"],
    [{ mode: "0999" }, 'the mode "0999" is not an octal number'],
    [{ mode: "77777" }, "is not an octal number"],
    [{ user: "none-such" }, 'there is no user "none-such"'],
    [{ source: "../app" }, "leads out of the context"],
    [{ source: "missing" }, 'not part of "missing"'],
  ];
  for (const [request, message] of bad) {
    test(`refused: ${JSON.stringify(request)}`, async () => {
      await expect(copy(folderOfTwo, request)).rejects.toThrow(message);
    });
  }
});

test("links stay links, hard links stay one file, and times are the archive's", async () => {
  const entries = [
    folder("app"),
    file("app/a", "one"),
    hardlink("app/sub/b", "app/a"),
    symlink("app/l", "/etc/passwd"),
  ];
  const workdir = await copy(entries, { target: "to" });
  expect(readlinkSync(join(workdir, "to/l"))).toBe("/etc/passwd");
  const [a, b] = [lstatSync(join(workdir, "to/a")), lstatSync(join(workdir, "to/sub/b"))];
  expect(a.ino).toBe(b.ino);
  expect(a.mtime).toEqual(new Date(1_700_000_000_000));
});

describe("archives of other programs", () => {
  const formats = ["ustar", "gnu", "pax", "v7"];
  for (const format of formats) {
    test(`tar --format=${format}`, async () => {
      const context = join(lab, `context-${format}`);
      const name = format === "v7" || format === "ustar" ? "plain" : "n".repeat(200);
      mkdirSync(join(context, "app/sub"), { recursive: true });
      writeFileSync(join(context, "app/sub", name), "x".repeat(1000));
      const archive = join(lab, `${format}.tar`);
      const made = Bun.spawnSync(["tar", `--format=${format}`, "-C", context, "-cf", archive, "app"], {
        timeout: 60_000,
      });
      expect(made.stderr.toString()).toBe("");
      const target = join(lab, `to-${format}`);
      const request = { archive, source: "app", target, workdir: "/", user: "root", owner: null, mode: null };
      if (format === "v7") await expect(unpack(request)).rejects.toThrow("damaged, or not a tar file");
      else {
        await unpack(request);
        expect(text(target, "sub", name)).toBe("x".repeat(1000));
      }
    });
  }
});

describe("as a program", () => {
  const run = (...args: string[]) => {
    const command = [process.execPath, join(import.meta.dir, "../main.ts"), ...args];
    const { exitCode, stdout, stderr } = Bun.spawnSync(command, { timeout: 60_000 });
    return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
  };

  test("fails with one line", () => {
    const request = { archive: join(lab, "none\nsuch"), source: "a", target: "/", workdir: "/", user: "root" };
    expect(run("unpack", JSON.stringify({ ...request, owner: null, mode: null }))).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: `the archive ${JSON.stringify(request.archive)} cannot be opened (ENOENT)\n`,
    });
  });

  test("prints nothing on success", async () => {
    const archive = join(lab, "quiet.tar");
    await Bun.write(archive, tar([file("a")]));
    const request = {
      archive,
      source: "a",
      target: join(lab, "quiet"),
      workdir: "/",
      user: "root",
      owner: null,
      mode: null,
    };
    expect(run("unpack", JSON.stringify(request))).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    expect(text(lab, "quiet")).toBe("content");
  });

  test("reports an unknown name, or a request that is not JSON", () => {
    expect(run("toString", "{}")).toMatchObject({
      exitCode: 1,
      stderr: 'there is no program "toString" in the guest\n',
    });
    expect(run("unpack", "{")).toMatchObject({ exitCode: 1, stderr: "the request of the program is not JSON\n" });
  });

  test.each(["provision", "add-user"])("%s changes nothing outside a sandbox", (name) => {
    // No request that could be carried out, should it ever be.
    expect(run(name, "{")).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("in a sandbox alone") });
  });
});
