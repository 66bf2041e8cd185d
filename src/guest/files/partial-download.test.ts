/**
 * Range and conditional downloads from a real daemon: it reads only the requested part, and nothing the client already
 * has.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  openSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { untilStill } from "../../base/testing/until.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";

const guest = await guestOfFile();

const get = (path: string, headers: Record<string, string>) =>
  guest.fetch(`/files?${new URLSearchParams({ path })}`, { headers: { "Accept-Encoding": "gzip", ...headers } });

describe("of 10 GiB, mostly hole,", () => {
  const GIB = 1024 ** 3;
  const SIZE = 10 * GIB;
  const path = () => `${guest.folder}/sparse`;
  beforeAll(() => {
    writeFileSync(path(), "first");
    truncateSync(path(), SIZE);
    const file = openSync(path(), "r+");
    writeSync(file, "beyond four", 5 * GIB);
    writeSync(file, "last", SIZE - 4);
    closeSync(file);
  });
  // With its first download a guest reads its own sources for it.
  beforeAll(() => get("/etc/passwd", {}));

  /** All bytes that the daemon has read, by any call. */
  const bytesRead = () => Number(/rchar: (\d+)/.exec(readFileSync(`/proc/${guest.pid}/io`, "utf8"))?.[1]);

  // Guards against reading the file from its start and cutting it afterwards.
  test.each([
    ["bytes=0-4", "first", `bytes 0-4/${SIZE}`],
    [`bytes=${5 * GIB}-${5 * GIB + 10}`, "beyond four", `bytes ${5 * GIB}-${5 * GIB + 10}/${SIZE}`],
    ["bytes=-4", "last", `bytes ${SIZE - 4}-${SIZE - 1}/${SIZE}`],
    [`bytes=${SIZE - 4}-`, "last", `bytes ${SIZE - 4}-${SIZE - 1}/${SIZE}`],
  ])("%s is %j, and no more is read", async (range, content, contentRange) => {
    const before = bytesRead();
    const response = await get(path(), { Range: range });
    expect([response.status, response.headers.get("content-range"), await response.text()]).toEqual([
      206,
      contentRange,
      content,
    ]);
    expect(response.headers.get("content-length")).toBe(String(content.length));
    expect(bytesRead() - before).toBeLessThan(256 * 1024);
  });

  // Guards against reading the whole part before it is sent.
  test("64 MiB from the middle arrive complete, in constant memory", async () => {
    await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
    const before = await guest.memoryKib();
    const response = await get(path(), { Range: `bytes=${5 * GIB}-${5 * GIB + 64 * 1024 * 1024 - 1}` });
    const bytes = await response.bytes();
    expect([bytes.length, Buffer.from(bytes.subarray(0, 11)).toString()]).toEqual([64 * 1024 * 1024, "beyond four"]);
    expect((await guest.memoryKib()).peak - before.now).toBeLessThan(48 * 1024);
  });

  test("its size is a string, because it may exceed a number", async () => {
    const response = await guest.call("filesystem.Filesystem/Stat", { path: path() });
    expect(await response.text()).toContain(`"size":"${SIZE}"`);
  });

  test("a client that disconnects leaves no work behind", async () => {
    const before = bytesRead();
    const gone = new AbortController();
    const response = await guest.fetch(`/files?${new URLSearchParams({ path: path() })}`, {
      headers: { "Accept-Encoding": "identity" },
      signal: gone.signal,
    });
    expect(response.headers.get("content-length")).toBe(String(SIZE));
    gone.abort();
    expect((await guest.fetch("/health")).status).toBe(204);
    expect(bytesRead() - before).toBeLessThan(GIB);
    // And it stops, long before the end.
    expect((await untilStill(bytesRead)) - before).toBeLessThan(SIZE / 2);
  });
});

describe("of a file last modified at 22:13:20.7,", () => {
  const MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT";
  const EARLIER = "Tue, 14 Nov 2023 22:13:19 GMT";
  const LATER = "Tue, 14 Nov 2023 22:13:21 GMT";
  const path = () => `${guest.folder}/ten`;
  beforeAll(() => {
    writeFileSync(path(), "0123456789");
    utimesSync(path(), 1_700_000_000.7, 1_700_000_000.7);
    symlinkSync("ten", `${guest.folder}/link`);
  });

  const RANGE = { Range: "bytes=2-4" };
  test.each<[Record<string, string>, number, string]>([
    [{ "If-Modified-Since": MODIFIED }, 304, ""],
    [{ "If-Modified-Since": LATER }, 304, ""],
    [{ "If-Modified-Since": EARLIER }, 200, "0123456789"],
    [{ "If-Modified-Since": "soon" }, 200, "0123456789"],
    [{ "If-None-Match": "*" }, 304, ""],
    [{ "If-None-Match": '"tag"', "If-Modified-Since": MODIFIED }, 200, "0123456789"],
    [{ ...RANGE, "If-Range": MODIFIED }, 206, "234"],
    [{ ...RANGE, "If-Range": EARLIER }, 200, "0123456789"],
    [{ ...RANGE, "If-Range": LATER }, 200, "0123456789"],
    [{ ...RANGE, "If-Range": '"tag"' }, 200, "0123456789"],
    [{ ...RANGE, "If-Modified-Since": MODIFIED }, 304, ""],
    [{ ...RANGE, "If-Modified-Since": EARLIER }, 206, "234"],
    [{ "If-Range": MODIFIED }, 200, "0123456789"],
    [{ Range: "bytes=-3" }, 206, "789"],
    [{ Range: "bytes=-30" }, 206, "0123456789"],
    [{ Range: "bytes=9-" }, 206, "9"],
    [{ Range: "bytes=0-1,4-5" }, 200, "0123456789"],
  ])("%j is %i", async (headers, status, content) => {
    for (const file of [path(), `${guest.folder}/link`]) {
      const response = await get(file, headers);
      expect([response.status, await response.text()]).toEqual([status, content]);
      expect(response.headers.get("content-encoding")).toBe(null);
      expect(response.headers.get("last-modified")).toBe(MODIFIED);
      expect(response.headers.get("accept-ranges")).toBe("bytes");
    }
  });

  test.each(["bytes=10-", "bytes=-0", "bytes=7-3", "bytes=x", "bytes=-", "lines=0-1"])(
    "%s is not satisfiable",
    async (range) => {
      const response = await get(path(), { Range: range });
      expect([response.status, response.headers.get("content-range")]).toEqual([416, "bytes */10"]);
      expect(await response.json()).toMatchObject({ code: 416 });
    },
  );

  test("an empty file satisfies no range", async () => {
    writeFileSync(`${guest.folder}/empty`, "");
    for (const range of ["bytes=0-", "bytes=-1"]) {
      expect((await get(`${guest.folder}/empty`, { Range: range })).status).toBe(416);
    }
  });
});
