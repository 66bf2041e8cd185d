/**
 * Root in a sandbox can replace the guest with any program. The server must not trust it, wait for it, or grow by it.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Sandbox } from "e2b";
import { inPlaceOfGuest } from "../support/impostor.ts";
import { rawRequest, rawText } from "../support/raw-request.ts";
import { serverOfFile } from "../support/server-of-file.ts";
import { until } from "../support/until.ts";

const server = serverOfFile("hostile-guest", { SANDLOT_READY: "0" });
const GROWTH_MAX_MB = 64;

/** Answers every request on the runtime port with 200 and a flood of spaces, gzipped or not. */
const IMPOSTOR = inPlaceOfGuest(
  "zlib",
  `
zipped = sys.argv[1] == "gzip"
packer = zlib.compressobj(9, zlib.DEFLATED, 31)
piece = b" " * 1048576
while True:
    client, _ = listener.accept()
    try:
        client.recv(65536)
        head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
        client.sendall(head + (b"Content-Encoding: gzip\\r\\n" if zipped else b"") + b"\\r\\n")
        for _ in range(400): client.sendall(packer.compress(piece) if zipped else piece)
    except OSError: pass
    client.close()
`,
);

function residentMB(): number {
  const status = readFileSync(`/proc/${server().pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024;
}

test.each(["plain", "gzip"])("a %s flood in response to the host does not grow the server", async (kind) => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.files.write("/tmp/impostor.py", IMPOSTOR);
  await sandbox.commands
    .run(`sudo setsid python3 /tmp/impostor.py ${kind} </dev/null >/dev/null 2>&1 &`, { timeoutMs: 5000 })
    .catch(() => undefined);
  const host = (port: number) => `${port}-${sandbox.sandboxId}.anything.test`;
  await until("the impostor answers", async () => {
    const gone = new AbortController();
    const response = await fetch(`${server().url}/health`, { headers: { host: host(49983) }, signal: gone.signal });
    gone.abort();
    return response.status === 200;
  });

  const before = residentMB();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, residentMB());
  }, 20);
  // Each closed port makes the host ask the guest for a way to it.
  const answers = await Promise.all(
    [7001, 7002, 7003].map((port) => rawRequest(server().url, { target: "/", host: host(port) })),
  );
  clearInterval(watch);
  expect(answers.map(({ status }) => status)).toEqual([502, 502, 502]);
  expect(peak - before).toBeLessThan(GROWTH_MAX_MB);
  expect(await sandbox.kill()).toBe(true);
});

// Guards against a reason for the break, which Bun prints with a stack.
test("an interrupted download or command leaves only log lines in the server's output", async () => {
  const before = server().output().length;
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("head -c 200000000 /dev/zero > big");
  const link = new URL(await sandbox.downloadUrl("big"));
  const response = await fetch(link, { headers: { host: `49983-${sandbox.sandboxId}.anything.test` } });
  expect(response.status).toBe(200);
  const reader = response.body?.getReader();
  await reader?.read();
  const command = await sandbox.commands.run("while :; do echo on; sleep 0.01; done", { background: true });
  const followed = command.wait().catch((error: unknown) => error);
  await sandbox.kill();
  await expect(
    (async () => {
      while (!(await reader?.read())?.done);
    })(),
  ).rejects.toThrow();
  expect(await followed).toBeInstanceOf(Error);
  const printed = server().output().slice(before);
  expect(printed).not.toContain("signature");
  expect(printed.split("\n").filter((line) => line !== "" && !line.startsWith("{"))).toEqual([]);
});

test("a request without a Host header is read by its own path", async () => {
  const ask = (head: string) => rawText(server().url, `${head}\r\n\r\n`);
  expect((await ask("GET /health HTTP/1.0")).status).toBe(200);
  expect((await ask("GET /x/health HTTP/1.0")).status).toBe(404);
  expect((await ask("POST /abc/sandboxes HTTP/1.0")).status).toBe(404);
});
