/** Pause and resume through the official client. */
import { expect, test } from "bun:test";
import { Sandbox, SandboxNotFoundError } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();

async function post(path: string, body: unknown): Promise<Response> {
  const headers = { "x-api-key": server().apiKey, "content-type": "application/json" };
  return await fetch(`${server().url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
}

/** A program that counts in memory and says so on each line of input. */
const COUNTER = `python3 -uc 'import sys
n = 0
print("up")
for line in sys.stdin:
    n += 1
    print(f"{n}:{line.strip()}")'`;

/** The counter, after its first line, and its output so far. */
async function startCounter(sandbox: Sandbox): Promise<{ pid: number; heard: () => string }> {
  let heard = "";
  const counter = await sandbox.commands.run(COUNTER, {
    background: true,
    stdin: true,
    timeoutMs: 0,
    onStdout: (text) => {
      heard += text;
    },
  });
  await sandbox.commands.sendStdin(counter.pid, "one\n");
  await until("the counter speaks", () => heard.includes("1:one"));
  return { pid: counter.pid, heard: () => heard };
}

test("a paused sandbox keeps processes, their memory and files; the handle of before goes on working", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.files.write("/home/user/note", "before the pause");
  const { pid } = await startCounter(sandbox);

  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.pause()).toBe(false);
  const paused = await sandbox.getInfo();
  expect(paused.state).toBe("paused");
  expect(await sandbox.isRunning()).toBe(false);
  const listed = await Sandbox.list({ ...server().options, query: { state: ["paused"] } }).nextItems();
  expect(listed.map(({ sandboxId }) => sandboxId)).toContain(sandbox.sandboxId);

  const again = await Sandbox.connect(sandbox.sandboxId, { ...server().options, timeoutMs: 60_000 });
  expect((await again.getInfo()).state).toBe("running");
  expect((await again.getInfo()).startedAt.getTime()).toBeGreaterThan(paused.startedAt.getTime());
  expect(await again.files.read("/home/user/note")).toBe("before the pause");
  // The token that the first handle holds still opens it.
  expect(await sandbox.isRunning()).toBe(true);
  let after = "";
  const same = await sandbox.commands.connect(pid, {
    timeoutMs: 0,
    onStdout: (text) => {
      after += text;
    },
  });
  await sandbox.commands.sendStdin(same.pid, "two\n");
  await until("the counter goes on", () => after.includes("2:two"));
  await same.kill();
  await again.kill();
});

test("a terminal and a watcher live through a pause", async () => {
  const sandbox = await Sandbox.create(server().options);
  let seen = "";
  const onData = (bytes: Uint8Array) => {
    seen += new TextDecoder().decode(bytes);
  };
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData });
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("WORD=kept; echo noted-$((1 + 1))\n"));
  await until("the shell has noted it", () => seen.includes("noted-2"));
  await sandbox.pause();
  await sandbox.connect({ timeoutMs: 60_000 });
  await sandbox.pty.connect(terminal.pid, { timeoutMs: 0, onData });
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("echo =$WORD=\n"));
  await until("the shell remembers", () => seen.includes("=kept="));
  await sandbox.kill();
});

