/** The content of volumes, while other processes change it. */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { untilTrue } from "../../base/testing/until.ts";
import { attempt, run } from "../../system/command.ts";
import { HOST_ID_FIRST } from "../../system/id-range.ts";
import { CONTENT_LIST_MAX_ENTRIES } from "./program/entries.ts";
import { SIZE_MB, VolumesOfFile } from "./testing/volumes-of-file.ts";

const VOLUME = "content";
const SECRET = "of the machine";
const files = new VolumesOfFile();
/** The tree as a sandbox would see it. */
let tree: string;
let outside: string;

beforeAll(async () => {
  await files.volumes.create(VOLUME, SIZE_MB);
  tree = (await files.volumes.hold(VOLUME)).path;
  outside = join(files.data.path, "secret");
  writeFileSync(outside, SECRET);
});

/** As root of a sandbox would do it. */
const inside = (...argv: string[]) => {
  const id = String(HOST_ID_FIRST);
  return ["setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--", ...argv];
};
const text = async (path: string) => await new Response((await files.content.read(VOLUME, path)).content).text();
const stream = (content: string | Uint8Array<ArrayBuffer>) => new Response(content).body;
const write = (path: string, content: string, options = {}) =>
  files.content.write(VOLUME, path, { force: false, ...options }, stream(content));

describe("files", () => {
  test("are written, read and described", async () => {
    const entry = await write("/hello", "world");
    expect(entry).toMatchObject({
      name: "hello",
      path: "/hello",
      type: "file",
      size: 5,
      mode: 0o666,
      uid: 1000,
      gid: 1000,
    });
    expect(new Date(entry.mtime).getTime()).toBeGreaterThan(Date.now() - 60_000);
    expect(await text("/hello")).toBe("world");
    expect(await files.content.stat(VOLUME, "/hello")).toMatchObject({ size: 5, type: "file" });
    expect(lstatSync(join(tree, "hello")).uid).toBe(HOST_ID_FIRST + 1000);
    await files.content.write(VOLUME, "/empty", { force: false }, null);
    expect(await text("/empty")).toBe("");
  });

  test("are replaced only on request, and keep owner and mode", async () => {
    await write("/own", "1", { uid: 7, gid: 8, mode: 0o640 });
    await expect(write("/own", "2")).rejects.toMatchObject({ status: 409, message: expect.stringContaining('"/own"') });
    expect(await write("/own", "22", { force: true })).toMatchObject({ uid: 7, gid: 8, mode: 0o640, size: 2 });
    expect(await text("/own")).toBe("22");
    await expect(write("/none/x", "2")).rejects.toMatchObject({ status: 404 });
    expect(await write("/none/of/x", "2", { force: true })).toMatchObject({ path: "/none/of/x" });
    expect(lstatSync(join(tree, "none/of")).mode & 0o7777).toBe(0o777);
    expect(readdirSync(join(tree, "none/of"))).toEqual(["x"]);
  });

  test("larger than memory are streamed", async () => {
    const piece = new Uint8Array(1024 * 1024);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < 40) controller.enqueue(piece.fill(sent));
        else controller.close();
      },
    });
    expect(await files.content.write(VOLUME, "/large", { force: false }, body)).toMatchObject({
      size: 40 * piece.length,
    });
    const { bytes, content } = await files.content.read(VOLUME, "/large");
    let read = 0;
    for await (const each of content) read += each.length;
    expect([bytes, read]).toEqual([40 * piece.length, 40 * piece.length]);
    await files.content.remove(VOLUME, "/large");
  });

  test("that do not fit are 507, and nothing of them is left", async () => {
    const big = new Uint8Array(SIZE_MB * 1024 * 1024);
    const writing = files.content.write(VOLUME, "/big", { force: false }, stream(big));
    await expect(writing).rejects.toMatchObject({ status: 507, message: expect.stringContaining('"/big"') });
    expect(existsSync(join(tree, "big"))).toBe(false);
    await write("/small", "fits");
  });

  test("of an interrupted upload do not exist", async () => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (pulled++ === 0) controller.enqueue(new Uint8Array(100_000));
        else controller.error(new Error("hung up"));
      },
    });
    await expect(files.content.write(VOLUME, "/torn", { force: true }, body)).rejects.toThrow();
    expect(readdirSync(tree)).not.toContain("torn");
  });
});

