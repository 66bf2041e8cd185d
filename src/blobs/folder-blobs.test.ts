/**
 * Every named blob is complete: a put that breaks off, is too large, races with another or is killed leaves nothing.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { untilTrue } from "../base/testing/until.ts";
import { Fault } from "../contract/fault.ts";
import { FolderBlobs } from "./folder-blobs.ts";

const NOW = Date.parse("2027-01-15T08:00:00Z");
const MAX = 1024;

const folder = folderOfTest("blobs");
let clock: ManualClock;
let blobs: FolderBlobs;

beforeEach(async () => {
  clock = new ManualClock(NOW);
  blobs = await FolderBlobs.open(folder, clock);
});

function streamOf(...texts: string[]): ReadableStream<Uint8Array> {
  return new Response(texts.join("")).body ?? new ReadableStream();
}

/** A stream that the test feeds piece by piece. */
function fed() {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let isCancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given;
    },
    cancel() {
      isCancelled = true;
    },
  });
  return {
    stream,
    give: (text: string) => controller.enqueue(new TextEncoder().encode(text)),
    end: () => controller.close(),
    breakOff: () => controller.error(new Error("the connection is gone")),
    isCancelled: () => isCancelled,
  };
}

const textOf = async (name: string) => await new Response(await blobs.open(name)).text();
const incoming = () => readdirSync(join(folder, "incoming"));
const statusOf = (work: Promise<unknown>) => work.then(() => 200).catch((error) => Fault.from(error).status);

test("a blob is found, read, listed and removed under its name", async () => {
  expect(await blobs.put("files/team/one", streamOf("hel", "lo"), MAX)).toBe(5);
  await blobs.put("files/other/two", streamOf(""), MAX);
  expect(await textOf("files/team/one")).toBe("hello");
  expect(await textOf("files/other/two")).toBe("");
  expect(await blobs.find("files/team/one")).toEqual({ name: "files/team/one", bytes: 5, usedAt: NOW });
  expect((await blobs.list("")).map(({ name }) => name)).toEqual(["files/other/two", "files/team/one"]);
  expect((await blobs.list("files/team/")).map(({ name }) => name)).toEqual(["files/team/one"]);
  expect(await blobs.list("files/nobody")).toEqual([]);
  await blobs.remove("files/team/one");
  expect(await blobs.find("files/team/one")).toBeUndefined();
  expect(await statusOf(blobs.open("files/team/one"))).toBe(404);
  await blobs.remove("files/team/one");
});

test("a folder of blobs is not a blob", async () => {
  await blobs.put("files/team/one", streamOf("x"), MAX);
  expect(await blobs.find("files/team")).toBeUndefined();
  expect(await blobs.find("files/team/one/more")).toBeUndefined();
  expect(await statusOf(blobs.open("files/team"))).toBe(404);
  expect(await blobs.touch("files/team")).toBe(false);
  await blobs.remove("files/team");
  expect(await textOf("files/team/one")).toBe("x");
});

test("a touch updates the time of last use", async () => {
  await blobs.put("a", streamOf("x"), MAX);
  await clock.advance(5_000, async () => undefined);
  expect(await blobs.touch("a")).toBe(true);
  expect((await blobs.find("a"))?.usedAt).toBe(NOW + 5_000);
  expect(await blobs.touch("b")).toBe(false);
});

test("only the owner of the folder can read it", async () => {
  await blobs.put("files/a", streamOf("x"), MAX);
  const modes = ["incoming", "whole", "whole/files", "whole/files/a"].map((path) => statSync(join(folder, path)).mode);
  expect(modes.map((mode) => mode & 0o777)).toEqual([0o700, 0o700, 0o700, 0o600]);
});

