/** A server whose sandboxes use runsc, through the SDK: all client operations, and what survives the server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FilesystemEvent, Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { run } from "../../../src/system/command.ts";
import { census, NOTHING, settledCensus } from "../../support/census.ts";
import { leaveAndFollow } from "../../support/processes/left-command.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { refusalOf, until } from "../../support/until.ts";

const SETTINGS = { SANDLOT_WALL: "runsc", SANDLOT_READY: "0" };
const data = foldersOfFile()("runsc");
let server: TestServer;
beforeAll(async () => {
  server = await startServer(data, SETTINGS);
});
afterAll(() => server.stop());

const create = () => Sandbox.create({ ...server.options, timeoutMs: 600_000 });

/** A program that counts its requests in memory. */
const COUNTER = `python3 -uc '
import http.server
class Count(http.server.BaseHTTPRequestHandler):
    n = 0
    def do_GET(self):
        Count.n += 1
        self.send_response(200); self.end_headers(); self.wfile.write(str(Count.n).encode())
http.server.HTTPServer(("", 4567), Count).serve_forever()'`;

/** Through the edge, as a browser would. */
async function countOf(sandbox: Sandbox): Promise<string> {
  const headers = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "4567" };
  const response = await fetch(server.url, { headers });
  return response.ok ? await response.text() : `status ${response.status}`;
}

async function startCounter(sandbox: Sandbox): Promise<void> {
  await sandbox.commands.run(COUNTER, { background: true, timeoutMs: 0 });
  await until("the counter answers", async () => /^\d+$/.test(await countOf(sandbox)));
}

async function post(path: string, body: unknown): Promise<unknown> {
  return (await server.call("POST", path, body)).body;
}

/** Attack 38: the secrets of one sandbox open no other. */
async function expectOwnSecrets(all: readonly Sandbox[]): Promise<void> {
  const secrets = all.map((each) => each.commands.run("cat /.sandlot/secret", { user: "root" }));
  expect(new Set((await Promise.all(secrets)).map(({ stdout }) => stdout)).size).toBe(all.length);
  const tokens = await Promise.all(all.map(async (each) => new URL(await each.downloadUrl("/etc/hostname"))));
  for (const [at, each] of all.entries()) {
    for (const [whose, { searchParams }] of tokens.entries()) {
      const headers = { "E2b-Sandbox-Id": each.sandboxId, "E2b-Sandbox-Port": "49983" };
      const { status } = await fetch(`${server.url}/files?${searchParams}`, { headers });
      expect({ at, whose, status }).toEqual({ at, whose, status: at === whose ? 200 : 401 });
    }
  }
}

/** Beside the server, as the operator does. */
async function chooseRuntime(template: string, runtime: string): Promise<void> {
  const main = `${import.meta.dir}/../../../src/cli/main.ts`;
  await run([process.execPath, main, "templates", "wall", template, runtime], { env: serverEnv(data) });
}

/** The memory of the only paused sandbox, in the server's mount namespace. */
function checkpointOf({ pid }: TestServer): string {
  const folder = `/proc/${pid}/root${data}/disks/checkpoints`;
  const [name = ""] = readdirSync(folder).filter((each) => !each.startsWith("."));
  const files = readdirSync(join(folder, name, "memory")).map((each) => join(folder, name, "memory", each));
  return files.toSorted((a, b) => statSync(b).size - statSync(a).size)[0] ?? "";
}

function changeABit(file: string): void {
  const bytes = readFileSync(file);
  const at = Math.floor(bytes.length / 2);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(file, bytes);
}

describe("a sandbox with runsc", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await create();
  });
  afterAll(() => sandbox.kill());

  test("has gVisor's kernel, and the users, size and disk of its template", async () => {
    const script = "uname -r; id -un; pwd; nproc; grep MemTotal /proc/meminfo; stat -fc %T /tmp; ls -A /tmp";
    const { stdout } = await sandbox.commands.run(script);
    const [kernel, ...others] = stdout.trim().split("\n");
    expect(kernel).toBe("4.4.0");
    expect(others).toEqual(["user", "/home/user", "2", expect.stringMatching(/ 1048576 kB/), expect.any(String)]);
    expect((await sandbox.commands.run("id -u", { user: "root" })).stdout.trim()).toBe("0");
    expect((await sandbox.commands.run("df --output=size -m / | tail -1")).stdout.trim()).toMatch(/^9\d{3}$|^10\d{3}$/);
  });

  test("reads, writes, lists and watches files", async () => {
    const events: FilesystemEvent[] = [];
    await sandbox.files.makeDir("watched");
    const watch = await sandbox.files.watchDir("watched", (event) => void events.push(event));
    await sandbox.files.write("watched/note", "hello");
    expect(await sandbox.files.read("watched/note")).toBe("hello");
    await until("it was told", () => events.some(({ type, name }) => type === "write" && name === "note"));
    expect((await sandbox.files.list("watched")).map(({ name }) => name)).toEqual(["note"]);
    await watch.stop();
  });

  test("has terminals", async () => {
    let seen = "";
    const onData = (bytes: Uint8Array) => {
      seen += new TextDecoder().decode(bytes);
    };
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; echo is-$((40 + 2))\n"));
    await until(
      () => `the shell answers; it says ${seen}`,
      () => seen.includes("is-42"),
    );
    expect(seen).toContain("24 80");
    await terminal.kill();
  });

  test("leaves a command running when its client disconnects, and lets clients follow it again", async () => {
    await leaveAndFollow(sandbox);
  });

  test("has metrics", async () => {
    await until("there are samples", async () => (await sandbox.getMetrics()).length > 0);
    const [{ memUsed, memTotal, diskTotal } = { memUsed: 0, memTotal: 0, diskTotal: 0 }] = await sandbox.getMetrics();
    expect(memUsed).toBeGreaterThan(10 * 1024 ** 2);
    expect(memTotal).toBe(1024 ** 3);
    expect(diskTotal).toBeGreaterThan(9 * 1024 ** 3);
  });
});

