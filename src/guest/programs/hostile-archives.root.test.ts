/**
 * Hostile archives. Each is rejected in one line before anything is written, or does no harm: everything beside the
 * target is unchanged.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import {
  END,
  file,
  folder,
  gnuLongName,
  hardlink,
  pax,
  type RawEntry,
  special,
  symlink,
  tar,
} from "../../base/testing/raw-tar.ts";
import { UNPACK_DEPTH_MAX } from "./copy-plan.ts";
import { unpack } from "./unpack.ts";

let lab: string;
let count = 0;
beforeAll(() => {
  lab = mkdtempSync(join(tmpdir(), "sandlot-hostile-"));
  // A small disk, so that the test knows what does not fit.
  requireSuccess(["mount", "-t", "tmpfs", "-o", "size=64m", "sandlot-test", lab]);
});
afterAll(() => {
  requireSuccess(["umount", lab]);
  rmSync(lab, { recursive: true, force: true });
});

function requireSuccess(command: string[]): void {
  const { success, stderr } = Bun.spawnSync(command, { timeout: 60_000 });
  if (!success) throw new Error(`${command[0]}: ${stderr.toString()}`);
}

interface Attempt {
  target: string;
  /** Null: it was not refused. */
  message: string | null;
}

/** In a folder with something to protect beside the target. */
async function attempt(archive: Uint8Array, source = "app"): Promise<Attempt> {
  const place = join(lab, String(count++));
  const target = join(place, "target");
  mkdirSync(join(place, "outside"), { recursive: true });
  mkdirSync(target);
  writeFileSync(join(place, "outside/secret"), "secret");
  const path = join(place, "archive");
  writeFileSync(path, archive);
  const request = {
    archive: path,
    source,
    target: `${target}/`,
    workdir: place,
    user: "root",
    owner: null,
    mode: null,
  };
  const message = await unpack(request).then(
    () => null,
    (error: Error) => error.message,
  );
  expect(existsSync(path)).toBe(false);
  expect(readdirSync(place).sort()).toEqual(["outside", "target"]);
  expect(readdirSync(join(place, "outside"))).toEqual(["secret"]);
  expect(readFileSync(join(place, "outside/secret"), "utf8")).toBe("secret");
  expect(statSync(join(place, "outside/secret")).nlink).toBe(1);
  return { target, message };
}

const app = (...entries: RawEntry[]) => tar([folder("app"), ...entries]);
const long = (length: number) => "n".repeat(length);
const deep = (depth: number) => Array.from({ length: depth }, () => "d").join("/");
/** Ten gigabytes of zeros in ten megabytes: gzip allows members in a row. */
const bomb = (...beginning: RawEntry[]) =>
  Buffer.concat([
    gzipSync(tar([folder("app"), ...beginning], Buffer.alloc(0))),
    ...Array.from({ length: 1024 }, () => compressed),
  ]);
const compressed = gzipSync(Buffer.alloc(10 * 1024 * 1024));

