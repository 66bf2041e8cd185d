/**
 * Metadata of files in a real sandbox, over plain HTTP and through the SDK, which uses it depending on the runtime's
 * reported version.
 */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
let sandbox: Sandbox;
let token: string;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  token = await runtimeTokenOf(server(), sandbox.sandboxId);
});

function runtime(path: string, headers: Record<string, string>, body: BodyInit): Promise<Response> {
  const address = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983", "X-Access-Token": token };
  return fetch(server().url + path, { method: "POST", headers: { ...address, ...headers }, body });
}

const upload = (path: string, headers: Record<string, string>, body = "content") =>
  runtime(`/files?${new URLSearchParams({ path })}`, { "Content-Type": "application/octet-stream", ...headers }, body);

async function entry(path: string): Promise<{ metadata?: Record<string, string>; owner: string; size: string }> {
  const headers = { "Content-Type": "application/json" };
  const response = await runtime("/filesystem.Filesystem/Stat", headers, JSON.stringify({ path }));
  return ((await response.json()) as { entry: { owner: string; size: string } }).entry;
}

/** As programs in the sandbox see them. */
async function attributes(path: string): Promise<unknown> {
  const script =
    "import os,sys,json; p=sys.argv[1]; print(json.dumps({n: os.getxattr(p,n).decode() for n in os.listxattr(p)}))";
  return JSON.parse((await sandbox.commands.run(`python3 -c '${script}' '${path}'`)).stdout);
}

test("metadata of an upload is stored with its file, for programs and clients to read", async () => {
  const response = await upload("kept", { "X-Metadata-Origin": "agent 7", "X-Metadata-Step": "3" });
  const metadata = { origin: "agent 7", step: "3" };
  expect([response.status, await response.json()]).toEqual([
    200,
    [{ name: "kept", path: "/home/user/kept", type: "file", metadata }],
  ]);
  expect(await attributes("/home/user/kept")).toEqual({ "user.e2b.origin": "agent 7", "user.e2b.step": "3" });
  expect(await entry("kept")).toMatchObject({ metadata, owner: "user", size: "7" });
});

// Guards against a reported runtime version of 0.5.7, with which the SDK rejects the call itself.
test.each([
  ["as a form", {}],
  ["as plain bytes", { useOctetStream: true }],
  ["compressed", { gzip: true }],
])("metadata sent %s is returned, stored, listed and moved with its file", async (_, options) => {
  const metadata = { origin: "agent 7, step 3", "two-words": "a=b; c" };
  const written = await sandbox.files.write("by-sdk", "x", { ...options, metadata: { ...metadata, Upper: "Case" } });
  const kept = { ...metadata, upper: "Case" };
  expect(written.metadata).toEqual(kept);
  expect((await sandbox.files.getInfo("by-sdk")).metadata).toEqual(kept);
  const listed = (await sandbox.files.list("/home/user")).find(({ name }) => name === "by-sdk");
  expect(listed?.metadata).toEqual(kept);
  expect((await sandbox.files.rename("by-sdk", "by-sdk-moved")).metadata).toEqual(kept);
  await sandbox.files.write("by-sdk-moved", "y");
  expect((await sandbox.files.getInfo("by-sdk-moved")).metadata).toBeUndefined();
});

test("metadata of an SDK call applies to all its files", async () => {
  const files = ["one", "two"].map((name) => ({ path: `together/${name}`, data: name }));
  const written = await sandbox.files.writeFiles(files, { metadata: { batch: "9" } });
  expect(written.map(({ metadata }) => metadata)).toEqual([{ batch: "9" }, { batch: "9" }]);
  for (const { path } of files) expect((await sandbox.files.getInfo(path)).metadata).toEqual({ batch: "9" });
});

test("metadata set by programs is returned, also for folders and files of the template", async () => {
  const set = (path: string) => `python3 -c 'import os; os.setxattr("${path}", "user.e2b.by", b"program")'`;
  await sandbox.commands.run(
    `mkdir folder; ${set("folder")}; sudo ${set("/etc/hostname")}; sudo ${set("/etc/debian_version")}`,
  );
  expect((await entry("folder")).metadata).toEqual({ by: "program" });
  expect((await entry("/etc/debian_version")).metadata).toEqual({ by: "program" });
});

test("a file on tmpfs can have metadata", async () => {
  const response = await upload("/dev/shm/file", { "X-Metadata-A": "1" });
  expect(response.status).toBe(200);
  const [file] = (await response.json()) as { metadata?: Record<string, string> }[];
  // Not every kernel keeps attributes there; the response shows what was really kept.
  expect((await entry("/dev/shm/file")).metadata).toEqual(file?.metadata as Record<string, string>);
});
