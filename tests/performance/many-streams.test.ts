/** Many streams stay open for minutes; a new request must not wait for one of them to end. */
import { afterAll, expect } from "bun:test";
import { connect, type Socket } from "node:net";
import { Sandbox } from "e2b";
import { timed } from "../../src/base/testing/timed.ts";
import { startListening } from "../support/listening.ts";
import { serverOfFile } from "../support/server-of-file.ts";
import { until } from "../support/until.ts";

const server = serverOfFile("many-streams", { SANDLOT_READY: "0" });
const STREAMS = 600;
const sockets: Socket[] = [];
afterAll(() => {
  for (const socket of sockets) socket.destroy();
});

// Guards against Bun's default number of requests: the 257th waits forever.
timed("hundreds of silent streams do not delay other responses", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const silent =
    "const held = []; require('http').createServer((q, a) => { held.push(a); a.write('held'); }).listen(8000, () => console.log('up'))";
  await startListening(sandbox, `exec node -e "${silent}"`);
  const { hostname, port } = new URL(server().url);
  let held = 0;
  for (let at = 0; at < STREAMS; at++) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    socket.once("data", () => {
      held++;
    });
    socket.write(`GET / HTTP/1.1\r\nHost: 8000-${sandbox.sandboxId}.anything.test\r\n\r\n`);
    sockets.push(socket);
  }
  await until(
    () => `all ${STREAMS} are held, but ${held}`,
    () => held === STREAMS,
    30_000,
  );
  const begun = performance.now();
  expect((await sandbox.commands.run("echo answered")).stdout).toBe("answered\n");
  expect(performance.now() - begun).toBeLessThan(2000);
  await sandbox.kill();
});
