/** The Filesystem service of a real daemon, the same in JSON and in binary. */
import { describe, expect, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { ENCODINGS, speaking } from "../testing/encodings.ts";
import { emptyFolderOf, guestOfFile } from "../testing/guest-of-file.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const home = emptyFolderOf(guest);

interface Answered {
  status: number;
  code?: string;
  entry?: Record<string, unknown>;
  entries?: { path: string; type?: string }[];
}

describe.each(ENCODINGS)("in %s,", (encoding) => {
  const call = async (method: string, message: unknown, headers: Record<string, string> = {}): Promise<Answered> => {
    const response = await speaking(guest, encoding).call(`filesystem.Filesystem/${method}`, message, headers);
    return { status: response.status, ...((await response.json()) as object) };
  };

  describe("Stat", () => {
    test("returns every field of a file", async () => {
      const path = `${home}/a b%20é\n.txt`;
      writeFileSync(path, "hello", { mode: 0o640 });
      utimesSync(path, 1_700_000_000.25, 1_700_000_000.25);
      expect((await call("Stat", { path })).entry).toEqual({
        name: "a b%20é\n.txt",
        type: "FILE_TYPE_FILE",
        path,
        size: "5",
        mode: 0o640,
        permissions: "-rw-r-----",
        owner: "root",
        group: "root",
        modifiedTime: "2023-11-14T22:13:20.250Z",
      });
    });

    test("describes a link by its target", async () => {
      mkdirSync(`${home}/dir`, { mode: 0o700 });
      symlinkSync("dir", `${home}/link`);
      expect((await call("Stat", { path: `${home}/link` })).entry).toMatchObject({
        type: "FILE_TYPE_DIRECTORY",
        size: "3",
        mode: 0o700,
        permissions: "Lrwxrwxrwx",
        symlinkTarget: `${home}/dir`,
      });
    });

    test("describes a dangling link without a type, as its own target", async () => {
      symlinkSync("nowhere", `${home}/broken`);
      const { entry } = await call("Stat", { path: `${home}/broken` });
      expect(entry).toMatchObject({ symlinkTarget: `${home}/broken`, size: "7" });
      expect(entry).not.toContainKeys(["type", "mode"]);
    });

    test("of a missing path is not found", async () => {
      expect(await call("Stat", { path: `${home}/none` })).toMatchObject({ status: 404, code: "not_found" });
      expect(await call("Stat", { path: "~ghost/x" })).toMatchObject({ status: 400, code: "invalid_argument" });
      expect(await call("Stat", { path: "/a\0b" })).toMatchObject({ status: 400, code: "invalid_argument" });
    });

    test("returns sizes above 4 GiB", async () => {
      writeFileSync(`${home}/sparse`, "");
      truncateSync(`${home}/sparse`, 6_442_450_945);
      expect((await call("Stat", { path: `${home}/sparse` })).entry?.size).toBe("6442450945");
    });

    test("returns only known fields to very old clients", async () => {
      const response = await guest.call(
        "filesystem.Filesystem/Stat",
        { path: home },
        { "User-Agent": "connect-python" },
      );
      expect(response.headers.get("x-e2b-legacy-sdk")).toBe("true");
      const { entry } = (await response.json()) as { entry: object };
      expect(Object.keys(entry).sort()).toEqual(["name", "path", "type"]);
    });
  });

  describe("MakeDir", () => {
    test("makes all missing parents, owned by the user", async () => {
      const answered = await call("MakeDir", { path: `${home}/a/b/c` }, basic("daemon"));
      expect(answered).toMatchObject({ status: 200, entry: { name: "c", owner: "daemon", permissions: "drwxr-xr-x" } });
      expect([statSync(`${home}/a`).uid, statSync(`${home}/a/b`).gid, statSync(home).uid]).toEqual([1, 1, 0]);
    });

    test("reports an existing entry", async () => {
      writeFileSync(`${home}/file`, "");
      expect(await call("MakeDir", { path: home })).toMatchObject({ status: 409, code: "already_exists" });
      expect(await call("MakeDir", { path: `${home}/file` })).toMatchObject({ status: 400, code: "invalid_argument" });
      expect(await call("MakeDir", { path: `${home}/file/x` })).toMatchObject({ status: 500, code: "internal" });
    });
  });

  describe("Move", () => {
    test("replaces a file and makes missing parents", async () => {
      writeFileSync(`${home}/a`, "new");
      mkdirSync(`${home}/to`);
      writeFileSync(`${home}/to/b`, "old");
      const moved = await call("Move", { source: `${home}/a`, destination: `${home}/to/b` });
      expect(moved.entry).toMatchObject({ name: "b", size: "3" });
      expect(existsSync(`${home}/a`)).toBe(false);
      const again = await call("Move", { source: `${home}/to/b`, destination: `${home}/x/y/c` }, basic("daemon"));
      expect(again).toMatchObject({ status: 200, entry: { owner: "root" } });
      expect(statSync(`${home}/x/y`).uid).toBe(1);
    });

    test("of a missing path is not found, onto a non-empty directory is internal", async () => {
      const none = await call("Move", { source: `${home}/none`, destination: `${home}/new/b` });
      expect(none).toMatchObject({ status: 404, code: "not_found" });
      expect(existsSync(`${home}/new`)).toBe(false);
      mkdirSync(`${home}/full/child`, { recursive: true });
      mkdirSync(`${home}/dir`);
      const full = await call("Move", { source: `${home}/dir`, destination: `${home}/full` });
      expect(full).toMatchObject({ status: 500, code: "internal" });
    });
  });

  describe("ListDir", () => {
    const names = (answered: Answered) => answered.entries?.map(({ path }) => path.slice(home.length + 1));

    test("lists down to the depth, parents first, ordered by bytes of names", async () => {
      mkdirSync(`${home}/subdir1/deep`, { recursive: true });
      mkdirSync(`${home}/subdir2`);
      for (const name of ["file1.txt", "subdir1/b", "subdir1/a", "Zed", "\u{10000}", "\uffee"]) {
        writeFileSync(`${home}/${name}`, "");
      }
      symlinkSync("subdir1", `${home}/to-subdir1`);
      const top = ["Zed", "file1.txt", "subdir1", "subdir2", "to-subdir1", "\uffee", "\u{10000}"];
      expect(names(await call("ListDir", { path: home }))).toEqual(top);
      expect(names(await call("ListDir", { path: home, depth: 2 }))).toEqual(
        top.flatMap((name) => (name === "subdir1" ? [name, "subdir1/a", "subdir1/b", "subdir1/deep"] : [name])),
      );
    });

    test("follows a link given as the path, and keeps its name", async () => {
      mkdirSync(`${home}/real`);
      writeFileSync(`${home}/real/x`, "");
      symlinkSync("real", `${home}/link`);
      expect(names(await call("ListDir", { path: `${home}/link` }))).toEqual(["link/x"]);
    });

    test("reports the reason of a failure", async () => {
      writeFileSync(`${home}/file`, "");
      symlinkSync("loop", `${home}/loop`);
      const code = async (path: string) => (await call("ListDir", { path })).code;
      expect(await code(`${home}/none`)).toBe("not_found");
      expect(await code(`${home}/file`)).toBe("invalid_argument");
      expect(await code(`${home}/loop`)).toBe("failed_precondition");
    });
  });

  test("Remove deletes whole trees and links, not their targets, and succeeds for missing paths", async () => {
    mkdirSync(`${home}/tree/a/b`, { recursive: true });
    writeFileSync(`${home}/kept`, "");
    symlinkSync("../kept", `${home}/tree/link`);
    expect((await call("Remove", { path: `${home}/tree` })).status).toBe(200);
    expect([existsSync(`${home}/tree`), lstatSync(`${home}/kept`).isFile()]).toEqual([false, true]);
    expect((await call("Remove", { path: `${home}/tree` })).status).toBe(200);
    expect(await call("Remove", { path: "~ghost" })).toMatchObject({ status: 400, code: "invalid_argument" });
  });
});
