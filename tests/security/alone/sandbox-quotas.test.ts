/** A sandbox's quotas of shared resources: the sandbox reaches the limit itself, and its neighbour does not notice. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { OUTSIDE, UNANSWERED } from "../../../src/host/testing/outer-network.ts";
import { CONNECTIONS_PER_SANDBOX_MAX } from "../../../src/sandbox/network/ruleset.ts";
import { sharedServer } from "../../support/shared-server.ts";

const FLOWS_MS = 110_000;
const server = sharedServer();
let sandbox: Sandbox;
let neighbour: Sandbox;
beforeAll(async () => {
  const make = () => Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  [sandbox, neighbour] = await Promise.all([make(), make()]);
});

test("connections to the outside are bounded, and the neighbour has its own", async () => {
  const connect = `python3 -c 'import socket; socket.create_connection(("${OUTSIDE}", 80), 20); print("connected")'`;
  // The kernel remembers an unanswered flow for two minutes, even after its socket is gone.
  const flows = [
    "import errno, itertools, socket",
    "for port in itertools.count(1024):",
    "    s = socket.socket()",
    "    s.setblocking(False)",
    `    s.connect_ex(("${UNANSWERED}", 1024 + port % 64000))`,
    "    s.close()",
    `    if port < ${CONNECTIONS_PER_SANDBOX_MAX} or port % 100 > 0: continue`,
    "    try:",
    `        socket.create_connection(("${OUTSIDE}", 80), 20).close()`,
    "    except OSError as error:",
    "        print(errno.errorcode[error.errno])",
    "        break",
  ];
  expect((await sandbox.commands.run(connect)).stdout).toBe("connected\n");
  await sandbox.files.write("flows.py", flows.join("\n"));
  expect((await sandbox.commands.run("python3 flows.py", { timeoutMs: FLOWS_MS })).stdout).toBe("ECONNREFUSED\n");
  expect((await neighbour.commands.run(connect)).stdout).toBe("connected\n");
});

test("a sandbox that fills the kernel's neighbour table does not block the others", async () => {
  const flood = [
    "import socket",
    "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "for at in range(8192): sender.sendto(b'x', (f'224.1.{at >> 8}.{at & 255}', 9))",
  ];
  await sandbox.files.write("neighbours.py", flood.join("\n"));
  const flooding = await sandbox.commands.run("while :; do python3 neighbours.py; done", { background: true });
  // New ones each need entries at both ends of their cable, and the machine one on its way out.
  for (const _ of [1, 2]) {
    const made = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
    expect((await made.commands.run(`curl -sS -m 20 http://${OUTSIDE}/`)).stdout).toBe("hello from outside");
    await made.kill();
  }
  await flooding.kill();
});
