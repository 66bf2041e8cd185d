/** A sandbox's logs as its owner reads them: through the interface, through the official command line, live. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Sandbox } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const cli = cliOfFile(server);
const folderNamed = foldersOfFile();

interface Entry {
  timestamp: string;
  level: string;
  message: string;
  fields: Record<string, string>;
}

async function entries(id: string, query = "", of: TestServer = server()): Promise<Entry[]> {
  const { status, body } = await of.call("GET", `/v2/sandboxes/${id}/logs${query}`);
  expect(status).toBe(200);
  return body.logs;
}

const has = (fields: Record<string, string>) => (log: Entry[]) =>
  log.some((entry) => Object.entries(fields).every(([name, value]) => entry.fields[name]?.includes(value)));

async function logWith(id: string, isSo: (log: Entry[]) => boolean, of?: TestServer): Promise<Entry[]> {
  let log: Entry[] = [];
  await until(
    () => `the log has it; it is ${JSON.stringify(log, null, 1)}`,
    async () => {
      log = await entries(id, "?direction=forward", of);
      return isSo(log);
    },
  );
  return log;
}

describe("a log", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await Sandbox.create({ ...server().options, envs: { VARIABLE: "value-of-a-variable" } });
  });
  afterAll(() => sandbox.kill());

  test("has commands with exit codes and output sizes, and not their output", async () => {
    await sandbox.commands.run("echo said-nowhere; exit 0", { envs: { MORE: "value-of-another" } });
    const log = await logWith(sandbox.sandboxId, has({ event_type: "process_end" }));
    expect(log[0]).toMatchObject({ level: "info", message: "Sandbox created", fields: { logger: "sandbox" } });
    const start = log.find(({ fields }) => fields.event_type === "process_start");
    expect(start?.fields).toMatchObject({ logger: "process", user: "user", cwd: "/home/user" });
    expect(start?.fields.command).toContain("echo said-nowhere");
    const end = log.find(({ fields }) => fields.event_type === "process_end");
    expect(end?.fields).toMatchObject({ exit_code: "0", stdout_bytes: "13", pid: start?.fields.pid });
    const text = JSON.stringify(log);
    expect(text).not.toContain("value-of-");
    for (const token of [server().apiKey, readFileSync(`${server().dataFolder}/api-key`, "utf8").trim()]) {
      expect(text).not.toContain(token);
    }
  });

  test("is printed by the official command line", async () => {
    await sandbox.commands.run("true # printed-by-cli");
    await logWith(sandbox.sandboxId, has({ event_type: "process_end", command: "printed-by-cli" }));
    const pretty = await cli.sandbox(["logs", sandbox.sandboxId]);
    expect(pretty).toMatchObject({ exitCode: 0 });
    expect(pretty.stdout).toContain("Process started");
    expect(pretty.stdout).toContain("printed-by-cli");
    const json = await cli.sandbox(["logs", sandbox.sandboxId, "--format", "json", "--loggers", "process"]);
    const lines = json.stdout.split("\n").filter((line) => line.startsWith("{"));
    expect(lines.length).toBeGreaterThanOrEqual(2);
    expect(lines.map((line) => JSON.parse(line).logger)).toEqual(lines.map(() => "process"));
  });
});

test("the official command line follows a log to the sandbox's end without a gap", async () => {
  const sandbox = await Sandbox.create(server().options);
  const { argv, env } = cli.command(["logs", sandbox.sandboxId, "--follow", "--format", "json"]);
  const child = Bun.spawn(argv, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const reading = (async () => {
    for await (const chunk of child.stdout) output += Buffer.from(chunk).toString();
  })();
  await until("it follows", () => output.includes("Sandbox created"));
  for (let nth = 0; nth < 12; nth++) {
    await sandbox.commands.run(`true # marker-${nth}-`);
    await Bun.sleep(60);
  }
  const ends = (nth: number) =>
    output.split("\n").filter((line) => line.includes(`marker-${nth}-`) && line.includes("process_end"));
  // It looks for lines a few times in a second, and not once more when the sandbox has ended.
  await until(
    () => `all are printed: ${output}`,
    () => ends(11).length > 0,
  );
  await sandbox.kill();
  expect(await child.exited).toBe(0);
  await reading;
  for (let nth = 0; nth < 12; nth++) expect(ends(nth), `marker ${nth} in ${output}`).toHaveLength(1);
});

// Its last words are listened to for a moment only.
timed("a log outlives its sandbox and has the reason of its end", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("true # last-command");
  await sandbox.kill();
  const log = await logWith(sandbox.sandboxId, has({ event_type: "sandbox.lifecycle.killed" }));
  expect(log.at(-1)?.message).toStartWith("Sandbox killed");
  expect(JSON.stringify(log)).toContain("last-command");
  expect((await cli.sandbox(["logs", sandbox.sandboxId])).stdout).toContain("last-command");
});

test("events during a restart of the server are in the log once", async () => {
  const settings = { SANDLOT_READY: "0" };
  const folder = folderNamed("logs-restart");
  const first = await startServer(folder, settings);
  const sandbox = await Sandbox.create(first.options);
  await sandbox.commands.run("true # before-the-crash");
  await sandbox.commands.run("for n in 1 2 3; do sleep 0.3; done # across-the-crash", { background: true });
  await logWith(sandbox.sandboxId, has({ event_type: "process_start", command: "across-the-crash" }), first);
  await first.crash();
  const second = await startServer(folder, settings);
  const log = await logWith(sandbox.sandboxId, has({ event_type: "process_end", command: "across-the-crash" }), second);
  for (const command of ["before-the-crash", "across-the-crash"]) {
    const reported = log.filter(({ fields }) => fields.command?.includes(command));
    expect(reported.map(({ fields }) => fields.event_type)).toEqual(["process_start", "process_end"]);
  }
  const times = log.map(({ timestamp }) => timestamp);
  expect(times).toEqual(times.toSorted());
  await Sandbox.kill(sandbox.sandboxId, second.options);
  await second.stop();
});

test("a log continues after a pause, and the log of a copy begins with the copy", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("true # before-the-pause");
  await sandbox.commands.run("while sleep 0.1; do :; done # across-the-pause", { background: true });
  await sandbox.pause();
  const resumed = await Sandbox.connect(sandbox.sandboxId, server().options);
  await resumed.commands.run("pkill -f across-the-paus[e] || true # after-the-pause");
  const ended = has({ event_type: "process_end", command: "across-the-pause" });
  const log = await logWith(
    sandbox.sandboxId,
    (all) => ended(all) && has({ event_type: "process_end", command: "after-the" })(all),
  );
  const reportOf = (text: string) =>
    log.filter(({ fields }) => fields.event_type?.startsWith("process") && fields.command?.includes(text));
  expect(reportOf("before-the-pause")).toHaveLength(2);
  expect(reportOf("# across-the-pause")).toHaveLength(2);
  const life = log.flatMap(({ fields }) => fields.event_type?.match(/lifecycle\.(\w+)/)?.[1] ?? []);
  expect(life).toEqual(expect.arrayContaining(["created", "paused", "resumed"]));
  const times = log.map(({ timestamp }) => timestamp);
  expect(times).toEqual(times.toSorted());

  const fork = await server().call("POST", `/sandboxes/${sandbox.sandboxId}/fork`, { count: 1 });
  expect(fork.status).toBe(201);
  const copy = await Sandbox.connect(fork.body[0].sandbox.sandboxID, server().options);
  await copy.commands.run("true # in-the-copy");
  const ofCopy = await logWith(copy.sandboxId, has({ event_type: "process_end", command: "in-the-copy" }));
  expect(JSON.stringify(ofCopy)).not.toContain("-the-pause");
  await Promise.all([resumed.kill(), copy.kill()]);
});
