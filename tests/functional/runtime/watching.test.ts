/** Watching directories of a real sandbox, through the SDK and, for options the SDK lacks, by plain calls. */
import { beforeAll, expect, test } from "bun:test";
import { FileNotFoundError, type FilesystemEvent, FilesystemEventType, InvalidArgumentError, Sandbox } from "e2b";
import { envelope, envelopes } from "../../../src/guest/testing/running-guest.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { refusalOf, until } from "../../support/until.ts";

// A separate server: root sees the daemon's descriptors in the first sandbox of a server, but not in ready ones.
const server = serverOfFile("watching");
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const shell = async (script: string) => (await sandbox.commands.run(script)).stdout;

type WatchOpts = NonNullable<Parameters<Sandbox["files"]["watchDir"]>[2]>;

/** Events of a directory as they come. */
async function watch(path: string, options: WatchOpts = {}) {
  const events: FilesystemEvent[] = [];
  const ended = Promise.withResolvers<Error | undefined>();
  const handle = await sandbox.files.watchDir(path, (event) => void events.push(event), {
    ...options,
    onExit: (error) => ended.resolve(error),
  });
  const saw = (type: FilesystemEventType, name: string) =>
    until(
      () => `${type} ${name}; there is ${JSON.stringify(events)}`,
      () => events.some((event) => event.type === type && event.name === name),
    );
  return { events, ended: ended.promise, saw, stop: () => handle.stop() };
}

/** How many inotify instances the sandbox's daemon holds. */
async function instances(): Promise<number> {
  return Number(await sandboxRoot("cat /proc/[0-9]*/fdinfo/* 2>/dev/null | grep -c '^inotify wd' || true"));
}
const sandboxRoot = async (script: string) => (await sandbox.commands.run(script, { user: "root" })).stdout;

test("what happens in a directory is told, in order", async () => {
  await shell("mkdir plain");
  const plain = await watch("plain");
  await shell("cd plain && echo x > f && chmod 600 f && mv f g && rm g && mkdir last");
  await plain.saw(FilesystemEventType.CREATE, "last");
  expect(plain.events.map(({ type, name }) => `${type} ${name}`)).toEqual([
    "create f",
    "write f",
    "chmod f",
    "rename f",
    "create g",
    "remove g",
    "create last",
  ]);
  await plain.stop();
  await plain.ended;
});

test("files that the SDK writes are told, and a thousand at once", async () => {
  await shell("mkdir many");
  const many = await watch("many");
  await sandbox.files.write("many/written", "x");
  await many.saw(FilesystemEventType.CREATE, "written");
  await many.saw(FilesystemEventType.WRITE, "written");
  await shell("cd many && seq -f 'file-%04g' 1 1000 | xargs touch && touch end");
  await many.saw(FilesystemEventType.CREATE, "end");
  const created = many.events.filter(({ type }) => type === FilesystemEventType.CREATE);
  expect(created).toHaveLength(1002);
  await many.stop();
});

test("a tree is watched with everything that appears in it later", async () => {
  await shell("mkdir -p tree/old");
  const tree = await watch("tree", { recursive: true });
  await shell("cd tree && mkdir -p a/b/c && touch a/b/c/f && touch old/f");
  await tree.saw(FilesystemEventType.CREATE, "old/f");
  await shell("cd tree && mv a z && touch z/b/c/g");
  await tree.saw(FilesystemEventType.CREATE, "z/b/c/g");
  const created = tree.events.filter(({ type }) => type === FilesystemEventType.CREATE).map(({ name }) => name);
  expect(created.toSorted()).toEqual(["a", "a/b", "a/b/c", "a/b/c/f", "old/f", "z", "z/b/c/g"]);
  await tree.stop();
});

test("a directory of the image is watched as well as a new one", async () => {
  const image = await watch("/usr/local", { recursive: true });
  await sandboxRoot("echo x > /usr/local/bin/tool && rm /usr/local/bin/tool");
  await image.saw(FilesystemEventType.REMOVE, "bin/tool");
  expect(image.events.map(({ type, name }) => `${type} ${name}`)).toEqual([
    "create bin/tool",
    "write bin/tool",
    "remove bin/tool",
  ]);
  await image.stop();
});

