/** Watching directories of a real sandbox through the SDK. Tests beside the watcher cover it in detail. */
import { beforeAll, expect, test } from "bun:test";
import { type FilesystemEvent, FilesystemEventType, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

// A separate server: root sees the daemon's descriptors in the first sandbox of a server, but not in ready ones.
const server = sharedServer();
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

test("a watch reports events of a directory in order", async () => {
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

test("a watch reports events of a folder of the image", async () => {
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

// Guards against a reported runtime version of 0.5.7, with which the SDK rejects the call itself.
test("events carry entries of existing files, and a watch may include network mounts", async () => {
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

test("a watch ends at its timeout and leaves nothing", async () => {
  await until("earlier watches are gone", async () => (await instances()) === 0);
  await shell("mkdir -p brief");
  const brief = await watch("brief", { timeoutMs: 5_000 });
  expect(await instances()).toBeGreaterThan(0);
  expect((await brief.ended)?.name).toBe("TimeoutError");
  await until("the watch is released", async () => (await instances()) === 0);
});