const REFUSED: [name: string, archive: () => Uint8Array, message: RegExp][] = [
  ["an absolute name", () => app(file("/etc/sandlot-was-here")), /absolute path/],
  ["an absolute name with the source in it", () => app(file("/app/x")), /absolute path/],
  ["a name that leads up", () => app(file("../outside/secret")), /leads out of it/],
  ["a name that leads up from within", () => app(file("app/../../outside/secret")), /leads out of it/],
  ["a name that ends in dots", () => app(file("app/x/..")), /leads out of it/],
  ["an absolute name by a pax header", () => app(pax({ path: "/etc/x" }), file("app/x")), /absolute path/],
  ["a name that leads up, by a pax header", () => app(pax({ path: "app/../../x" }), file("app/x")), /leads out of it/],
  [
    "a name that leads up, for all that follow",
    () => app(pax({ path: "../x" }, "g"), pax({ comment: "y" }), file("app/x")),
    /leads out of it/,
  ],
  ["a name that leads up, by GNU's long name", () => app(gnuLongName("app/../../x"), file("app/x")), /leads out of it/],
  ["a name that leads up, by ustar's prefix", () => app(file("x", "y", { prefix: "app/../.." })), /leads out of it/],
  ["a file that is not part of the source", () => app(file("other/x")), /not part of "app"/],
  [
    "a file through a link to outside",
    () => app(symlink("app/l", "../outside"), file("app/l/secret")),
    /makes a folder of what is a symlink/,
  ],
  [
    "a file through a link to an absolute path",
    () => app(symlink("app/l", "/etc"), file("app/l/x")),
    /makes a folder of what is a symlink/,
  ],
  [
    "a folder in the place of a link",
    () => app(symlink("app/l", "../outside"), folder("app/l"), file("app/l/x")),
    /makes a folder of what is a symlink/,
  ],
  [
    "a file in the place of a link",
    () => app(symlink("app/l", "../outside/secret"), file("app/l", "broken")),
    /makes a file of what is a symlink/,
  ],
  [
    "a link in the place of a folder",
    () => app(folder("app/d"), symlink("app/d", "../outside"), file("app/d/x")),
    /makes a symlink of what is a folder/,
  ],
  [
    "a folder in the place of a file",
    () => app(file("app/f"), folder("app/f"), file("app/f/x")),
    /makes a folder of what is a file/,
  ],
  ["a file below a file", () => app(file("app/f"), file("app/f/x")), /makes a folder of what is a file/],
  ["a file in the place of a folder", () => app(folder("app/f"), file("app/f")), /makes a file of what is a folder/],
  [
    "links that lead through each other",
    () => app(symlink("app/a", "b"), symlink("app/b", "../.."), file("app/a/x")),
    /makes a folder of what is a symlink/,
  ],
  [
    "the source itself as a link, then below it",
    () => tar([symlink("app", "../outside"), file("app/secret")]),
    /makes a folder of what is a symlink/,
  ],
  [
    "the source as a link, then as a folder",
    () => tar([symlink("app", "../outside"), folder("app")]),
    /makes a folder of what is a symlink/,
  ],
  ["a hard link to an absolute path", () => app(hardlink("app/h", "/etc/passwd")), /absolute path/],
  ["a hard link that leads up", () => app(hardlink("app/h", "../outside/secret")), /leads out of it/],
  ["a hard link to what is no part", () => app(hardlink("app/h", "outside/secret")), /not part of "app"/],
  ["a hard link to nothing", () => app(hardlink("app/h", "app/none")), /no file before it/],
  [
    "a hard link to a symbolic link",
    () => app(symlink("app/l", "../../outside/secret"), hardlink("app/h", "app/l")),
    /no file before it/,
  ],
  ["a hard link to itself", () => app(hardlink("app/h", "app/h")), /no file before it/],
  [
    "a hard link by a pax header to outside",
    () => app(pax({ linkpath: "/etc/passwd" }), hardlink("app/h", "app/x")),
    /absolute path/,
  ],
  ["a character device", () => app(special("app/null", "3")), /device/],
  ["a block device", () => app(special("app/disk", "4")), /device/],
  ["a named pipe", () => app(special("app/pipe", "6")), /named pipe/],
  ["a kind that nobody knows", () => app(special("app/x", "Z")), /kind that cannot be copied/],
  ["a sparse file of the old kind", () => app(special("app/x", "S")), /kind that cannot be copied/],
  [
    "a sparse file of pax",
    () => app(pax({ "GNU.sparse.major": "1", "GNU.sparse.name": "app/x" }), file("app/x")),
    /sparse file/,
  ],
  ["a sparse file by its folder", () => app(file("app/GNUSparseFile.1234/x")), /sparse file/],
  ["a multi-volume archive", () => app(special("app/x", "M")), /kind that cannot be copied/],
  [
    "a file of 8 EiB",
    () => app(file("app/x", "", { size: "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff" })),
    /not a number/,
  ],
  ["a file of 7 TiB", () => app(file("app/x", "", { size: "\x80\0\0\0\0\0\x07\0\0\0\0\0" })), /free on the disk/],
  [
    "a negative size",
    () => app(file("app/x", "", { size: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0" })),
    /damaged|not a number/,
  ],
  ["a size that is no number", () => app(file("app/x", "", { size: "zzzzzzzzzzz\0" })), /damaged|not a number/],
  ["a huge size by a pax header", () => app(pax({ size: "999999999999999" }), file("app/x")), /free on the disk/],
  ["a negative size by a pax header", () => app(pax({ size: "-512" }), file("app/x")), /damaged|not a number/],
  [
    "many files that together do not fit",
    () => app(...[1, 2, 3].map((nth) => file(`app/${nth}`, "", { size: 8 ** 11 - 1 }))),
    /free on the disk/,
  ],
  ["a pax header of 5 MiB", () => app(pax({ comment: "x".repeat(5 * 1024 * 1024) }), file("app/x")), /too long/],
  ["a GNU name of 5 MiB", () => app(gnuLongName(long(5 * 1024 * 1024)), file("app/x")), /too long/],
  [
    "a pax header that claims 1 TiB",
    () => app({ name: "p", type: "x", size: 1024 ** 3 * 7 }, file("app/x")),
    /too long/,
  ],
  [
    "a name of 10 000 characters",
    () => app(gnuLongName(`app/${long(10_000)}`), file("app/x")),
    /longer than 4095 bytes/,
  ],
  [
    "a name of 10 000 characters in parts",
    () => app(pax({ path: `app/${`${long(99)}/`.repeat(100)}x` }), file("app/x")),
    /longer than 4095 bytes/,
  ],
  ["a part of 256 characters", () => app(pax({ path: `app/${long(256)}` }), file("app/x")), /longer than 255 bytes/],
  ["folders without end", () => app(pax({ path: `app/${deep(UNPACK_DEPTH_MAX)}` }), file("app/x")), /folders deep/],
  ["a name that is not UTF-8", () => app({ name: Buffer.from("app/\xff\xfe", "latin1"), content: "x" }), /not UTF-8/],
  ["a link target that is not UTF-8", () => app(pax({ linkpath: "\ufffd" }), symlink("app/l", "x")), /not a path/],
  ["a name with a zero byte", () => app(pax({ path: "app/x\0y" }), file("app/x")), /zero byte/],
  ["a link that leads nowhere at all", () => app(symlink("app/l", "")), /not a path/],
  ["an entry without a name", () => app(file("")), /no name/],
  [
    "a wrong checksum",
    () => app(file("app/x", "y", { damage: (header) => header.write("0000000\0", 148) })),
    /damaged/,
  ],
  ["a format that nobody knows", () => app(file("app/x", "y", { magic: "mineown\0" })), /damaged/],
  [
    "an archive that breaks off in a file",
    () => tar([folder("app"), file("app/x", long(2000))], Buffer.alloc(0)).subarray(0, 2048),
    /end is missing/,
  ],
  [
    "an archive that breaks off after a file",
    () => tar([folder("app"), file("app/x")], Buffer.alloc(0)),
    /end is missing/,
  ],
  [
    "an archive that breaks off in a header",
    () => tar([folder("app"), file("app/x")]).subarray(0, 700),
    /end is missing/,
  ],
  [
    "a gzip file that breaks off",
    () => gzipSync(app(file("app/x", long(100_000)))).subarray(0, -20),
    /end is missing|compression is damaged/,
  ],
  [
    "a gzip file that is damaged",
    () => {
      const bytes = gzipSync(app(file("app/x", long(1000))));
      bytes.fill(0xaa, 20, 30);
      return bytes;
    },
    /compression is damaged|damaged/,
  ],
  ["gzip that holds no tar", () => gzipSync("hello, world"), /end is missing/],
  ["no tar at all", () => Buffer.from("hello, world".repeat(100)), /damaged/],
  ["nothing", () => Buffer.alloc(0), /end is missing/],
  ["a bomb in a file", () => bomb(file("app/x", "", { size: 8 ** 11 - 1 })), /free on the disk/],
  [
    "a bomb in a file that claims to be small, and behind it",
    () => bomb(file("app/x", "", { size: 1024 })),
    /expands to more/,
  ],
  ["another source than asked for", () => tar([folder("ap")]), /not part of "app"/],
];

// Fifty and more: none may be lost by accident.
test("there are at least fifty", () => expect(REFUSED.length + HARMLESS.length).toBeGreaterThanOrEqual(50));

for (const [name, archive, message] of REFUSED) {
  test(`refused: ${name}`, async () => {
    const attempted = await attempt(archive());
    expect(attempted.message).toMatch(message);
    expect(attempted.message).not.toContain("\n");
    expect((attempted.message ?? "").length).toBeLessThan(500);
    expect(readdirSync(attempted.target)).toEqual([]);
  });
}

const HARMLESS: [name: string, archive: () => Uint8Array, check: (target: string) => void][] = [
  [
    "a link to outside, kept as a link",
    () => app(symlink("app/l", "../../outside/secret")),
    (target) => expect(readlinkSync(join(target, "l"))).toBe("../../outside/secret"),
  ],
  [
    "a file twice: the last one stays",
    () => app(file("app/x", "first"), file("app/x", "second")),
    (target) => expect(readFileSync(join(target, "x"), "utf8")).toBe("second"),
  ],
  [
    "a folder twice",
    () => app(folder("app/d"), folder("app/d"), file("app/d/x")),
    (target) => expect(readdirSync(join(target, "d"))).toEqual(["x"]),
  ],
  [
    "rights to become root",
    () => app(file("app/x", "y", { mode: 0o6755 })),
    (target) => expect(lstatSync(join(target, "x")).mode & 0o7777).toBe(0o755),
  ],
  [
    "whiteouts of layers, which are names like any other",
    () => app(file("app/.wh..wh..opq"), file("app/.wh.x")),
    (target) => expect(readdirSync(target).sort()).toEqual([".wh..wh..opq", ".wh.x"]),
  ],
  [
    "extended attributes",
    () =>
      app(pax({ "SCHILY.xattr.security.capability": "x", "SCHILY.xattr.trusted.overlay.opaque": "y" }), file("app/x")),
    (target) => expect(readdirSync(target)).toEqual(["x"]),
  ],
  [
    "an owner by a pax header",
    () => app(pax({ uid: "1234", gid: "1234" }), file("app/x")),
    (target) => expect(lstatSync(join(target, "x")).uid).toBe(0),
  ],
  [
    "a name with line breaks and colours",
    () => app(file("app/a\n\x1b[31mb")),
    (target) => expect(readdirSync(target)).toEqual(["a\n\x1b[31mb"]),
  ],
  [
    "backslashes, which separate nothing",
    () => app(file("app/..\\..\\x")),
    (target) => expect(readdirSync(target)).toEqual(["..\\..\\x"]),
  ],
  [
    "dots and slashes that mean nothing",
    () => app(file("./app//./x")),
    (target) => expect(readdirSync(target)).toEqual(["x"]),
  ],
  [
    "a file that is a folder by its name",
    () => app(file("app/d/", "")),
    (target) => expect(lstatSync(join(target, "d")).isDirectory()).toBe(true),
  ],
  [
    "two names that differ by case or by accents",
    () => app(file("app/\u00c9"), file("app/E\u0301"), file("app/\u00e9")),
    (target) => expect(readdirSync(target).length).toBe(3),
  ],
  [
    "much emptiness behind the end",
    () => gzipSync(Buffer.concat([app(file("app/x")), END, Buffer.alloc(8 * 1024 * 1024)])),
    (target) => expect(readdirSync(target)).toEqual(["x"]),
  ],
];

for (const [name, archive, check] of HARMLESS) {
  test(`harmless: ${name}`, async () => {
    const { target, message } = await attempt(archive());
    expect(message).toBeNull();
    check(target);
  });
}