describe("no blob is stored from", () => {
  test("a broken stream, and the earlier blob stays", async () => {
    await blobs.put("a", streamOf("before"), MAX);
    const content = fed();
    const put = blobs.put("a", content.stream, MAX);
    content.give("half of");
    content.breakOff();
    expect(await statusOf(put)).toBe(500);
    expect(await textOf("a")).toBe("before");
    expect(incoming()).toEqual([]);
  });

  test("a stream above the size limit, which is not read further", async () => {
    const content = fed();
    const put = blobs.put("a", content.stream, 6);
    content.give("123456");
    content.give("7");
    expect(await statusOf(put)).toBe(413);
    expect(content.isCancelled()).toBe(true);
    expect(await blobs.find("a")).toBeUndefined();
    expect(incoming()).toEqual([]);
    expect(await blobs.put("a", streamOf("123456"), 6)).toBe(6);
  });

  test.each([
    "",
    "/",
    "..",
    "../a",
    "a/../../b",
    "a/./b",
    "/etc/passwd",
    "a//b",
    "a/",
    "a\0b",
    "a b",
    "A",
    "a.tar",
    "ä",
    "a\n",
    "a".repeat(257),
  ])("the name %j, which could leave the folder", async (name) => {
    const tries = [
      blobs.put(name, streamOf("x"), MAX),
      blobs.find(name),
      blobs.touch(name),
      blobs.open(name),
      blobs.remove(name),
    ];
    expect(await Promise.all(tries.map(statusOf))).toEqual([400, 400, 400, 400, 400]);
    expect(readdirSync(folder).sort()).toEqual(["incoming", "whole"]);
    expect(readdirSync(join(folder, "whole"))).toEqual([]);
  });

  test("a name that could leave the folder, in a list", async () => {
    expect(await statusOf(blobs.list("../"))).toBe(400);
  });

  test("a put of a killed server; the next start removes its file", async () => {
    const program = `
      const { FolderBlobs } = await import(${JSON.stringify(join(import.meta.dir, "folder-blobs.ts"))});
      const blobs = await FolderBlobs.open(${JSON.stringify(folder)}, { now: () => 0 });
      process.stdout.write("open");
      const endless = new ReadableStream({ start: (c) => c.enqueue(new Uint8Array(1000)) });
      setInterval(() => undefined, 1000);
      await blobs.put("files/a", endless, 2000);
    `;
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" });
    // Until then it makes the folder anew.
    await child.stdout.getReader().read();
    const written = () => incoming().some((name) => statSync(join(folder, "incoming", name)).size === 1000);
    await untilTrue(() => written());
    child.kill("SIGKILL");
    await child.exited;
    expect(incoming()).toHaveLength(1);
    const again = await FolderBlobs.open(folder, clock);
    expect(await again.list("")).toEqual([]);
    expect(incoming()).toEqual([]);
  });
});

test("a put that would fill the disk is rejected while it arrives, and nothing is left", async () => {
  const { bavail, bsize } = statfsSync(folder);
  const scarce = await FolderBlobs.open(folder, clock, bavail * bsize * 2);
  let pulled = 0;
  const content = new ReadableStream<Uint8Array>(
    { pull: (controller) => controller.enqueue(new Uint8Array(++pulled)) },
    { highWaterMark: 0 },
  );
  await expect(scarce.put("files/a", content, MAX)).rejects.toMatchObject({ status: 507 });
  expect([pulled, incoming(), await scarce.list("")]).toEqual([1, [], []]);
});

test("files from a crash between write and rename are not blobs, and the next open removes them", async () => {
  await blobs.put("files/a", streamOf("whole"), MAX);
  writeFileSync(join(folder, "incoming", "4f0c"), "all of it was written");
  expect((await blobs.list("")).map(({ name }) => name)).toEqual(["files/a"]);
  blobs = await FolderBlobs.open(folder, clock);
  expect(existsSync(join(folder, "incoming", "4f0c"))).toBe(false);
  expect(await textOf("files/a")).toBe("whole");
});

test("of two concurrent puts of one name, the last to end is stored complete", async () => {
  const [first, second] = [fed(), fed()];
  const puts = [blobs.put("a", first.stream, MAX), blobs.put("a", second.stream, MAX)];
  first.give("fir");
  second.give("sec");
  first.give("st");
  second.give("ond");
  second.end();
  await puts[1];
  expect(await textOf("a")).toBe("second");
  first.end();
  await puts[0];
  expect(await textOf("a")).toBe("first");
  expect(incoming()).toEqual([]);
});

test("a blob can be read to its end although it was replaced or removed", async () => {
  const long = "x".repeat(700_000);
  await blobs.put("a", streamOf(long), long.length);
  const reading = await blobs.open("a");
  await blobs.put("a", streamOf("new"), MAX);
  await blobs.remove("a");
  expect(await new Response(reading).text()).toBe(long);
});

test("a cancelled reader leaves no open file", async () => {
  await blobs.put("a", streamOf("x".repeat(MAX)), MAX);
  const open = () => readdirSync("/proc/self/fd").length;
  const before = open();
  for (let times = 0; times < 20; times++) {
    const reader = (await blobs.open("a")).getReader();
    await reader.read();
    await reader.cancel();
  }
  expect(open()).toBeLessThan(before + 20);
});
