import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PACKED_FILE_MAX_BYTES } from "../../../limits.ts";
import { image, nested, number } from "../testing/criu-image.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";
import { hasSimpleTmpfs, simplifyTmpfs } from "./tmpfs-content.ts";

const [DEVICE, OTHER] = [363, 365];
const [TMPFS, BY_NAME] = [5, 16];
const OWNER = "uid=0,gid=0";

let folder: string;
let images: string;
/** The content of the filesystem with the first device. */
let content: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandlot-tmpfs-"));
  [images, content] = [join(folder, "images"), join(folder, "content")];
  mkdirSync(images);
  mkdirSync(content);
  chmodSync(content, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true }));

const mount = (device: number, options: string, at = "/run") =>
  Buffer.concat([
    number(1, TMPFS),
    number(2, 77),
    number(3, device),
    nested(7, Buffer.from(at)),
    nested(9, Buffer.from(options)),
  ]);
const archiveOf = (device: number) => join(images, `tmpfs-dev-${device}.tar.gz.img`);

/** The archive as CRIU has tar write it, with root as the owner of every file, whichever user runs the tests. */
function archive(device: number, from: string): void {
  const options = [
    "--owner=0",
    "--group=0",
    "--one-file-system",
    "--check-links",
    "--preserve-permissions",
    "--sparse",
    "--numeric-owner",
  ];
  const made = Bun.spawnSync(["tar", "--create", ...options, "--directory", from, "."]);
  expect(made.stderr.toString()).toBe("");
  writeFileSync(archiveOf(device), made.stdout);
}

function simplified(options = `size=65536k,mode=755,${OWNER}`, ...others: Buffer[]): void {
  archive(DEVICE, content);
  image(images, "mountpoints-14.img", [mount(DEVICE, options), ...others]);
  simplifyTmpfs(images);
}

/** Of the mounts, by device. */
function kinds(): Record<number, unknown> {
  const mounts = messagesIn(readFileSync(join(images, "mountpoints-14.img"))).map(fieldsOf);
  return Object.fromEntries(
    mounts.map((fields) => [
      numberIn(fields, 3),
      [numberIn(fields, 1), fields.find((field) => field.number === 14)?.bytes?.toString()],
    ]),
  );
}

test("an empty filesystem is mounted by its name and has no archive; others stay as they are", () => {
  writeFileSync(join(content, "file"), "content");
  const empty = join(folder, "empty");
  mkdirSync(empty);
  chmodSync(empty, 0o1777);
  archive(OTHER, empty);
  simplified(undefined, mount(OTHER, `size=262144k,nr_inodes=65536,${OWNER}`, "/dev/shm"));

  expect(existsSync(archiveOf(OTHER))).toBe(false);
  expect(kinds()).toEqual({ [OTHER]: [BY_NAME, "tmpfs"], [DEVICE]: [TMPFS, undefined] });
  expect(hasSimpleTmpfs(images)).toBe(true);
});

test.each([
  ["of another mode", `mode=711,${OWNER}`],
  ["of another mode than the usual one", OWNER],
  ["of another owner", "mode=755,uid=4711,gid=0"],
])("an empty folder %s than it was mounted with is unpacked", (_what, options) => {
  simplified(options);
  expect(existsSync(archiveOf(DEVICE))).toBe(true);
  expect(kinds()).toEqual({ [DEVICE]: [TMPFS, undefined] });
});

test("an empty filesystem that is mounted in two places is unpacked", () => {
  const options = `mode=755,${OWNER}`;
  simplified(options, mount(DEVICE, options, "/elsewhere"));
  expect(existsSync(archiveOf(DEVICE))).toBe(true);
});

test("folders, files and links are simple, and folders come once more at the end", () => {
  mkdirSync(join(content, "folder/within"), { recursive: true });
  writeFileSync(join(content, "folder/file"), "x".repeat(1300));
  writeFileSync(join(content, "-dash \\ * \n"), "");
  symlinkSync("/etc/passwd", join(content, "folder/link"));
  symlinkSync("../..", join(content, "up"));
  simplified();

  expect(hasSimpleTmpfs(images)).toBe(true);
  const listed = Bun.spawnSync(["tar", "-tf", archiveOf(DEVICE), "--quoting-style=literal"]).stdout.toString();
  const lines = ["./", "./folder/", "./folder/within/", "./folder/file", "./folder/link", "./up"];
  for (const line of lines) expect(listed.split("\n")).toContain(line);
  const last = listed.trim().split("\n").slice(-3);
  expect(last.sort()).toEqual(["./", "./folder/", "./folder/within/"]);
});

test.each<[string, (at: string) => void]>([
  ["a pipe", (at) => expect(Bun.spawnSync(["mkfifo", at]).exitCode).toBe(0)],
  ["a second name of a file", (at) => linkSync(join(content, "file"), at)],
  ["a file with a hole", (at) => sparse(at)],
  ["a long name", (at) => writeFileSync(at + "n".repeat(120), "")],
  ["a link with a long target", (at) => symlinkSync("t".repeat(120), at)],
  ["a link in a folder whose group is given on", (at) => inSetGroup(at)],
  ["much", (at) => writeFileSync(at, "x".repeat(PACKED_FILE_MAX_BYTES))],
])("%s is not simple, and its archive stays as it is", (_what, make) => {
  writeFileSync(join(content, "file"), "content");
  make(join(content, "odd"));
  archive(DEVICE, content);
  const before = readFileSync(archiveOf(DEVICE));
  simplified();
  expect(hasSimpleTmpfs(images)).toBe(false);
  expect(readFileSync(archiveOf(DEVICE)).equals(before)).toBe(true);
});

test("what one try said is not left to the next", () => {
  simplified();
  expect(hasSimpleTmpfs(images)).toBe(true);
  expect(Bun.spawnSync(["mkfifo", join(content, "pipe")]).exitCode).toBe(0);
  simplified();
  expect(hasSimpleTmpfs(images)).toBe(false);
});

test.each([
  ["a name that leads out", "./../out"],
  ["a name from the top", "/etc/passwd"],
  ["a file below what is no folder", "./file/below"],
])("%s is not simple", (_what, name) => {
  writeFileSync(join(content, "file"), "");
  writeFileSync(join(content, "name-to-replace"), "");
  archive(DEVICE, content);
  const bytes = readFileSync(archiveOf(DEVICE));
  const at = bytes.indexOf("./name-to-replace");
  bytes.fill(0, at, at + 100).write(name, at);
  writeFileSync(archiveOf(DEVICE), bytes);
  image(images, "mountpoints-14.img", [mount(DEVICE, OWNER)]);
  simplifyTmpfs(images);
  expect(hasSimpleTmpfs(images)).toBe(false);
});

test("what is cut off is not simple", () => {
  archive(DEVICE, content);
  truncateSync(archiveOf(DEVICE), 512);
  image(images, "mountpoints-14.img", [mount(DEVICE, OWNER)]);
  simplifyTmpfs(images);
  expect(hasSimpleTmpfs(images)).toBe(false);
});

function inSetGroup(path: string): void {
  mkdirSync(path);
  chmodSync(path, 0o2755);
  symlinkSync("target", join(path, "link"));
}

function sparse(path: string): void {
  writeFileSync(path, "");
  truncateSync(path, 10 * 1024 * 1024);
}
