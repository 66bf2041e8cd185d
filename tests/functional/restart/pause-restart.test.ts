/** Paused sandboxes survive everything but the loss of their data folder. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { startServer, tearDownServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const newFolder = foldersOfFile();
/** Maximum duration of a neighbour's command while other sandboxes are paused, on an otherwise idle machine. */
const NEIGHBOUR_MAX_MS = 3_000;

test("a nonce that is only in memory survives the loss of all runtime state of the machine", async () => {
  const folder = newFolder("reboot");
  const first = await startServer(folder);
  const sandbox = await Sandbox.create(first.options);
  let word = "";
  const holder = await sandbox.commands.run(
    "python3 -uc 'import os, sys; w = os.urandom(16).hex(); print(w)\nfor line in sys.stdin: print(line.strip() + w)'",
    {
      background: true,
      stdin: true,
      timeoutMs: 0,
      onStdout: (text) => {
        word += text;
      },
    },
  );
  await until("the word is known", () => word.includes("\n"));
  await sandbox.pause();
  await first.stop();
  // As after a reboot: no process, mount, interface, cgroup or file in /run is left.
  await tearDownServer(folder);

  const second = await startServer(folder);
  expect((await Sandbox.getInfo(sandbox.sandboxId, second.options)).state).toBe("paused");
  const again = await Sandbox.connect(sandbox.sandboxId, second.options);
  let said = "";
  await again.commands.connect(holder.pid, {
    timeoutMs: 0,
    onStdout: (text) => {
      said += text;
    },
  });
  await again.commands.sendStdin(holder.pid, "=\n");
  await until("the word is said again", () => said.includes(`=${word.trim()}`));
  await again.kill();
  await second.stop();
});

timed("pausing many at once does not stall the others", async () => {
  const server = await startServer(newFolder("many"));
  const neighbour = await Sandbox.create(server.options);
  const many = await Promise.all(Array.from({ length: 8 }, () => Sandbox.create(server.options)));
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
  const resumed = await Promise.all(many.map(({ sandboxId }) => Sandbox.connect(sandboxId, server.options)));
  for (const sandbox of resumed) expect((await sandbox.commands.run("echo back")).stdout).toBe("back\n");
  await Promise.all([neighbour, ...resumed].map((sandbox) => sandbox.kill()));
  await server.stop();
});