describe("folders", () => {
  test("are made, with parents on request", async () => {
    expect(await files.content.makeFolder(VOLUME, "/one", { force: false, mode: 0o750 })).toMatchObject({
      type: "directory",
      mode: 0o750,
      uid: 1000,
    });
    await expect(files.content.makeFolder(VOLUME, "/one", { force: false })).rejects.toMatchObject({ status: 409 });
    expect(await files.content.makeFolder(VOLUME, "/one", { force: true })).toMatchObject({ mode: 0o750 });
    await expect(files.content.makeFolder(VOLUME, "/a/b/c", { force: false })).rejects.toMatchObject({ status: 404 });
    await files.content.makeFolder(VOLUME, "/a/b/c", { force: true });
    await expect(files.content.makeFolder(VOLUME, "/hello/x", { force: true })).rejects.toMatchObject({ status: 400 });
    await expect(files.content.makeFolder(VOLUME, "/hello", { force: true })).rejects.toMatchObject({ status: 409 });
  });

  test("are listed down to a depth", async () => {
    await write("/a/b/file", "x");
    symlinkSync("/etc", join(tree, "a/link"));
    const list = async (depth: number) => (await files.content.list(VOLUME, "/a", depth)).map(({ path }) => path);
    expect(await list(1)).toEqual(["/a/b", "/a/link"]);
    expect(await list(2)).toEqual(["/a/b", "/a/b/c", "/a/b/file", "/a/link"]);
    expect(await files.content.stat(VOLUME, "/a/link")).toMatchObject({ type: "symlink", target: "/etc" });
    await expect(files.content.list(VOLUME, "/hello", 1)).rejects.toMatchObject({ status: 404 });
    await expect(files.content.list(VOLUME, "/nowhere", 1)).rejects.toMatchObject({ status: 404 });
  });

  test("with more entries than the limit cannot be listed, and can be removed", async () => {
    const make = `seq 0 ${CONTENT_LIST_MAX_ENTRIES} | xargs touch`;
    await files.volumes.create("crowd", 1024);
    using held = await files.volumes.hold("crowd");
    await run(inside("/bin/sh", "-c", `cd '${held.path}' && mkdir crowd && cd crowd && ${make}`));
    await expect(files.content.list("crowd", "/crowd", 1)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("20000"),
    });
    await files.content.remove("crowd", "/crowd");
    // As long as a link can be: a fifth as many are more than the server takes at once.
    const links = `import os\nos.mkdir("links")\nfor n in range(4500): os.symlink("x" * 4000, f"links/{n}")`;
    await run(inside("/bin/sh", "-c", `cd '${held.path}' && exec /usr/bin/python3 -c '${links}'`));
    await expect(files.content.list("crowd", "/links", 1)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("longer than 16 MiB together"),
    });
    await files.content.remove("crowd", "/links");
    expect(readdirSync(held.path)).toEqual([]);
    await files.content.end("crowd");
  });

  test("are removed with their content at any depth, except the root", async () => {
    const nest = `import os\nos.chdir("${tree}")\nfor _ in range(6000):\n os.mkdir("d" * 20); os.chdir("d" * 20)\n`;
    await run(inside("/usr/bin/python3", "-c", nest));
    await files.content.remove(VOLUME, `/${"d".repeat(20)}`);
    await files.content.remove(VOLUME, "/a");
    expect(readdirSync(tree).filter((name) => /^(a|d+)$/.test(name))).toEqual([]);
    await expect(files.content.remove(VOLUME, "/a")).rejects.toMatchObject({ status: 404 });
    await expect(files.content.remove(VOLUME, "/")).rejects.toMatchObject({ status: 400 });
  });
});

test("owner and mode are changed", async () => {
  await write("/mine", "x");
  expect(await files.content.change(VOLUME, "/mine", { uid: 0, mode: 0o600 })).toMatchObject({
    uid: 0,
    gid: 1000,
    mode: 0o600,
  });
  expect(lstatSync(join(tree, "mine")).uid).toBe(HOST_ID_FIRST);
  expect(await text("/mine")).toBe("x");
  await expect(files.content.change(VOLUME, "/nobody", { uid: 1 })).rejects.toMatchObject({ status: 404 });
});

