/**
 * The unary calls on the file tree of a real daemon: each gives the same, and refuses the same, in JSON and in binary.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { ENCODINGS, type Encoding, speaking } from "../testing/encodings.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
let home: string;

interface Answered {
  status: number;
  code?: string;
  entry?: Record<string, unknown>;
  entries?: { path: string }[];
}

function caller(encoding: Encoding) {
  return async (method: string, message: object, headers: Record<string, string> = {}): Promise<Answered> => {
    const answer = await speaking(guest, encoding).call(`filesystem.Filesystem/${method}`, message, headers);
    return { status: answer.status, ...((await answer.json()) as object) };
  };
}

describe.each(ENCODINGS)("in %s,", (encoding) => {
  const call = caller(encoding);
  beforeEach(() => {
    home = `${guest.folder}/${crypto.randomUUID()}`;
    mkdirSync(`${home}/dir/sub`, { recursive: true });
    writeFileSync(`${home}/dir/é 1`, "12345", { mode: 0o640 });
    utimesSync(`${home}/dir/é 1`, 1_700_000_000.25, 1_700_000_000.25);
    symlinkSync("loop", `${home}/loop`);
  });

  test("Stat", async () => {
    expect((await call("Stat", { path: `${home}/dir/é 1` })).entry).toEqual({
      name: "é 1",
      type: "FILE_TYPE_FILE",
      path: `${home}/dir/é 1`,
      size: "5",
      mode: 0o640,
      permissions: "-rw-r-----",
      owner: "root",
      group: "root",
      modifiedTime: "2023-11-14T22:13:20.250Z",
    });
    expect(await call("Stat", { path: `${home}/none` })).toMatchObject({ status: 404, code: "not_found" });
    expect(await call("Stat", { path: "~ghost" })).toMatchObject({ status: 400, code: "invalid_argument" });
    expect(await call("Stat", { path: "/a\0b" })).toMatchObject({ status: 400, code: "invalid_argument" });
    expect(await call("Stat", { path: "/" }, basic("ghost"))).toMatchObject({ status: 401, code: "unauthenticated" });
  });

  test("a file beyond 4 GiB has its size", async () => {
    const sparse = Bun.spawnSync(["truncate", "-s", "6442450945", `${home}/sparse`]);
    expect(sparse.exitCode).toBe(0);
    expect((await call("Stat", { path: `${home}/sparse` })).entry?.size).toBe("6442450945");
  });

  test("MakeDir", async () => {
    const made = await call("MakeDir", { path: `${home}/a/b` }, basic("daemon"));
    expect(made).toMatchObject({ status: 200, entry: { name: "b", owner: "daemon", type: "FILE_TYPE_DIRECTORY" } });
    expect(await call("MakeDir", { path: `${home}/a/b` })).toMatchObject({ status: 409, code: "already_exists" });
    expect(await call("MakeDir", { path: `${home}/dir/é 1` })).toMatchObject({ status: 400, code: "invalid_argument" });
    expect(await call("MakeDir", { path: `${home}/dir/é 1/x` })).toMatchObject({ status: 500, code: "internal" });
  });

  test("Move", async () => {
    const moved = await call("Move", { source: `${home}/dir/é 1`, destination: `${home}/new/2` });
    expect(moved).toMatchObject({ status: 200, entry: { path: `${home}/new/2`, size: "5" } });
    expect(existsSync(`${home}/dir/é 1`)).toBe(false);
    const again = await call("Move", { source: `${home}/dir/é 1`, destination: `${home}/3` });
    expect(again).toMatchObject({ status: 404, code: "not_found" });
    const onto = await call("Move", { source: `${home}/new`, destination: `${home}/dir` });
    expect(onto).toMatchObject({ status: 500, code: "internal" });
  });

  test("ListDir", async () => {
    const paths = async (message: object) =>
      (await call("ListDir", message)).entries?.map(({ path }) => path.slice(home.length + 1));
    expect(await paths({ path: home })).toEqual(["dir", "loop"]);
    expect(await paths({ path: home, depth: 2 })).toEqual(["dir", "dir/sub", "dir/é 1", "loop"]);
    const refused = async (name: string) => (await call("ListDir", { path: `${home}/${name}` })).code;
    expect(await refused("none")).toBe("not_found");
    expect(await refused("dir/é 1")).toBe("invalid_argument");
    expect(await refused("loop")).toBe("failed_precondition");
  });

  test("Remove", async () => {
    for (let round = 0; round < 2; round++) {
      expect((await call("Remove", { path: `${home}/dir` })).status).toBe(200);
      expect(existsSync(`${home}/dir`)).toBe(false);
    }
    expect(await call("Remove", { path: "~ghost" })).toMatchObject({ status: 400, code: "invalid_argument" });
  });
});
