/** Over-long paths and names, and texts that no message should repeat, sent to a real daemon. */
import { describe, expect, test } from "bun:test";
import { readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { MESSAGE_MAX_CHARS, NAME_MAX_BYTES, PATH_MAX_BYTES } from "./limits.ts";
import { emptyFolderOf, guestOfFile } from "./testing/guest-of-file.ts";
import { basic } from "./testing/running-guest.ts";

const guest = await guestOfFile();
const home = emptyFolderOf(guest);

const OCTETS = { "Content-Type": "application/octet-stream" };
const MEGABYTES = "m".repeat(3_000_000);

interface Told {
  status: number;
  code: string | number;
  message: string;
}

async function reportOf(response: Promise<Response>): Promise<Told> {
  const given = await response;
  return { status: given.status, ...((await given.json()) as Omit<Told, "status">) };
}

function call(method: string, message: unknown): Promise<Told> {
  return reportOf(guest.call(`filesystem.Filesystem/${method}`, message));
}

async function streamed(method: string, message: unknown): Promise<{ code: string; message: string } | undefined> {
  for await (const { json } of guest.stream(method, message)) return json.error;
  return undefined;
}

function upload(path: string): Promise<Told> {
  return reportOf(guest.fetch(`/files?path=${path}`, { method: "POST", headers: OCTETS, body: "x" }));
}

function compose(source: string, destination: string): Promise<Told> {
  const body = JSON.stringify({ source_paths: [source], destination });
  return reportOf(guest.fetch("/files/compose", { method: "POST", body }));
}

/** Two bytes each: it is bytes that count. */
const longName = "é".repeat(NAME_MAX_BYTES / 2 + 1);
const longPath = "/d".repeat(PATH_MAX_BYTES / 2 + 1);

describe.each([
  ["a name that is too long", () => `${home}/${longName}`],
  ["a long name in a folder that is not there", () => `${home}/new/${longName}`],
  ["a path that is too long", () => `${home}${longPath}`],
])("%s", (_, at) => {
  test("is not found by calls that read", async () => {
    const path = at();
    const nothing = { status: 404, code: "not_found" };
    expect(await call("Stat", { path })).toMatchObject(nothing);
    expect(await call("ListDir", { path })).toMatchObject(nothing);
    expect(await call("CreateWatcher", { path })).toMatchObject(nothing);
    expect(await call("Move", { source: path, destination: `${home}/to` })).toMatchObject(nothing);
    expect(await streamed("filesystem.Filesystem/WatchDir", { path })).toMatchObject({ code: "not_found" });
    expect(await reportOf(guest.fetch(`/files?path=${path}`))).toMatchObject({ status: 404, code: 404 });
    expect(await call("Remove", { path })).toEqual({ status: 200 } as Told);
    expect(readdirSync(home)).toEqual([]);
  });

  test("is rejected by calls that create, before any change", async () => {
    const path = at();
    writeFileSync(`${home}/there`, "");
    const invalid = { status: 400, code: "invalid_argument", message: expect.stringMatching(/bytes; at most \d+ are/) };
    expect(await call("MakeDir", { path })).toMatchObject(invalid);
    expect(await call("Move", { source: `${home}/there`, destination: path })).toMatchObject(invalid);
    const plain = { ...invalid, code: 400 };
    expect(await upload(path)).toMatchObject(plain);
    const form = new FormData();
    form.append("file", new Blob(["x"]), path);
    expect(await reportOf(guest.fetch("/files", { method: "POST", body: form }))).toMatchObject(plain);
    expect(await compose(`${home}/there`, path)).toMatchObject(plain);
    expect(await compose(path, `${home}/to`)).toMatchObject(plain);
    const { status: _status, ...refusal } = invalid;
    expect(await streamed("process.Process/Start", { process: { cmd: "true", cwd: path } })).toMatchObject(refusal);
    expect(readdirSync(home)).toEqual(["there"]);
  });
});

test("the longest name and the longest path are accepted", async () => {
  expect(await call("MakeDir", { path: `${home}/${"n".repeat(NAME_MAX_BYTES)}` })).toMatchObject({ status: 200 });
  const names = `/${"n".repeat(NAME_MAX_BYTES - 1)}`.repeat(PATH_MAX_BYTES / NAME_MAX_BYTES + 1);
  const longest = (home + names).slice(0, PATH_MAX_BYTES);
  expect(longest).toHaveLength(PATH_MAX_BYTES);
  expect(await call("MakeDir", { path: longest })).toMatchObject({ status: 200 });
});

test("entries too deep for any path are left out of a listing", async () => {
  // Each step is from the one before, as a program that changes its directory makes them.
  const script =
    'cd "$1"; i=0; while [ $i -lt 20 ]; do mkdir "$2"; cd -P "$2" 2>/dev/null || cd "$2"; i=$((i+1)); done';
  Bun.spawnSync(["sh", "-c", script, "sh", home, "n".repeat(NAME_MAX_BYTES)]);
  const response = await guest.call("filesystem.Filesystem/ListDir", { path: home, depth: 100 });
  const { entries } = (await response.json()) as { entries: unknown[] };
  expect(response.status).toBe(200);
  expect(entries.length).toBeGreaterThan(10);
  Bun.spawnSync(["rm", "-rf", home]);
});

describe("symbolic link loops", () => {
  test("are a client error", async () => {
    symlinkSync("loop", `${home}/loop`);
    writeFileSync(`${home}/there`, "");
    const circle = { status: 400, message: expect.stringContaining("back to themselves") };
    for (const path of [`${home}/loop`, `${home}/loop/x`]) {
      expect(await upload(path)).toMatchObject(circle);
      expect(await reportOf(guest.fetch(`/files?path=${path}`))).toMatchObject(circle);
      expect(await compose(path, `${home}/to`)).toMatchObject(circle);
      expect(await call("MakeDir", { path })).toMatchObject({ ...circle, code: "failed_precondition" });
    }
    expect(await compose(`${home}/there`, `${home}/loop/x`)).toMatchObject(circle);
    expect(await call("Stat", { path: `${home}/loop/x` })).toMatchObject(circle);
    expect(await call("Move", { source: `${home}/there`, destination: `${home}/loop/x` })).toMatchObject(circle);
    expect(readdirSync(home).sort()).toEqual(["loop", "there"]);
  });
});

describe("no message repeats megabytes", () => {
  const MOST = MESSAGE_MAX_CHARS + 100;

  test.each([
    ["a path", () => call("Stat", { path: `/${MEGABYTES}` })],
    ["a path to make", () => call("MakeDir", { path: `/${MEGABYTES}` })],
    ["another user's home", () => call("Stat", { path: `~${MEGABYTES}` })],
    ["a watcher", () => call("GetWatcherEvents", { watcherId: MEGABYTES })],
    ["a tag", () => reportOf(guest.call("process.Process/SendSignal", { process: { tag: MEGABYTES }, signal: 9 }))],
    ["a user", () => reportOf(guest.fetch("/health", { headers: basic("u".repeat(8_000)) }))],
    ["a header", () => reportOf(guest.call("process.Process/List", {}, { "Connect-Timeout-Ms": "x".repeat(8_000) }))],
    ["a path parameter", () => reportOf(guest.fetch(`/files?path=~${"p".repeat(8_000)}`))],
    ["a user in a body", () => reportOf(composeAs(MEGABYTES))],
  ])("%s", async (_, ask) => {
    const { status, message } = await ask();
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(message).toMatch(/\(\d+ characters\)/);
    expect(message.length).toBeLessThan(MOST);
  });

  test("a directory, on a stream", async () => {
    const error = await streamed("process.Process/Start", { process: { cmd: "true", cwd: MEGABYTES } });
    expect(error?.code).toBe("invalid_argument");
    expect(error?.message).toMatch(/\(\d+ characters\)/);
    expect(error?.message.length).toBeLessThan(MOST);
  });

  function composeAs(username: string): Promise<Response> {
    const body = JSON.stringify({ source_paths: ["/a"], destination: "/b", username });
    return guest.fetch("/files/compose", { method: "POST", body });
  }
});
