/** Pause, resume and fork through the official client. Snapshots: sandboxes/snapshots.test.ts. */
import { expect, test } from "bun:test";
import { Sandbox, SandboxNotFoundError, type SandboxOpts } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { startListening } from "../../support/listening.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
const PORT = 8000;
/** Maximum duration of a neighbour's command while other sandboxes are paused, on an otherwise idle machine. */
const NEIGHBOUR_MAX_MS = 3_000;
const AUTO_PAUSE = { onTimeout: "pause", autoResume: true } as const;

/** The status of a request to the runtime, with this token if one is given. */
async function runtimeStatus({ sandboxId }: Sandbox, path: string, token?: string): Promise<number> {
  const address = { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": "49983" };
  const headers = token === undefined ? address : { ...address, "x-access-token": token };
  return (await fetch(`${server().url}${path}`, { headers })).status;
}

/** Counts its visitors in memory alone, and tells a number that it made up when it started. Never answers /never. */
const COUNTER = `
import http.server, itertools, secrets, time
nonce, visits = secrets.token_hex(8), itertools.count(1)
class Counter(http.server.BaseHTTPRequestHandler):
  def answer(self):
    visit = next(visits)
    if self.path == "/never":
      open("/tmp/waits", "w").close()
      time.sleep(10_000)
    body = self.rfile.read(int(self.headers.get("content-length", 0)))
    text = f"{nonce} {visit} {len(body)}".encode()
    self.send_response(200)
    self.send_header("content-length", str(len(text)))
    self.end_headers()
    self.wfile.write(text)
  do_GET = do_POST = answer
  def log_message(self, *ignored): pass
class Server(http.server.ThreadingHTTPServer):
  request_queue_size = 256
server = Server(("0.0.0.0", ${PORT}), Counter)
print("listening", flush=True)
server.serve_forever()
`;

async function counting(options: SandboxOpts = {}): Promise<Sandbox> {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 300_000, ...options });
  await sandbox.files.write("/tmp/counter.py", COUNTER);
  await startListening(sandbox, "exec python3 /tmp/counter.py");
  return sandbox;
}

const ask = (id: string, init: RequestInit = {}, path = "/") =>
  fetch(`${server().url}${path}`, { ...init, headers: { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(PORT) } });

const visit = async (id: string, init: RequestInit = {}) => {
  const response = await ask(id, init);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.any(String)]);
  const [nonce = "", visits = "", length = ""] = text.split(" ");
  return { nonce, visits: Number(visits), length: Number(length) };
};

test("a paused sandbox keeps its processes, their memory and its files, and clients go on with their handles", async () => {
  const sandbox = await counting();
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.files.write("/home/user/note", "kept");
  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.pause()).toBe(false);
  const paused = await sandbox.getInfo();
  expect(paused.state).toBe("paused");
  expect(await sandbox.isRunning()).toBe(false);
  expect((await ask(sandbox.sandboxId)).status).toBe(502);
  const listed = await Sandbox.list({ ...server().options, query: { state: ["paused"] } }).nextItems();
  expect(listed.map(({ sandboxId }) => sandboxId)).toContain(sandbox.sandboxId);

  const again = await Sandbox.connect(sandbox.sandboxId, server().options);
  const resumed = await again.getInfo();
  expect(resumed.state).toBe("running");
  expect(resumed.startedAt.getTime()).toBeGreaterThan(paused.startedAt.getTime());
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce, visits: 2 });
  // The token that the first handle holds still opens it.
  expect(await sandbox.files.read("/home/user/note")).toBe("kept");
  await sandbox.pause();
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  expect(await refusalOf(Sandbox.connect(sandbox.sandboxId, server().options))).toBeInstanceOf(SandboxNotFoundError);
});

test("a pause ends requests that the sandbox has, and says so", async () => {
  const sandbox = await counting({ lifecycle: AUTO_PAUSE });
  const visiting = ask(sandbox.sandboxId, {}, "/never");
  await until("the service has the request", () => sandbox.files.exists("/tmp/waits"));
  const paused = sandbox.pause();
  const response = await visiting;
  expect([response.status, await response.json()]).toEqual([
    502,
    { sandboxId: sandbox.sandboxId, message: "The sandbox was paused or ended before it responded", code: 502 },
  ]);
  expect(await paused).toBe(true);
  expect((await sandbox.getInfo()).state).toBe("paused");
  await sandbox.kill();
});

