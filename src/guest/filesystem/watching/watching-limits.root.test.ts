/** The maximum cost of watching, and that nothing remains afterwards, on real daemons. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { timed } from "../../../base/testing/timed.ts";
import { until, untilTrue } from "../../../base/testing/until.ts";
import { emptyFolderOf, guestOfFile } from "../../testing/guest-of-file.ts";
import { envelope, envelopes, RunningGuest } from "../../testing/running-guest.ts";
import { createWatcher, kernelWatches, pollEvents, put, StreamedWatch, shown } from "../../testing/watching.ts";
import { POLLING_WATCHERS_MAX, WATCHERS_MAX } from "./watchers.ts";

const guest = await guestOfFile();
const home = emptyFolderOf(guest);

const call = async (method: string, message: unknown, to = guest) => {
  const response = await to.call(`filesystem.Filesystem/${method}`, message);
  const reported = (await response.json()) as { watcherId?: string; code?: string; message?: string };
  return { status: response.status, ...reported };
};
const remove = (watcherId: string, of = guest) => call("RemoveWatcher", { watcherId }, of);
const watches = () => kernelWatches(guest.pid);

async function untilWatched(directories: number | undefined): Promise<void> {
  await until(
    () => `under watch: ${watches().join(", ") || "nothing"}`,
    () => watches()[0] === directories,
  );
}

const untilReleased = () => untilWatched(undefined);

/** Makes files in another process, and removes each at once. */
async function churn(files: number, nameLength = 200): Promise<void> {
  const script = `
import os
for at in range(${files}):
  name = "${home}/" + str(at).rjust(${nameLength}, "x")
  os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
  os.unlink(name)`;
  expect(await Bun.spawn(["python3", "-c", script]).exited).toBe(0);
}

