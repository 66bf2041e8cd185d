/** What the operator of a running server sees of it. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { LocalTerminal } from "../../support/programs/local-terminal.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const PAUSES = 'sandlot_requests_total{route="POST /sandboxes/{sandboxID}/pause",status="204"}';
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
  await sandbox.commands.run("true");
  const [copy] = await sandbox.fork({ count: 1, timeoutMs: 300_000 });
  await sandbox.pause();
  await sandbox.connect();
  // The edge reports once a second.
  const starts = "sandlot_command_start_seconds_count";
  let after = before;
  const isReported = async () => {
    after = await sandlot("metrics");
    return total(after, starts) > total(before, starts) && total(after, PAUSES) > total(before, PAUSES);
  };
  await until("the edge has reported", isReported);
  const grown = (beginning: string) => total(after, beginning) - total(before, beginning);
  expect(grown("sandlot_create_seconds_count")).toBe(2);
  expect(grown('sandlot_create_seconds_count{origin="restore"}')).toBe(1);
  expect(grown('sandlot_edge_requests_total{class="command"}')).toBe(1);
  for (const operation of ["fork", "pause", "resume"]) {
    expect(grown(`sandlot_operation_seconds_count{operation="${operation}"}`)).toBe(1);
  }
  expect(grown(PAUSES)).toBe(1);
  expect(grown("sandlot_store_seconds_count")).toBeGreaterThan(4);
  expect(grown('sandlot_sandboxes{state="running"}')).toBe(2);
  expect(grown("sandlot_memory_promised_bytes")).toBe(2 * 1024 ** 3);
  await Promise.all([sandbox.kill(), copy instanceof Sandbox && copy.kill()]);
});

describe("sandlot top", () => {
  test("prints one table where there is no terminal", async () => {
    const sandbox = await Sandbox.create(server().options);
    const lines = (await sandlot("top", "--filter", sandbox.sandboxId)).trim().split("\n");
    expect(lines.at(-1)).toMatch(new RegExp(`^${sandbox.sandboxId} +base +default +running +\\d+s +\\d+\\.\\d `));
    await sandbox.kill();
  });

  test("on a terminal pauses and kills the marked sandbox", async () => {
    const { sandboxId } = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
    const env = serverEnv(server().dataFolder);
    using terminal = new LocalTerminal({ argv: [process.execPath, MAIN, "top", "--filter", sandboxId], env });
    await terminal.read(new RegExp(`${sandboxId} .*running`));
    terminal.type("p");
    await terminal.read(new RegExp(`${sandboxId} is paused`));
    expect((await Sandbox.getInfo(sandboxId, server().options)).state).toBe("paused");
    terminal.type("x");
    await terminal.read(/kill i\w+\? y: yes/);
    terminal.type("y");
    await terminal.read(new RegExp(`${sandboxId} is killed`));
    await expect(Sandbox.getInfo(sandboxId, server().options)).rejects.toThrow();
    terminal.type("q");
    expect(await terminal.exited).toBe(0);
  });
});
