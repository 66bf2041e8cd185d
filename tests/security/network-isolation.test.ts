/** The network isolation of booted sandboxes. */
import { expect } from "bun:test";
import { Sandbox } from "e2b";
import { timed } from "../../src/base/testing/timed.ts";
import { OUTSIDE_NAME } from "../../src/host/testing/outer-network.ts";
import { giveProbes, reached } from "../support/egress/probing.ts";
import { sharedServer } from "../support/shared-server.ts";
import { testNetworkIsolation } from "./network-isolation.ts";

const server = sharedServer();
const make = (more: { allowInternetAccess?: boolean } = {}) =>
  Sandbox.create({ ...server().options, timeoutMs: 600_000, ...more });

testNetworkIsolation(server, async () => {
  const [open, offline, neighbour] = await Promise.all([
    make({ allowInternetAccess: true }),
    make({ allowInternetAccess: false }),
    make(),
  ]);
  return { open, offline, neighbour };
});

timed("a sandbox that sends DNS queries without reading replies does not affect others", async () => {
  const outputBefore = server().output().length;
  const [asker, neighbour] = await Promise.all([make(), make()]);
  await giveProbes(neighbour);
  const leave = [
    "import socket",
    'question = bytes.fromhex("123401000001000000000000") + b"\\x07outside\\x04test" + bytes.fromhex("0000010001")',
    "for _ in range(500):",
    "    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    '    asker.sendto(question, ("169.254.0.22", 53))',
    "    asker.close()",
  ].join("\n");
  await asker.files.write("/tmp/leave.py", leave);
  const names = Array.from({ length: 20 }, () => `name ${OUTSIDE_NAME} 0`);
  const [found] = await Promise.all([reached(neighbour, names), asker.commands.run("python3 /tmp/leave.py")]);
  expect(found).toEqual(names);
  // Replies without a recipient are not logged: a sandbox must not be able to fill the log.
  expect(server().output().slice(outputBefore)).not.toContain("ECONNREFUSED");
});
