/** Events that a real daemon reports for watched directories. */
import { beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { createClient } from "@connectrpc/connect";
import { EventType, Filesystem } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { emptyFolderOf, guestOfFile } from "../../testing/guest-of-file.ts";
import { basic } from "../../testing/running-guest.ts";
import { createWatcher, pollEvents, put, StreamedWatch, shown } from "../../testing/watching.ts";

const guest = await guestOfFile();
const home = emptyFolderOf(guest);
beforeEach(() => {
  for (const name of ["watched", "outside"]) mkdirSync(`${home}/${name}`);
});

const watched = (name = "") => `${home}/watched${name && `/${name}`}`;
const watch = (options: object = {}) => StreamedWatch.open(guest, { path: watched(), ...options });
const shell = (script: string) => {
  const done = Bun.spawnSync(["/bin/sh", "-c", script], { cwd: watched() });
  if (done.exitCode !== 0) throw new Error(done.stderr.toString());
};

describe("one directory", () => {
  test("reports each change of a file with its own event type", async () => {
    await using reported = await watch();
    put(watched("f"), "content");
    chmodSync(watched("f"), 0o600);
    appendFileSync(watched("f"), "more");
    renameSync(watched("f"), watched("g é\n"));
    unlinkSync(watched("g é\n"));
    expect(await reported.shown()).toEqual([
      "CREATE f",
      "WRITE f",
      "CHMOD f",
      "WRITE f",
      "RENAME f",
      "CREATE g é\n",
      "REMOVE g é\n",
    ]);
  });

  test("reports links, directories, and entries moved in and out", async () => {
    await using reported = await watch();
    symlinkSync("nowhere", watched("link"));
    mkdirSync(watched("dir"));
    chmodSync(watched("dir"), 0o700);
    rmdirSync(watched("dir"));
    put(`${home}/outside/f`);
    linkSync(`${home}/outside/f`, watched("hard"));
    renameSync(`${home}/outside/f`, watched("in"));
    renameSync(watched("hard"), `${home}/outside/out`);
    expect(await reported.shown()).toEqual([
      "CREATE link",
      "CREATE dir",
      "CHMOD dir",
      "REMOVE dir",
      "CREATE hard",
      "CREATE in",
      "RENAME hard",
    ]);
  });

  test("reports neither deeper entries nor reads", async () => {
    mkdirSync(watched("sub"));
    await using reported = await watch();
    shell("echo x > sub/f; cat sub/f; ls sub; mkdir sub/deeper");
    expect(await reported.shown()).toEqual([]);
  });

  test("reports itself as a dot, and nothing after its removal", async () => {
    await using reported = await StreamedWatch.open(guest, { path: watched() }, { "Keepalive-Ping-Interval": "1" });
    chmodSync(watched(), 0o700);
    rmdirSync(watched());
    expect(await reported.nextEvent()).toEqual({ name: ".", type: "EVENT_TYPE_CHMOD" });
    expect(await reported.nextEvent()).toEqual({ name: ".", type: "EVENT_TYPE_REMOVE" });
    mkdirSync(watched());
    put(watched("f"));
    expect(await reported.next()).toEqual({ keepalive: {} });
  });

  test("reports its own rename, and nothing afterwards", async () => {
    await using reported = await StreamedWatch.open(guest, { path: watched() }, { "Keepalive-Ping-Interval": "1" });
    renameSync(watched(), `${home}/renamed`);
    put(`${home}/renamed/f`);
    expect(await reported.nextEvent()).toEqual({ name: ".", type: "EVENT_TYPE_RENAME" });
    expect(await reported.next()).toEqual({ keepalive: {} });
  });

  test("may be given through a link, or relative to the home of the user", async () => {
    symlinkSync("watched", `${home}/link`);
    await using reported = await StreamedWatch.open(guest, { path: `${home}/link` });
    put(watched("f"));
    expect(await reported.shown()).toEqual(["CREATE f"]);
    const response = await guest.call("filesystem.Filesystem/CreateWatcher", { path: "no/such" }, basic("root"));
    expect(await response.json()).toMatchObject({
      code: "not_found",
      message: expect.stringContaining("/root/no/such"),
    });
  });
});

describe("a tree", () => {
  test("reports existing and later directories", async () => {
    mkdirSync(watched("old/deep"), { recursive: true });
    await using reported = await watch({ recursive: true });
    put(watched("old/deep/f"));
    mkdirSync(watched("new"));
    expect(await reported.shown()).toEqual(["CREATE old/deep/f", "CREATE new"]);
    put(watched("new/f"), "x");
    chmodSync(watched("new"), 0o700);
    rmSync(watched("new"), { recursive: true });
    expect(await reported.shown()).toEqual(["CREATE new/f", "WRITE new/f", "CHMOD new", "REMOVE new/f", "REMOVE new"]);
  });

  test("reports a name again when it is created again", async () => {
    mkdirSync(`${home}/outside/d`);
    put(`${home}/outside/d/f`);
    await using reported = await watch({ recursive: true });
    renameSync(`${home}/outside/d`, watched("d"));
    expect(await reported.shown()).toEqual(["CREATE d", "CREATE d/f"]);
    put(watched("d/g"));
    renameSync(watched("d/g"), watched("d/f"));
    unlinkSync(watched("d/f"));
    put(watched("d/f"));
    expect(await reported.shown()).toEqual(["CREATE d/g", "RENAME d/g", "CREATE d/f", "REMOVE d/f", "CREATE d/f"]);
  });

  test("follows a renamed directory with its content", async () => {
    mkdirSync(watched("a/b/c"), { recursive: true });
    mkdirSync(watched("other"));
    await using reported = await watch({ recursive: true });
    renameSync(watched("a"), watched("other/z"));
    put(watched("other/z/b/c/f"));
    mkdirSync(watched("other/z/b/c/new"));
    expect(await reported.shown()).toEqual([
      "RENAME a",
      "CREATE other/z",
      "CREATE other/z/b/c/f",
      "CREATE other/z/b/c/new",
    ]);
    put(watched("other/z/b/c/new/g"));
    mkdirSync(watched("a"));
    expect(await reported.shown()).toEqual(["CREATE other/z/b/c/new/g", "CREATE a"]);
  });

  test("drops a directory that is moved out, and follows it again when it returns", async () => {
    mkdirSync(watched("a/b"), { recursive: true });
    await using reported = await watch({ recursive: true });
    renameSync(watched("a"), `${home}/outside/a`);
    put(`${home}/outside/a/b/f`);
    expect(await reported.shown()).toEqual(["RENAME a"]);
    put(`${home}/outside/a/b/g`);
    expect(await reported.shown()).toEqual([]);
    renameSync(`${home}/outside/a`, watched("again"));
    const back = await reported.shown();
    expect(back.slice(0, 2)).toEqual(["CREATE again", "CREATE again/b"]);
    expect(back.slice(2).toSorted()).toEqual(["CREATE again/b/f", "CREATE again/b/g"]);
    unlinkSync(watched("again/b/f"));
    expect(await reported.shown()).toEqual(["REMOVE again/b/f"]);
  });

  test("continues when a directory above it is renamed", async () => {
    mkdirSync(`${home}/up/watched/sub`, { recursive: true });
    await using reported = await StreamedWatch.open(guest, { path: `${home}/up/watched`, recursive: true });
    renameSync(`${home}/up`, `${home}/elsewhere`);
    mkdirSync(`${home}/elsewhere/watched/new`);
    put(`${home}/elsewhere/watched/sub/f`);
    expect([(await reported.next()).filesystem?.name, (await reported.next()).filesystem?.name]).toEqual([
      "new",
      "sub/f",
    ]);
  });

  test("does not follow links", async () => {
    symlinkSync(`${home}/outside`, watched("link"));
    await using reported = await watch({ recursive: true });
    symlinkSync(`${home}/outside`, watched("later"));
    put(`${home}/outside/f`);
    expect(await reported.shown()).toEqual(["CREATE later"]);
  });
});

describe("entries", () => {
  test("come with existing files, and not with removed ones", async () => {
    await using reported = await watch({ recursive: true, includeEntry: true });
    put(watched("f"), "12345");
    mkdirSync(watched("dir"));
    expect(await reported.events()).toMatchObject([
      { name: "f", type: "EVENT_TYPE_CREATE", entry: { name: "f", path: watched("f"), type: "FILE_TYPE_FILE" } },
      { name: "f", type: "EVENT_TYPE_WRITE", entry: { size: "5", permissions: "-rw-r--r--" } },
      { name: "dir", type: "EVENT_TYPE_CREATE", entry: { type: "FILE_TYPE_DIRECTORY" } },
    ]);
    chmodSync(watched(), 0o700);
    renameSync(watched("f"), watched("dir/g"));
    const later = await reported.events();
    expect(later.map(shown)).toEqual(["CHMOD .", "RENAME f", "CREATE dir/g"]);
    expect(later.map(({ entry }) => entry?.path)).toEqual([watched(), undefined, watched("dir/g")]);
    unlinkSync(watched("dir/g"));
    expect(await reported.events()).toEqual([{ name: "dir/g", type: "EVENT_TYPE_REMOVE" }]);
  });

  test("are left out unless requested, and for clients that do not know them", async () => {
    await using plain = await watch();
    const legacy = { "User-Agent": "connect-python" };
    const request = { path: watched(), includeEntry: true };
    await using old = await StreamedWatch.open(guest, request, legacy);
    const watcherId = await createWatcher(guest, request);
    put(watched("f"));
    expect(await plain.events()).toEqual([{ name: "f", type: "EVENT_TYPE_CREATE" }]);
    expect((await old.next()).filesystem).toEqual({ name: "f", type: "EVENT_TYPE_CREATE" });
    const polled = await guest.call("filesystem.Filesystem/GetWatcherEvents", { watcherId }, legacy);
    expect(polled.headers.get("X-E2B-Legacy-SDK")).toBe("true");
    expect(JSON.stringify(await polled.json())).not.toContain("entry");
  });
});

describe("polling watchers", () => {
  test("collect events between the calls, each reported once", async () => {
    const watcherId = await createWatcher(guest, { path: watched(), recursive: true });
    expect(watcherId).toMatch(/^w[a-z0-9]{20}$/);
    shell("mkdir -p a/b && touch a/b/f");
    const names = (await pollEvents(guest, watcherId)).filter(({ type }) => type === "EVENT_TYPE_CREATE");
    expect(names.map(({ name }) => name)).toEqual(["a", "a/b", "a/b/f"]);
    unlinkSync(watched("a/b/f"));
    expect((await pollEvents(guest, watcherId)).map(shown)).toEqual(["REMOVE a/b/f"]);
    const remove = () => guest.call("filesystem.Filesystem/RemoveWatcher", { watcherId });
    expect((await remove()).status).toBe(200);
    for (const method of ["RemoveWatcher", "GetWatcherEvents"]) {
      const response = await guest.call(`filesystem.Filesystem/${method}`, { watcherId });
      expect([response.status, await response.json()]).toMatchObject([404, { code: "not_found" }]);
    }
  });
});

describe("a client with binary messages", () => {
  test("watches, polls, and gets errors", async () => {
    put(`${home}/outside/f`, "123");
    const client = createClient(Filesystem, guest.binaryTransport());
    const { watcherId } = await client.createWatcher({ path: watched(), includeEntry: true });
    const gone = new AbortController();
    const seen: unknown[] = [];
    const stream = client.watchDir({ path: watched(), recursive: true, includeEntry: true }, { signal: gone.signal });
    for await (const { event } of stream) {
      if (event.case === "start") renameSync(`${home}/outside/f`, watched("f"));
      if (event.case === "filesystem") seen.push([event.value.name, event.value.type, event.value.entry?.size]);
      if (seen.length === 1) break;
    }
    gone.abort();
    const expected = [["f", EventType.CREATE, 3n]];
    expect(seen).toEqual(expected);
    const { events } = await client.getWatcherEvents({ watcherId });
    expect(events.map(({ name, type, entry }) => [name, type, entry?.size])).toEqual(expected);
    await client.removeWatcher({ watcherId });
    const late = await client.removeWatcher({ watcherId }).catch((thrown: unknown) => thrown);
    expect(String(late)).toContain("not_found");
  });
});

describe("refusals", () => {
  const cases = [
    ["nothing there", "none", "not_found"],
    ["a file", "file", "invalid_argument"],
    ["something below a file", "file/x", "not_found"],
    ["a link that leads nowhere", "broken", "not_found"],
    ["another user's home", "~ghost", "invalid_argument"],
  ] as const;

  test.each(cases)("of %s", async (_, name, code) => {
    put(`${home}/file`);
    symlinkSync("nowhere", `${home}/broken`);
    const path = name.startsWith("~") ? name : `${home}/${name}`;
    const response = await guest.call("filesystem.Filesystem/CreateWatcher", { path });
    expect(await response.json()).toMatchObject({ code });
    const stream = guest.stream("filesystem.Filesystem/WatchDir", { path });
    expect((await stream.next()).value).toMatchObject({ end: true, json: { error: { code } } });
    await stream.return(undefined);
  });
});