test("a pause and a resume keep processes, memory and files", async () => {
  const sandbox = await create();
  await sandbox.files.write("/tmp/note", "on disk");
  await startCounter(sandbox);
  const before = Number(await countOf(sandbox));
  expect(await sandbox.pause()).toBe(true);
  expect(await census(data)).toMatchObject({ processes: 0 });
  const nothingKept = { cgroups: 0, runscRecords: 0 };
  expect(await settledCensus(data, nothingKept)).toMatchObject(nothingKept);
  await Sandbox.connect(sandbox.sandboxId, server.options);
  expect(Number(await countOf(sandbox))).toBe(before + 1);
  expect(await sandbox.files.read("/tmp/note")).toBe("on disk");
  await sandbox.kill();
});

test("a sandbox paused with one runtime is not resumed with the other, and resumes with its own", async () => {
  const sandbox = await create();
  await sandbox.files.write("note", "kept");
  await sandbox.pause();
  await chooseRuntime("base", "crun");
  const resuming = () => Sandbox.connect(sandbox.sandboxId, server.options);
  const refusal = await refusalOf(resuming());
  expect(refusal.message).toContain("written by runsc, and the template uses crun now");
  await chooseRuntime("base", "default");
  await resuming();
  expect(await sandbox.files.read("note")).toBe("kept");
  await sandbox.kill();
});

test("a fork and sandboxes of a snapshot continue from its state independently", async () => {
  const sandbox = await create();
  await startCounter(sandbox);
  const before = Number(await countOf(sandbox));
  const { snapshotId } = await sandbox.createSnapshot();
  const [fork] = (await post(`/sandboxes/${sandbox.sandboxId}/fork`, {})) as { sandbox: { sandboxID: string } }[];
  expect(Number(await countOf(sandbox))).toBe(before + 1);
  const copies = await Promise.all([
    Sandbox.create(snapshotId, server.options),
    Sandbox.connect(fork?.sandbox.sandboxID ?? "", server.options),
  ]);
  for (const copy of copies) expect(Number(await countOf(copy))).toBe(before + 1);
  await expectOwnSecrets([sandbox, ...copies]);
  expect(Number(await countOf(sandbox))).toBe(before + 2);
  for (const each of [sandbox, ...copies]) await each.kill();
  await Sandbox.deleteSnapshot(snapshotId, server.options);
});

test("an open deleted file prevents the pause; the error names it, and the sandbox runs on", async () => {
  const sandbox = await create();
  await sandbox.commands.run("exec 3> gone; rm gone; touch deleted; sleep 1000", { background: true });
  await until("it is deleted", () => sandbox.files.exists("deleted"));
  expect((await refusalOf(sandbox.pause())).message).toContain("/home/user/gone");
  expect((await sandbox.commands.run("echo on")).stdout).toBe("on\n");
  await sandbox.kill();
});

test("a sandbox outlives a killed server; the next server serves it and removes all of it", async () => {
  const [sandbox, decayed] = [await create(), await create()];
  await startCounter(sandbox);
  const before = Number(await countOf(sandbox));
  await decayed.pause();
  changeABit(checkpointOf(server));
  await server.crash();
  server = await startServer(data, SETTINGS);
  expect((await refusalOf(Sandbox.connect(decayed.sandboxId, server.options))).message).toMatch(
    /^422.*damaged on disk/,
  );
  await Sandbox.kill(decayed.sandboxId, server.options);
  expect(Number(await countOf(sandbox))).toBe(before + 1);
  const again = await Sandbox.connect(sandbox.sandboxId, server.options);
  expect(await again.pause()).toBe(true);
  await Sandbox.connect(sandbox.sandboxId, server.options);
  expect(Number(await countOf(sandbox))).toBe(before + 2);
  await Sandbox.kill(sandbox.sandboxId, server.options);
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
});