describe("the end of a stream", () => {
  // Guards against leaving the release to the generator's `finally` alone: the second kind of client then leaves its
  // watch behind.
  test.each([
    ["listens", true],
    ["has stopped reading", false],
  ])("by a client that %s releases the watch", async (_, listens) => {
    mkdirSync(`${home}/a/b`, { recursive: true });
    const body = Buffer.from(envelope({ path: home, recursive: true }));
    const socket = connect(guest.port, "127.0.0.1");
    socket.write(
      "POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\nHost: guest\r\nContent-Type: application/connect+json\r\n" +
        `Content-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body);
    await once(socket, "readable");
    await untilWatched(3);
    if (listens) socket.resume();
    // More than the socket holds, less than the daemon's buffer, and each time less than the kernel's queue.
    for (let round = 0; round < 3; round++) {
      await churn(4_000, 250);
      expect((await guest.fetch("/health")).status).toBe(204);
    }
    expect(watches()[0]).toBe(3);
    socket.destroy();
    await untilReleased();
  });

  // Guards against a stream that ends at its deadline as if all were well.
  timed("comes with the deadline of the call, between keepalives, and releases the watch", async () => {
    const headers = { "Connect-Timeout-Ms": "2500", "Keepalive-Ping-Interval": "1" };
    await using reported = await StreamedWatch.open(guest, { path: home }, headers);
    expect([await reported.next(), await reported.next()]).toEqual([{ keepalive: {} }, { keepalive: {} }]);
    expect(await reported.next()).toMatchObject({ error: { code: "deadline_exceeded" } });
    await untilReleased();
  });

  test("comes at once when the kernel has lost events", async () => {
    // Guards against an ignored overflow event: clients then do not notice the loss.
    await using reported = await StreamedWatch.open(guest, { path: home });
    const watcherId = await createWatcher(guest, { path: home });
    const queue = Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"));
    process.kill(guest.pid, "SIGSTOP");
    try {
      await churn(queue / 2 + 100, 20);
    } finally {
      process.kill(guest.pid, "SIGCONT");
    }
    let events = 0;
    let last = await reported.next();
    for (; last.error === undefined; last = await reported.next()) events++;
    expect(events).toBe(queue);
    expect(last.error).toMatchObject({ code: "internal", message: expect.stringContaining("max_queued_events") });
    for (let again = 0; again < 2; again++) {
      expect(await call("GetWatcherEvents", { watcherId })).toMatchObject({ status: 500, code: "internal" });
    }
    await untilReleased();
    expect((await remove(watcherId)).status).toBe(200);
  });
});

describe("unread events", () => {
  // Guards against an unbounded buffer, with which the guest grows with every event.
  test("above the limit end the watch, stream or polled", async () => {
    const response = await guest.fetch("/filesystem.Filesystem/WatchDir", {
      method: "POST",
      headers: { "Content-Type": "application/connect+json" },
      body: envelope({ path: home }),
    });
    const messages = envelopes(response.body ?? expect.unreachable());
    await messages.next();
    const watcherId = await createWatcher(guest, { path: home });
    // Each time less than the kernel's queue holds: an overflow would end the watch in another way.
    for (let round = 0; watches().length > 0 && round < 50; round++) {
      await churn(4_000);
      expect((await guest.fetch("/health")).status).toBe(204);
    }
    expect(watches()).toEqual([]);
    expect((await guest.memoryKib()).peak).toBeLessThan(220 * 1024);
    for (let again = 0; again < 2; again++) {
      expect(await call("GetWatcherEvents", { watcherId })).toMatchObject({ status: 500, code: "internal" });
    }
    let last: unknown;
    for await (const { json } of messages) last = json;
    expect(last).toMatchObject({ error: { code: "resource_exhausted" } });
    expect((await remove(watcherId)).status).toBe(200);
  });
});

describe("a flood", () => {
  // Guards against overflow of the kernel's queue while events are being sent.
  timed("above the kernel's queue is delivered completely to a client that reads", async () => {
    await using reported = await StreamedWatch.open(guest, { path: home });
    const flood = churn(20_000, 12);
    try {
      const last = String(19_999).padStart(12, "x");
      let events = 0;
      for (;;) {
        const { filesystem, error } = await reported.next();
        expect(error).toBeUndefined();
        events++;
        if (filesystem?.name === last && filesystem.type === "EVENT_TYPE_REMOVE") break;
      }
      expect(events).toBe(40_000);
    } finally {
      await flood;
    }
  });
});

describe("a thousand files at once", () => {
  // Guards against keeping only the first 256 events of each batch.
  test.each([{}, { recursive: true, includeEntry: true }])("are all reported, %p", async (options) => {
    await using reported = await StreamedWatch.open(guest, { path: home, ...options });
    const watcherId = await createWatcher(guest, { path: home, ...options });
    const names = Array.from({ length: 1000 }, (_, at) => `file-${String(at).padStart(4, "0")}`);
    for (const name of names) put(`${home}/${name}`, "x");
    const expected = names.flatMap((name) => [`CREATE ${name}`, `WRITE ${name}`]);
    expect(await reported.shown()).toEqual(expected);
    expect((await pollEvents(guest, watcherId)).map(shown)).toEqual(expected);
    await remove(watcherId);
  });

  test("are reported if they were in a directory before it was moved in", async () => {
    mkdirSync(`${home}/watched`);
    mkdirSync(`${home}/full/deep`, { recursive: true });
    for (let at = 0; at < 500; at++) for (const path of ["full", "full/deep"]) put(`${home}/${path}/${at}`);
    await using reported = await StreamedWatch.open(guest, { path: `${home}/watched`, recursive: true });
    await Bun.spawn(["mv", "full", "watched"], { cwd: home }).exited;
    const events = await reported.shown();
    expect([events.length, new Set(events).size]).toEqual([1002, 1002]);
  });
});

describe("polling watchers", () => {
  test("outlive the request that made them, and leave nothing once removed", async () => {
    const gone = new AbortController();
    const response = await guest.fetch("/filesystem.Filesystem/CreateWatcher", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Connect-Timeout-Ms": "2000", Connection: "close" },
      body: JSON.stringify({ path: home }),
      signal: gone.signal,
    });
    const { watcherId } = (await response.json()) as { watcherId: string };
    gone.abort();
    await Bun.sleep(2_100);
    put(`${home}/f`, "x");
    expect((await pollEvents(guest, watcherId)).map(shown)).toEqual(["CREATE f", "WRITE f"]);
    expect((await remove(watcherId)).status).toBe(200);
    await untilReleased();
  });

  // Guards against one watcher more than the maximum.
  test("and streams are limited in number", async () => {
    const ids: string[] = [];
    for (let at = 0; at < POLLING_WATCHERS_MAX; at++) ids.push(await createWatcher(guest, { path: home }));
    expect(await call("CreateWatcher", { path: home })).toMatchObject({
      code: "resource_exhausted",
      message: expect.stringContaining(String(POLLING_WATCHERS_MAX)),
    });
    const streams: StreamedWatch[] = [];
    while (streams.length < WATCHERS_MAX - ids.length) streams.push(await StreamedWatch.open(guest, { path: home }));
    const refused = await StreamedWatch.open(guest, { path: home }).catch((thrown: Error) => thrown.message);
    expect(refused).toContain("resource_exhausted");
    for (const stream of streams) await stream[Symbol.asyncDispose]();
    for (const id of ids) await remove(id);
    await untilReleased();
    await remove(await createWatcher(guest, { path: home }));
  });

  test("that cannot be made use no resources", async () => {
    for (let at = 0; at < POLLING_WATCHERS_MAX + 1; at++) {
      expect((await call("CreateWatcher", { path: `${home}/none` })).code).toBe("not_found");
    }
    await untilReleased();
  });
});

describe("the kernel's own limits", () => {
  // Guards against `internal` for exhausted resources.
  test("are reported as such", async () => {
    const limits = "echo 2 >/proc/sys/user/max_inotify_instances; echo 4 >/proc/sys/user/max_inotify_watches";
    const through = ["unshare", "--user", "--map-root-user", "sh", "-c", `${limits}; exec "$@"`, "sh"];
    await using limited = await RunningGuest.start({}, () => through);
    const create = (request: object) => call("CreateWatcher", request, limited);
    mkdirSync(`${limited.folder}/a/b/c/d/e`, { recursive: true });
    const path = `${limited.folder}/a`;
    const tooDeep = await create({ path, recursive: true });
    expect(tooDeep).toMatchObject({ code: "resource_exhausted", message: expect.stringContaining("max_user_watches") });
    // The kernel takes a moment to release a closed instance, so the second request may need a retry.
    let made = 0;
    for (let attempt = 0; made < 2 && attempt < 1000; attempt++) if ((await create({ path })).watcherId) made++;
    expect(made).toBe(2);
    expect(await create({ path })).toMatchObject({
      code: "resource_exhausted",
      message: expect.stringContaining("max_user_instances"),
    });
  });
});

describe("a network file system", () => {
  const guestWithRemote = () =>
    RunningGuest.start({}, (folder) => {
      mkdirSync(`${folder}/remote`);
      const script = `${import.meta.dir}/../../testing/fuse.py`;
      return ["unshare", "--mount", "--propagation=private", "python3", script, `${folder}/remote`];
    });

  test("is rejected unless it is allowed", async () => {
    await using mounted = await guestWithRemote();
    const path = `${mounted.folder}/remote`;
    expect(await call("CreateWatcher", { path }, mounted)).toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining("FUSE"),
    });
    expect((await call("CreateWatcher", { path, allowNetworkMounts: true }, mounted)).watcherId).toBeDefined();
  });

  test("below a watched directory is left out unless it is allowed", async () => {
    await using mounted = await guestWithRemote();
    const directories = async (allowNetworkMounts: boolean) => {
      const watcherId = await createWatcher(mounted, { path: mounted.folder, recursive: true, allowNetworkMounts });
      const [watched = 0] = kernelWatches(mounted.pid);
      await remove(watcherId, mounted);
      await untilTrue(() => kernelWatches(mounted.pid).length === 0);
      return watched;
    };
    expect((await directories(true)) - (await directories(false))).toBe(1);
  });
});
