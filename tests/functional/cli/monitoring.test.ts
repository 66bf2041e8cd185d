/** What the operator of a running server sees of it. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { sharedServer } from "../../support/shared-server.ts";

const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const server = sharedServer();

async function sandlot(...words: string[]): Promise<string> {
  const env = serverEnv(server().dataFolder);
  const { exitCode, stdout, stderr } = await attempt([process.execPath, MAIN, ...words], { env });
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
  return stdout;
}

/** Sum of all series with this beginning. */
function total(metrics: string, beginning: string): number {
  const lines = metrics.split("\n").filter((line) => line.startsWith(beginning));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

test("sandlot metrics counts creates, pauses, resumes, forks and requests", async () => {
  const before = await sandlot("metrics");
  const sandbox = await Sandbox.create(server().options);
  const [copy] = await sandbox.fork({ count: 1, timeoutMs: 300_000 });
  await sandbox.pause();
  await sandbox.connect();
  const after = await sandlot("metrics");
  const grown = (beginning: string) => total(after, beginning) - total(before, beginning);
  expect(grown("sandlot_create_seconds_count")).toBe(2);
  expect(grown('sandlot_create_seconds_count{origin="restore"}')).toBe(1);
  for (const operation of ["fork", "pause", "resume"]) {
    expect(grown(`sandlot_operation_seconds_count{operation="${operation}"}`)).toBe(1);
  }
  expect(grown('sandlot_requests_total{route="POST /sandboxes/{sandboxID}/pause",status="204"}')).toBe(1);
  expect(grown("sandlot_store_seconds_count")).toBeGreaterThan(4);
  expect(grown('sandlot_sandboxes{state="running"}')).toBe(2);
  expect(grown("sandlot_memory_promised_bytes")).toBe(2 * 1024 ** 3);
  await Promise.all([sandbox.kill(), copy instanceof Sandbox && copy.kill()]);
});
