/** A pause keeps the memory of programs, a request or a call resumes the sandbox, and a running sandbox is copied. */
import { expect, test } from "bun:test";
import { Sandbox, type SandboxOpts } from "e2b";
import { startListening } from "../../support/listening.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const PORT = 8000;

/** Counts its visitors in memory alone, and tells a number that it made up when it started. */
const COUNTER = `
import http.server, itertools, secrets
nonce, visits = secrets.token_hex(8), itertools.count(1)
class Counter(http.server.BaseHTTPRequestHandler):
  def answer(self):
    visit = next(visits)
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

const ask = (id: string, init: RequestInit = {}) =>
  fetch(`${server().url}/`, { ...init, headers: { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(PORT) } });

const visit = async (id: string, init: RequestInit = {}) => {
  const answer = await ask(id, init);
  const text = await answer.text();
  expect([answer.status, text]).toEqual([200, expect.any(String)]);
  const [nonce = "", visits = "", length = ""] = text.split(" ");
  return { nonce, visits: Number(visits), length: Number(length) };
};

test("what a program holds in memory is there after a pause, and so are files; the client's handle goes on", async () => {
  const sandbox = await counting();
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.files.write("/home/user/note", "kept");
  expect(await sandbox.pause()).toBe(true);
  expect((await sandbox.getInfo()).state).toBe("paused");
  expect(await sandbox.isRunning()).toBe(false);
  expect((await ask(sandbox.sandboxId)).status).toBe(502);
  await sandbox.connect();
  expect(await sandbox.isRunning()).toBe(true);
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce, visits: 2 });
  expect(await sandbox.files.read("/home/user/note")).toBe("kept");
  expect((await sandbox.commands.run("echo works")).stdout).toBe("works\n");
  await sandbox.kill();
});

test("a pause without memory is a reboot: files stay, programs do not", async () => {
  const sandbox = await counting();
  await sandbox.files.write("/home/user/note", "kept");
  await sandbox.pause({ keepMemory: false });
  await sandbox.connect();
  expect(await sandbox.files.read("/home/user/note")).toBe("kept");
  expect((await sandbox.commands.run("pgrep -f '[c]ounter.py' || echo none")).stdout).toBe("none\n");
  await sandbox.kill();
});

test("traffic wakes it, once for all who ask, with the bodies they brought", async () => {
  const sandbox = await counting({ lifecycle: { onTimeout: "pause", autoResume: true } });
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
  // The client's own calls do as well: they carry the token.
  expect((await sandbox.commands.run("echo awake")).stdout).toBe("awake\n");
  await sandbox.pause();
  const stranger = (path: string) =>
    fetch(`${server().url}${path}`, {
      headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983" },
    });
  expect((await stranger("/metrics")).status).toBe(403);
  expect((await stranger("/health")).status).toBe(502);
  expect((await sandbox.getInfo()).state).toBe("paused");
  await sandbox.kill();
});

test("at the end of its timeout it is paused, and called back with its memory", async () => {
  const sandbox = await counting({ lifecycle: { onTimeout: "pause", autoResume: true } });
  const { nonce } = await visit(sandbox.sandboxId);
  await sandbox.setTimeout(1_000);
  await until("it is paused", async () => (await sandbox.getInfo()).state === "paused");
  // The state follows the clock; a request that still found the sandbox running would end with it.
  await until("its route is closed", async () => !(await sandbox.isRunning()));
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce });
  await sandbox.kill();
});

test("a client that follows a command does not undo the pause at the end of its timeout", async () => {
  const lifecycle = { onTimeout: "pause", autoResume: true } as const;
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 300_000, lifecycle });
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

test("a stream from it breaks off when it is paused", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 300_000 });
  const endless = await sandbox.commands.run("while true; do echo more; sleep 0.05; done", { background: true });
  const ended = endless.wait().then(
    () => "ended",
    () => "broken",
  );
  await sandbox.pause();
  expect(await ended).toBe("broken");
  await sandbox.connect();
  const again = await sandbox.commands.connect(endless.pid);
  await again.kill();
  await sandbox.kill();
});

test("copies begin with its memory, go their own ways, and know none of its tokens", async () => {
  const sandbox = await counting();
  const { nonce } = await visit(sandbox.sandboxId);
  const copies = (await sandbox.fork({ count: 3, timeoutMs: 300_000 })).filter(
    (copy): copy is Sandbox => !(copy instanceof Error),
  );
  expect(copies).toHaveLength(3);
  for (const copy of copies) {
    expect(await visit(copy.sandboxId)).toMatchObject({ nonce, visits: 2 });
    expect((await copy.commands.run("echo mine")).stdout).toBe("mine\n");
  }
  expect(await visit(sandbox.sandboxId)).toMatchObject({ nonce, visits: 2 });
  await Promise.all([sandbox, ...copies].map((each) => each.kill()));
});

test("a snapshot outlives its sandbox and starts others", async () => {
  const sandbox = await counting();
  const { nonce } = await visit(sandbox.sandboxId);
  const { snapshotId } = await sandbox.createSnapshot({ name: "counter" });
  await sandbox.kill();
  const [first, second] = await Promise.all([
    Sandbox.create(snapshotId, server().options),
    Sandbox.create("counter", server().options),
  ]);
  for (const each of [first, second]) expect(await visit(each.sandboxId)).toMatchObject({ nonce, visits: 2 });
  await Promise.all([first.kill(), second.kill()]);
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(true);
});
