/** What one sandbox may take of what all share: it reaches the bound itself, and its neighbour does not notice. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { CONNECTIONS_PER_SANDBOX_MAX } from "../../src/host/limits.ts";
import { OUTSIDE } from "../../src/host/testing/outer-network.ts";
import { sharedServer } from "../support/shared-server.ts";

const server = sharedServer();
let sandbox: Sandbox;
let neighbour: Sandbox;
beforeAll(async () => {
  const make = () => Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  [sandbox, neighbour] = await Promise.all([make(), make()]);
});

test("connections to the outside are bounded, and the neighbour has its own", async () => {
  const connect = `python3 -c 'import socket; socket.create_connection(("${OUTSIDE}", 80), 20); print("connected")'`;
  const flows = [
    "import errno, socket, sys",
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    // A datagram to each port is a connection of its own to the kernel, for half a minute.
    `for port in range(20000, 20000 + ${CONNECTIONS_PER_SANDBOX_MAX} + 50): s.sendto(b"x", ("${OUTSIDE}", port))`,
    "try:",
    `    socket.create_connection(("${OUTSIDE}", 80), 20)`,
    '    print("connected")',
    "except OSError as error: print(errno.errorcode[error.errno])",
  ];
  expect((await sandbox.commands.run(connect)).stdout).toBe("connected\n");
  await sandbox.files.write("flows.py", flows.join("\n"));
  expect((await sandbox.commands.run("python3 flows.py")).stdout).toBe("ECONNREFUSED\n");
  expect((await neighbour.commands.run(connect)).stdout).toBe("connected\n");
});
