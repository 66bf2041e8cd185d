/** Restart and crash: the next server adopts running sandboxes, removes everything else and corrects the store. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { census, NOTHING, settledCensus } from "../../support/census.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();

async function listed(server: TestServer): Promise<string[]> {
  const paginator = Sandbox.list({ ...server.options, limit: 100 });
  const ids: string[] = [];
  while (paginator.hasNext) ids.push(...(await paginator.nextItems()).map((info) => info.sandboxId));
  return ids;
}

async function holds(server: TestServer, sandboxId: string, nonce: string): Promise<boolean> {
  const sandbox = await Sandbox.connect(sandboxId, server.options);
  return (await sandbox.commands.run("cat /tmp/nonce")).stdout === nonce;
}

test("a stop by SIGTERM keeps sandboxes and their processes; the next start serves them", async () => {
  const data = folder("stop");
  const first = await startServer(data, { SANDLOT_READY: "1" });
  const sandbox = await Sandbox.create({ ...first.options, metadata: { who: "survivor" } });
  await sandbox.files.write("/tmp/nonce", "kept");
  const background = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  expect(await first.stop()).toBe(0);
  // The ready sandbox is gone; the one that was handed out is not.
  expect((await census(data)).runFolders).toBe(1);

  const second = await startServer(data, { SANDLOT_READY: "0" });
  expect(await listed(second)).toEqual([sandbox.sandboxId]);
  expect(await holds(second, sandbox.sandboxId, "kept")).toBe(true);
  const again = await Sandbox.connect(sandbox.sandboxId, second.options);
  expect((await again.commands.list()).map((process) => process.pid)).toContain(background.pid);
  expect((await again.getInfo()).metadata).toEqual({ who: "survivor" });
  await again.kill();
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await second.stop();
});

test("a server killed during creates leaves only the sandboxes that it had returned", async () => {
  const data = folder("crash");
  let server = await startServer(data, { SANDLOT_READY: "0" });
  // Different moments of the creation, from the first step to past the last.
  for (const delayMs of LONG ? [0, 15, 40, 80, 160] : [15, 80]) {
    const before = await listed(server);
    const attempts = Array.from({ length: 6 }, () =>
      Sandbox.create({ ...server.options, timeoutMs: 600_000, retries: 0, allowInternetAccess: false }).catch(
        () => undefined,
      ),
    );
    await Bun.sleep(delayMs);
    await server.crash();
    const answered = (await Promise.all(attempts)).flatMap((sandbox) => sandbox?.sandboxId ?? []);

    server = await startServer(data, { SANDLOT_READY: "0" });
    const after = await listed(server);
    expect(after).toEqual(expect.arrayContaining([...before, ...answered]));
    for (const id of after) {
      const sandbox = await Sandbox.connect(id, server.options);
      expect((await sandbox.commands.run("echo alive")).stdout).toBe("alive\n");
    }
    let counted: unknown;
    await until(
      () => `there is what ${after.length} sandboxes need, and no more: ${JSON.stringify(counted)}`,
      async () => {
        const { runFolders, disks, interfaces, crunRecords, ruledSlots, mounts } = await census(data);
        const each = [runFolders, disks, interfaces, crunRecords, ruledSlots];
        counted = { each, mounts };
        return each.every((count) => count === after.length) && mounts === 0;
      },
    );
  }
  await Promise.all((await listed(server)).map((id) => Sandbox.kill(id, server.options)));
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await server.stop();
});

timed("a killed guest restarts within a second, and processes continue", async () => {
  const data = folder("guest");
  const server = await startServer(data, { SANDLOT_READY: "0" });
  const sandbox = await Sandbox.create({ ...server.options, envs: { KEPT: "yes" } });
  await sandbox.commands.run(
    "setsid sh -c 'while :; do date +%s%N > /tmp/tick; sleep 0.05; done' </dev/null >/dev/null 2>&1 &",
  );
  await until("it ticks", () => sandbox.files.exists("/tmp/tick"));
  const guests = "pgrep -f '^/.sandlot/bin/guest'";
  const before = (await sandbox.commands.run(guests)).stdout.trim().split("\n");
  await sandbox.commands.run("sudo pkill -KILL -f '^/.sandlot/bin/guest'").catch(() => undefined);
  const begun = performance.now();
  const after = (await sandbox.commands.run(`${guests}; echo $KEPT`)).stdout.trim().split("\n");
  expect(performance.now() - begun).toBeLessThan(2000);
  expect(after.filter((pid) => before.includes(pid))).toEqual([]);
  // Settings, and with them the token, survived: a request without it is still rejected.
  expect(after.at(-1)).toBe("yes");
  const headers = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983" };
  expect((await fetch(`${server.url}/envs`, { headers })).status).toBe(401);
  const tick = () => sandbox.files.read("/tmp/tick");
  const last = await tick();
  await until("it ticks on", async () => !["", last].includes(await tick()));
  await sandbox.kill();
  await server.stop();
});