test("a resume without memory is a reboot with the same files", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  await sandbox.files.write("/home/user/note", "kept");
  const bootId = async () => (await sandbox.commands.run("cat /proc/sys/kernel/random/boot_id")).stdout;
  const first = await bootId();
  await sandbox.pause();
  expect((await post(`/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 60, memory: false })).status).toBe(201);
  expect(await bootId()).not.toBe(first);
  expect(await sandbox.files.read("/home/user/note")).toBe("kept");
  const processes = await sandbox.commands.list();
  expect(processes).toEqual([]);
  // And a pause of files alone.
  expect((await post(`/sandboxes/${sandbox.sandboxId}/pause`, { memory: false })).status).toBe(204);
  await sandbox.connect({ timeoutMs: 60_000 });
  expect(await sandbox.files.read("/home/user/note")).toBe("kept");
  await sandbox.kill();
});

test("killing a paused sandbox is its end", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.pause();
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  expect(await refusalOf(Sandbox.connect(sandbox.sandboxId, server().options))).toBeInstanceOf(SandboxNotFoundError);
});

test("a resume mints a new token, and those of before stay valid", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.pause();
  const answer = await post(`/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 60 });
  expect(answer.status).toBe(201);
  const { envdAccessToken } = (await answer.json()) as { envdAccessToken: string };
  expect((await post(`/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 60 })).status).toBe(409);
  const metrics = (token: string) =>
    fetch(`${server().url}/metrics`, {
      headers: { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983", "x-access-token": token },
    });
  expect((await metrics(envdAccessToken)).status).toBe(200);
  expect((await metrics(`${envdAccessToken}x`)).status).toBe(401);
  expect((await sandbox.commands.run("echo old token")).stdout).toBe("old token\n");
  await sandbox.kill();
});

// Seen to fail without openMemoryAgain(): the file belonged to the user nobody (65534).
test("a guest that has tried another's rights is still its own after a resume, and starts each command once", async () => {
  const sandbox = await Sandbox.create(server().options);
  // Its own start may be in the midst of it.
  const look = "sleep 0.2; stat -c %u /proc/$PPID/oom_score_adj";
  const owners = [(await sandbox.commands.run(look, { cwd: "/tmp" })).stdout];
  await sandbox.pause();
  await sandbox.connect({ timeoutMs: 60_000 });
  for (const options of [{}, { cwd: "/tmp" }, {}]) owners.push((await sandbox.commands.run(look, options)).stdout);
  expect(owners).toEqual(["0\n", "0\n", "0\n", "0\n"]);
  await sandbox.kill();
});

test("what cannot be kept is named, and the sandbox runs on", async () => {
  const sandbox = await Sandbox.create(server().options);
  const tracer = `import ctypes, os, signal, time
libc = ctypes.CDLL(None)
p = os.fork()
if p == 0:
    libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(p, 0)
print("tracing", flush=True)
time.sleep(1000)`;
  await sandbox.files.write("/tmp/tracer.py", tracer);
  let heard = "";
  await sandbox.commands.run("python3 /tmp/tracer.py", {
    background: true,
    timeoutMs: 0,
    onStdout: (text) => {
      heard += text;
    },
  });
  await until("the tracer traces", () => heard.includes("tracing"));
  const refused = await refusalOf(sandbox.pause());
  expect(refused.message).toMatch(/process \d+ "python3".*traced/);
  expect((await sandbox.commands.run("echo runs on")).stdout).toBe("runs on\n");
  await sandbox.kill();
});

timed("with onTimeout pause it is paused at its time, and the first request wakes it", async () => {
  const sandbox = await Sandbox.create({
    ...server().options,
    timeoutMs: 2_000,
    lifecycle: { onTimeout: "pause", autoResume: true },
  });
  await sandbox.files.write("/home/user/note", "kept");
  const { endAt } = await sandbox.getInfo();
  await until("it is paused", async () => (await sandbox.getInfo()).state === "paused", 5_000);
  expect(Date.now() - endAt.getTime()).toBeLessThan(1_500);
  // Half a hundred at once: each is served, by one wake.
  const texts = await Promise.all(Array.from({ length: 50 }, () => sandbox.files.read("/home/user/note")));
  expect(new Set(texts)).toEqual(new Set(["kept"]));
  const woken = await sandbox.getInfo();
  expect(woken.state).toBe("running");
  expect(woken.endAt.getTime() - woken.startedAt.getTime()).toBe(300_000);
  await sandbox.kill();
});

test("a fork goes on from where its original is, with an id and tokens of its own", async () => {
  const sandbox = await Sandbox.create({ ...server().options, metadata: { of: "the original" } });
  await sandbox.files.write("/home/user/note", "original");
  const { pid, heard } = await startCounter(sandbox);

  const forks = (await sandbox.fork({ count: 2, timeoutMs: 60_000 })).map((entry) => {
    if (entry instanceof Error) throw entry;
    return entry;
  });
  expect(forks).toHaveLength(2);
  // The stream of the original was not cut.
  await sandbox.commands.sendStdin(pid, "two\n");
  await until("the original goes on", () => heard().includes("2:two"));
  for (const fork of forks) {
    expect(fork.sandboxId).not.toBe(sandbox.sandboxId);
    let said = "";
    await fork.commands.connect(pid, {
      timeoutMs: 0,
      onStdout: (text) => {
        said += text;
      },
    });
    await fork.commands.sendStdin(pid, "fork\n");
    await until("the fork goes on", () => said.includes("2:fork"));
    expect(await fork.files.read("/home/user/note")).toBe("original");
    await fork.files.write("/home/user/note", fork.sandboxId);
    expect((await fork.getInfo()).metadata).toEqual({ of: "the original" });
    expect((await fork.commands.run("cat $HOME/note; echo $E2B_SANDBOX_ID")).stdout).toContain(`${fork.sandboxId}\n`);
  }
  expect(await sandbox.files.read("/home/user/note")).toBe("original");
  // No token of the original opens a fork.
  const crossed = await fetch(`${server().url}/metrics`, {
    headers: {
      "e2b-sandbox-id": forks[0]?.sandboxId ?? "",
      "e2b-sandbox-port": "49983",
      "x-access-token": await runtimeTokenOf(server(), sandbox.sandboxId),
    },
  });
  expect(crossed.status).toBe(401);
  for (const each of [sandbox, ...forks]) await each.kill();
});

test("a snapshot is a template to create from, listed and deletable", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.files.write("/home/user/note", "in the snapshot");
  const { snapshotId } = await sandbox.createSnapshot();
  await sandbox.files.write("/home/user/note", "later");
  const made = await Sandbox.create(snapshotId, server().options);
  expect(await made.files.read("/home/user/note")).toBe("in the snapshot");
  const listed = await sandbox.listSnapshots().nextItems();
  expect(listed.map((each) => each.snapshotId)).toContain(snapshotId);
  await made.kill();
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(true);
  await refusalOf(Sandbox.create(snapshotId, server().options));
  expect(await sandbox.files.read("/home/user/note")).toBe("later");
  await sandbox.kill();
});