test("a pause or a resume without memory is a reboot with the same files", async () => {
  const sandbox = await counting();
  await sandbox.files.write("/home/user/note", "kept");
  const bootId = async () => (await sandbox.commands.run("cat /proc/sys/kernel/random/boot_id")).stdout;
  const seen = [await bootId()];
  const expectReboot = async () => {
    expect(seen).not.toContain(await bootId());
    seen.push(await bootId());
    expect(await sandbox.files.read("/home/user/note")).toBe("kept");
    expect(await sandbox.commands.list()).toEqual([]);
  };
  await sandbox.pause();
  expect(
    (await server().call("POST", `/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 60, memory: false })).status,
  ).toBe(201);
  await expectReboot();
  await sandbox.pause({ keepMemory: false });
  await sandbox.connect({ timeoutMs: 60_000 });
  await expectReboot();
  await sandbox.kill();
});

test("a resume returns a new token, and earlier tokens stay valid", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.pause();
  const answer = await server().call("POST", `/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 60 });
  expect(answer.status).toBe(201);
  const { envdAccessToken } = answer.body as { envdAccessToken: string };
  expect((await server().call("POST", `/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 60 })).status).toBe(409);
  expect(await runtimeStatus(sandbox, "/metrics", envdAccessToken)).toBe(200);
  expect(await runtimeStatus(sandbox, "/metrics", `${envdAccessToken}x`)).toBe(401);
  expect((await sandbox.commands.run("echo old token")).stdout).toBe("old token\n");
  await sandbox.kill();
});

// Guards against a memory file that belongs to the user nobody (65534).
test("the guest's processes belong to root after a permission check as another user and a resume", async () => {
  const sandbox = await Sandbox.create(server().options);
  // The guest may still be starting this command.
  const look = "sleep 0.2; stat -c %u /proc/$PPID/oom_score_adj";
  const owners = [(await sandbox.commands.run(look, { cwd: "/tmp" })).stdout];
  await sandbox.pause();
  await sandbox.connect({ timeoutMs: 60_000 });
  for (const options of [{}, { cwd: "/tmp" }, {}]) owners.push((await sandbox.commands.run(look, options)).stdout);
  expect(owners).toEqual(["0\n", "0\n", "0\n", "0\n"]);
  await sandbox.kill();
});

test("traffic resumes a paused sandbox once for all requests, and their bodies arrive", async () => {
  const sandbox = await counting({ lifecycle: AUTO_PAUSE });
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.pause();
  const body = new Uint8Array(300_000);
  const visits = await Promise.all(
    Array.from({ length: 100 }, () => visit(sandbox.sandboxId, { method: "POST", body })),
  );
  expect(new Set(visits.map((each) => each.nonce))).toEqual(new Set([nonce]));
  expect(visits.map((each) => each.visits).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 100 }, (_, at) => at + 2),
  );
  expect(visits.every(({ length }) => length === body.length)).toBe(true);
  await sandbox.pause();
  // So do the client's own calls: they carry the token. Requests without it do not.
  expect((await sandbox.commands.run("echo awake")).stdout).toBe("awake\n");
  await sandbox.pause();
  expect(await runtimeStatus(sandbox, "/metrics")).toBe(403);
  expect(await runtimeStatus(sandbox, "/health")).toBe(502);
  expect((await sandbox.getInfo()).state).toBe("paused");
  await sandbox.kill();
});

test("a sandbox is paused at its timeout and resumed with its memory by the next request", async () => {
  const sandbox = await counting({ lifecycle: AUTO_PAUSE });
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.setTimeout(1_000);
  await until("it is paused", async () => (await sandbox.getInfo()).state === "paused");
  // The state follows the clock; a request that still found the sandbox running would end with it.
  await until("its route is closed", async () => !(await sandbox.isRunning()));
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce });
  await sandbox.kill();
});

test("a client that follows a command does not undo the pause at the end of its timeout", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 300_000, lifecycle: AUTO_PAUSE });
  const endless = await sandbox.commands.run("while true; do echo more; sleep 0.05; done", {
    background: true,
    timeoutMs: 0,
  });
  const broken = endless.wait().catch((error: unknown) => error);
  await sandbox.setTimeout(1_000);
  expect(await broken).toBeInstanceOf(Error);
  await until("it is paused", async () => (await sandbox.getInfo()).state === "paused");
  expect(await sandbox.isRunning()).toBe(false);
  // Long enough for a request to be answered and to resume the sandbox.
  await Bun.sleep(1_000);
  expect((await sandbox.getInfo()).state).toBe("paused");
  // Any other request does resume it, and the command has gone on.
  const again = await sandbox.commands.connect(endless.pid);
  await again.kill();
  await sandbox.kill();
});

timed("a sandbox is paused within 1.5 s of its timeout, and the request that resumes it sets a new end", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 2_000, lifecycle: AUTO_PAUSE });
  const { endAt } = await sandbox.getInfo();
  await until("it is paused", async () => (await sandbox.getInfo()).state === "paused", 5_000);
  expect(Date.now() - endAt.getTime()).toBeLessThan(1_500);
  expect(await sandbox.files.exists("/home/user")).toBe(true);
  const woken = await sandbox.getInfo();
  expect(woken.endAt.getTime() - woken.startedAt.getTime()).toBe(300_000);
  await sandbox.kill();
});

test("forks start with the memory and files of their original, have ids and tokens of their own, and diverge", async () => {
  const sandbox = await counting({ metadata: { of: "the original" } });
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.files.write("/home/user/note", "original");
  const forks = (await sandbox.fork({ count: 2, timeoutMs: 300_000 })).map((entry) => {
    if (entry instanceof Error) throw entry;
    return entry;
  });
  expect(new Set([sandbox, ...forks].map(({ sandboxId }) => sandboxId)).size).toBe(3);
  const token = await runtimeTokenOf(server(), sandbox.sandboxId);
  for (const fork of forks) {
    expect(await visit(fork.sandboxId)).toMatchObject({ nonce, visits: 2 });
    expect(await fork.files.read("/home/user/note")).toBe("original");
    await fork.files.write("/home/user/note", fork.sandboxId);
    expect((await fork.getInfo()).metadata).toEqual({ of: "the original" });
    expect((await fork.commands.run("cat note; echo =$E2B_SANDBOX_ID")).stdout).toBe(
      `${fork.sandboxId}=${fork.sandboxId}\n`,
    );
    expect(await runtimeStatus(fork, "/metrics", token)).toBe(401);
  }
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce, visits: 2 });
  expect(await sandbox.files.read("/home/user/note")).toBe("original");
  await Promise.all([sandbox, ...forks].map((each) => each.kill()));
});

timed("eight pauses at once delay a command in another sandbox by less than 3 s", async () => {
  const neighbour = await Sandbox.create(server().options);
  const many = await Promise.all(Array.from({ length: 8 }, () => Sandbox.create(server().options)));
  let pausing = true;
  const all = Promise.all(many.map((sandbox) => sandbox.pause())).finally(() => {
    pausing = false;
  });
  let [slowestMs, commands] = [0, 0];
  while (pausing) {
    const begun = performance.now();
    expect((await neighbour.commands.run("echo here")).stdout).toBe("here\n");
    slowestMs = Math.max(slowestMs, performance.now() - begun);
    commands++;
  }
  expect(await all).toEqual(many.map(() => true));
  expect(commands).toBeGreaterThan(2);
  expect(slowestMs).toBeLessThan(NEIGHBOUR_MAX_MS);
  const resumed = await Promise.all(many.map(({ sandboxId }) => Sandbox.connect(sandboxId, server().options)));
  for (const sandbox of resumed) expect((await sandbox.commands.run("echo back")).stdout).toBe("back\n");
  await Promise.all([neighbour, ...resumed].map((sandbox) => sandbox.kill()));
});
