/** Composing files inside a real sandbox, and the sandbox's health meanwhile. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";

/** In long runs more than a call of the kernel copies at once. */
const LARGE_MIB = LONG ? 2_049 : 257;

const server = sharedServer();
let sandbox: Sandbox;
let token: string;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  token = await runtimeTokenOf(server(), sandbox.sandboxId);
});

const runtime = (path: string, init: RequestInit = {}, key = token) =>
  fetch(server().url + path, {
    ...init,
    headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983", "X-Access-Token": key },
  });
const compose = (source_paths: string[], destination: string, more: Record<string, unknown> = {}) =>
  runtime("/files/compose", { method: "POST", body: JSON.stringify({ source_paths, destination, ...more }) });
const shell = async (script: string) => (await sandbox.commands.run(script, { timeoutMs: 60_000 })).stdout;

test("compose joins parts in order into one file of the user, and removes them", async () => {
  await sandbox.files.writeFiles(["one", "two", "three"].map((path) => ({ path: `parts/${path}`, data: `<${path}>` })));
  const response = await compose(["parts/three", "~/parts/one", "/home/user/parts/two"], "made/whole");
  expect([response.status, await response.json()]).toEqual([
    200,
    { name: "whole", path: "/home/user/made/whole", type: "file" },
  ]);
  expect(await sandbox.files.read("made/whole")).toBe("<three><one><two>");
  expect(await shell("stat -c '%U %G %a' made made/whole; ls -A parts made")).toBe(
    "user user 755\nuser user 644\nmade:\nwhole\n\nparts:\n",
  );
});

async function healthMs({ sandboxId }: Sandbox): Promise<number> {
  const began = performance.now();
  const headers = { "E2b-Sandbox-Id": sandboxId, "E2b-Sandbox-Port": "49983" };
  expect((await fetch(`${server().url}/health`, { headers })).status).toBe(204);
  return performance.now() - began;
}

/**
 * Composes files and polls the sandbox's health meanwhile. Returns how much later the responses came than those of
 * another sandbox on the same busy machine, the latest first.
 */
async function healthWhileComposing(parts: string[], destination: string): Promise<number[]> {
  const other = await Sandbox.create(server().options);
  await healthMs(other);
  let composing = true;
  const response = compose(parts, destination).finally(() => {
    composing = false;
  });
  const times: number[] = [];
  while (composing) {
    const [ownMs, otherMs] = await Promise.all([healthMs(sandbox), healthMs(other)]);
    times.push(ownMs - otherMs);
    await Bun.sleep(10);
  }
  expect((await response).status).toBe(200);
  await other.kill();
  return times.sort((a, b) => b - a);
}

// Guards against copy_file_range on the event loop's thread: a few responses took 256 to 751 ms.
timed("compose joins a large part while the sandbox stays responsive", async () => {
  await shell(`rm -f very-long; fallocate -l ${LARGE_MIB}M long; echo begin > first; echo end > last`);
  expect((await healthWhileComposing(["first", "long", "last"], "very-long"))[0]).toBeLessThan(1000);
  expect(await shell("stat -c %s very-long; head -c 6 very-long; tail -c 4 very-long; rm very-long")).toBe(
    `${LARGE_MIB * 1024 * 1024 + 10}\nbegin\nend\n`,
  );
});