// Seen to fail with a reported runtime version of 0.5.7: the SDK refused by itself.
test("the SDK gets entries with what can still be looked at, and may allow network mounts", async () => {
  await shell("mkdir entries");
  const entries = await watch("entries", { includeEntry: true, allowNetworkMounts: true });
  await shell("echo hello > outside-f && mv outside-f entries/f && chmod 640 entries/f && mv entries/f gone-f");
  await entries.saw(FilesystemEventType.RENAME, "f");
  expect(entries.events.map(({ type }) => type)).toEqual([
    FilesystemEventType.CREATE,
    FilesystemEventType.CHMOD,
    FilesystemEventType.RENAME,
  ]);
  await shell("touch entries/last");
  await entries.saw(FilesystemEventType.CREATE, "last");
  const last = entries.events.find(({ name }) => name === "last");
  expect(last?.entry).toMatchObject({
    name: "last",
    path: "/home/user/entries/last",
    size: 0,
    owner: "user",
    type: "file",
  });
  expect(entries.events.find(({ type }) => type === FilesystemEventType.RENAME)?.entry).toBeUndefined();
  await entries.stop();
});

test("a watch ends with its time limit, and nothing is left of it", async () => {
  await until("earlier watches are gone", async () => (await instances()) === 0);
  await shell("mkdir -p brief");
  const brief = await watch("brief", { timeoutMs: 5_000 });
  expect(await instances()).toBeGreaterThan(0);
  expect((await brief.ended)?.name).toBe("TimeoutError");
  await until("the watch is released", async () => (await instances()) === 0);
});

test("what is not there, or is no directory, cannot be watched", async () => {
  await sandbox.files.write("no-directory", "");
  const attempt = (path: string) => refusalOf(sandbox.files.watchDir(path, () => undefined));
  expect(await attempt("not-there")).toBeInstanceOf(FileNotFoundError);
  expect(await attempt("no-directory")).toBeInstanceOf(InvalidArgumentError);
});

test("entries come with events, and watchers are polled, for clients that ask so", async () => {
  await shell("mkdir raw");
  const headers = await runtimeHeaders();
  const call = async (method: string, message: unknown) => {
    const answer = await fetch(`${server().url}/filesystem.Filesystem/${method}`, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify(message),
    });
    return { status: answer.status, ...((await answer.json()) as { watcherId?: string; events?: object[] }) };
  };
  const { watcherId } = await call("CreateWatcher", { path: "raw", recursive: true, includeEntry: true });
  expect(watcherId).toMatch(/^w[a-z0-9]{20}$/);
  const gone = new AbortController();
  const stream = await fetch(`${server().url}/filesystem.Filesystem/WatchDir`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/connect+json" },
    body: envelope({ path: "raw", includeEntry: true }),
    signal: gone.signal,
  });
  const messages = envelopes(stream.body ?? expect.unreachable());
  expect((await messages.next()).value).toMatchObject({ json: { start: {} } });
  await shell("echo x > outside && mv outside raw/in");
  const created = {
    name: "in",
    type: "EVENT_TYPE_CREATE",
    entry: { path: "/home/user/raw/in", size: "2", owner: "user", type: "FILE_TYPE_FILE" },
  };
  expect((await messages.next()).value).toMatchObject({ json: { filesystem: created } });
  gone.abort();
  // The two watchers hear of it one after the other.
  let polled: Awaited<ReturnType<typeof call>> | undefined;
  await until("the other watcher has it, too", async () => {
    polled = await call("GetWatcherEvents", { watcherId });
    return polled.events !== undefined || polled.status !== 200;
  });
  expect(polled).toMatchObject({ status: 200, events: [created] });
  expect(await call("GetWatcherEvents", { watcherId })).toEqual({ status: 200 });
  expect((await call("RemoveWatcher", { watcherId })).status).toBe(200);
  expect(await call("GetWatcherEvents", { watcherId })).toMatchObject({ status: 404, code: "not_found" });
});

/** The headers that identify a caller to the edge and the runtime. */
async function runtimeHeaders(): Promise<Record<string, string>> {
  const detail = await fetch(`${server().url}/sandboxes/${sandbox.sandboxId}`, {
    headers: { "X-API-Key": server().apiKey },
  });
  const { envdAccessToken } = (await detail.json()) as { envdAccessToken: string };
  return {
    "E2b-Sandbox-Id": sandbox.sandboxId,
    "E2b-Sandbox-Port": "49983",
    "X-Access-Token": envdAccessToken,
    Authorization: `Basic ${btoa("user:")}`,
  };
}
