/** The exact wire format: content types, how JSON writes and reads each kind of field, the form of plain responses. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, ProcessCalls, shell } from "../testing/process-calls.ts";

const STAT = "filesystem.Filesystem/Stat";
const guest = await guestOfFile();
const folder = `${guest.folder}/tree`;
mkdirSync(folder);
const processes = new ProcessCalls(guest);

const text = async (method: string, message: unknown) => (await guest.call(method, message)).text();
const json = async (method: string, message: unknown) => JSON.parse(await text(method, message));

describe("the content type of a request", () => {
  const post = (path: string, type: string, body?: string) =>
    guest.fetch(path, { method: "POST", headers: { "Content-Type": type }, ...(body !== undefined && { body }) });

  test("may be binary: an empty body is an empty message", async () => {
    const response = await post("/process.Process/List", "application/proto");
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/proto"]);
  });

  test("may name the character set of JSON", async () => {
    const response = await post("/process.Process/List", "application/json; charset=utf-8", "{}");
    expect([response.status, await response.json()]).toEqual([200, {}]);
  });

  test.each([
    ["/process.Process/List", "text/plain", "application/json, application/proto"],
    ["/process.Process/List", "application/connect+json", "application/json, application/proto"],
    ["/process.Process/List", "application/grpc", "application/json, application/proto"],
    ["/process.Process/Start", "application/json", "application/connect+json, application/connect+proto"],
    ["/process.Process/Start", "application/grpc-web", "application/connect+json, application/connect+proto"],
  ])("%s as %s is 415", async (path, type, accepted) => {
    const response = await post(path, type, "{}");
    expect([response.status, response.headers.get("accept-post"), await response.text()]).toEqual([415, accepted, ""]);
  });
});

describe("JSON that the runtime writes", () => {
  test("has names in camel case, 64 bits as text, enums by name, times with all their digits, and no defaults", async () => {
    writeFileSync(`${folder}/file`, "");
    symlinkSync("file", `${folder}/link`);
    utimesSync(`${folder}/file`, 1_700_000_000.25, 1_700_000_000.25);
    const { entry } = await json(STAT, { path: `${folder}/link` });
    expect(entry).toMatchObject({ type: "FILE_TYPE_FILE", size: "4", symlinkTarget: `${folder}/file`, mode: 0o644 });
    const plain = (await json(STAT, { path: `${folder}/file` })).entry;
    expect(plain.modifiedTime).toBe("2023-11-14T22:13:20.250Z");
    // Empty: not even told.
    expect(Object.keys(plain).sort()).toEqual(
      ["group", "mode", "modifiedTime", "name", "owner", "path", "permissions", "type"].sort(),
    );
  });

  test("has empty messages as {}", async () => {
    mkdirSync(`${folder}/empty`);
    expect(await text("filesystem.Filesystem/ListDir", { path: `${folder}/empty` })).toBe("{}");
    expect(await text("filesystem.Filesystem/Remove", { path: `${folder}/nothing` })).toBe("{}");
    expect(await text("process.Process/List", {})).toBe("{}");
  });

  test("keeps optional fields that were set, also to a default", async () => {
    const { pid, rest } = await processes.start({ ...shell("exec sleep 300"), tag: "", stdin: false });
    const listed = await json("process.Process/List", {});
    expect(listed.processes).toEqual([{ config: { cmd: "/bin/sh", args: ["-c", "exec sleep 300"] }, pid, tag: "" }]);
    await processes.kill(pid);
    await follow(rest);
  });

  test("has bytes in padded base64", async () => {
    const reported = [];
    for await (const { json } of guest.stream("process.Process/Start", shell("printf '\\373\\377'")))
      reported.push(json);
    expect(reported[1]).toEqual({ event: { data: { stdout: "+/8=" } } });
  });
});

describe("JSON that the runtime reads", () => {
  test.each([
    ["camel case", { path: "raw", includeEntry: true, allowNetworkMounts: true }],
    ["snake case", { path: "raw", include_entry: true, allow_network_mounts: true }],
    ["null for what is not there", { path: "raw", recursive: null }],
    ["fields that nobody knows", { path: "raw", somethingNew: { deep: [1, null] } }],
  ])("may have %s", async (_, message) => {
    mkdirSync(`${folder}/raw`, { recursive: true });
    const response = await guest.call("filesystem.Filesystem/CreateWatcher", { ...message, path: `${folder}/raw` });
    const { watcherId } = (await response.json()) as { watcherId: string };
    expect([response.status, watcherId]).toEqual([200, expect.stringMatching(/^w[a-z0-9]{20}$/)]);
    expect((await guest.call("filesystem.Filesystem/RemoveWatcher", { watcher_id: watcherId })).status).toBe(200);
  });

  test.each(["SIGNAL_SIGKILL", 9])("may have %p for an enum", async (signal) => {
    const { pid, rest } = await processes.start(shell("exec sleep 300"));
    expect((await guest.call("process.Process/SendSignal", { process: { pid }, signal })).status).toBe(200);
    expect((await follow(rest)).end?.status).toBe("signal: killed");
  });

  test.each(["+/8=", "+/8", "-_8=", "-_8"])("may have %p for bytes", async (stdin) => {
    const { pid, rest } = await processes.start(shell("od -An -tx1"));
    const process = { pid };
    expect((await guest.call("process.Process/SendInput", { process, input: { stdin } })).status).toBe(200);
    await processes.closeStdin(pid);
    expect((await follow(rest)).stdout.trim()).toBe("fb ff");
  });
});

describe("a plain answer", () => {
  test.each(["/health", "/metrics", "/envs"])("of %s has Cache-Control: no-store", async (path) => {
    expect((await guest.fetch(path)).headers.get("cache-control")).toBe("no-store");
  });

  test("that is an error has code, message, a final newline, and nosniff", async () => {
    const response = await guest.fetch(`/files?path=${folder}/nothing`);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    const body = await response.text();
    expect(body).toMatch(/^\{"code":404,"message":"(?:[^"\\]|\\.)+"\}\n$/);
  });

  test("to a form without any file is an empty list", async () => {
    const body = new FormData();
    body.append("other", "ignored");
    const response = await guest.fetch("/files", { method: "POST", body });
    expect([response.status, await response.json()]).toEqual([200, []]);
  });
});