describe("special files are never opened", () => {
  test.each([
    ["a pipe", (path: string) => run(inside("mkfifo", path))],
    ["a device", (path: string) => run(["mknod", path, "c", "1", "5"])],
    [
      "a socket",
      (path: string) =>
        run(inside("/usr/bin/python3", "-c", `import socket; socket.socket(socket.AF_UNIX).bind("${path}")`)),
    ],
    ["a folder", (path: string) => run(inside("mkdir", path))],
  ])("%s", async (kind, make) => {
    const name = kind.replace("a ", "");
    await make(join(tree, name));
    for (const path of [`/${name}`, `/to-${name}`]) {
      if (path !== `/${name}`) symlinkSync(`/${name}`, join(tree, path));
      const refused = { status: 400, message: expect.stringContaining(kind) };
      await expect(files.content.read(VOLUME, path)).rejects.toMatchObject(refused);
      await expect(write(path, "x", { force: true })).rejects.toMatchObject(refused);
    }
    expect(await files.content.stat(VOLUME, `/${name}`)).toMatchObject({
      type: kind === "a folder" ? "directory" : "unknown",
    });
    await files.content.remove(VOLUME, `/${name}`);
  });
});

describe("no path leaves the volume", () => {
  const reads = ["/etc/passwd", "/../../../../etc/passwd", "/proc/self/root/etc/passwd", "/proc/self/environ"];

  test.each(reads)("%s", async (path) => {
    await expect(files.content.read(VOLUME, path)).rejects.toMatchObject({ status: 404 });
  });

  test.each(["", "../".repeat(20), "/../../.."])("by a link to %p and the machine's path", async (prefix) => {
    const link = join(tree, "escape");
    rmSync(link, { force: true });
    symlinkSync(`${prefix}${outside}`, link);
    await expect(files.content.read(VOLUME, "/escape")).rejects.toMatchObject({ status: 404 });
    await expect(write("/escape", "broken", { force: true })).rejects.toThrow();
    await expect(files.content.change(VOLUME, "/escape", { mode: 0 })).rejects.toMatchObject({ status: 404 });
    await files.content.remove(VOLUME, "/escape");
    expect(readFileSync(outside, "utf8")).toBe(SECRET);
  });

  test("while folders and links are swapped", async () => {
    const swap = `
import ctypes, os
swap = ctypes.CDLL(None).renameat2
os.chdir("${tree}")
os.makedirs("real")
open("real/secret", "w").write("mine")
os.symlink("${files.data.path}", "link")
open("begun", "w")
while True: swap(-100, b"real", -100, b"link", 2)
`;
    const swapper = Bun.spawn(inside("/usr/bin/python3", "-c", swap));
    try {
      await untilTrue(() => existsSync(join(tree, "begun")));
      const seen = new Set<string>();
      // The process that swaps the two files may not get a turn for so long.
      for (let round = 0; round < 100 || (!seen.has("mine") && round < 10_000); round++) {
        seen.add(await text("/real/secret").catch(({ status }) => String(status)));
        await write("/real/secret", "mine", { force: true }).catch(() => undefined);
        await files.content.list(VOLUME, "/", 3).catch(() => undefined);
        if (round % 20 === 0)
          await files.content.change(VOLUME, "/real/secret", { mode: 0o666 }).catch(() => undefined);
      }
      expect([...seen].filter((each) => !["mine", "404"].includes(each))).toEqual([]);
      expect(seen.has("mine")).toBe(true);
      expect(readFileSync(outside, "utf8")).toBe(SECRET);
      expect(lstatSync(outside).mode & 0o777).toBe(0o644);
    } finally {
      swapper.kill("SIGKILL");
      await swapper.exited;
    }
  });
});

describe("the process", () => {
  test("is unprivileged, sees neither network nor processes of the machine, and ends with the server", async () => {
    await files.content.stat(VOLUME, "/");
    const [pid] = (await run(["pgrep", "--full", `content.js ${tree}`])).trim().split("\n").slice(-1);
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    expect(status).toMatch(new RegExp(`^Uid:\\s+${HOST_ID_FIRST}\\s`, "m"));
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(await run(["readlink", `/proc/${pid}/root`])).toBe(`${tree}\n`);
    for (const kind of ["user", "pid", "net", "ipc"]) {
      expect(await run(["readlink", `/proc/${pid}/ns/${kind}`])).not.toBe(
        await run(["readlink", `/proc/self/ns/${kind}`]),
      );
    }
    await files.content.close();
    await untilTrue(async () => (await attempt(["pgrep", "--full", `content.js ${tree}`])).exitCode !== 0);
    expect(await files.content.stat(VOLUME, "/")).toMatchObject({ path: "/", name: "/", type: "directory" });
  });

  test("is restarted by the next call after a kill", async () => {
    await files.content.stat(VOLUME, "/");
    await run(["pkill", "--signal", "KILL", "--full", `content.js ${tree}`]);
    const ask = () => files.content.stat(VOLUME, "/").catch(() => undefined);
    await untilTrue(async () => (await ask()) !== undefined);
  });
});
