/** The official command line against this server, as used by a person or a script. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox, SandboxNotFoundError } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { LocalTerminal } from "../../support/programs/local-terminal.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const cli = cliOfFile(server);
const UNKNOWN = "i00000000000000000000";
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000, metadata: { of: "this file" } });
});

interface Listed {
  sandboxId: string;
  name: string;
  state: string;
  cpuCount: number;
  memoryMB: number;
  metadata: Record<string, string>;
}

async function listed(...args: string[]): Promise<Listed[]> {
  const { stdout, exitCode } = await cli.sandbox(["list", "--format", "json", ...args]);
  expect(exitCode).toBe(0);
  return JSON.parse(stdout) as Listed[];
}

describe("create", () => {
  test("with --detach prints only the id of the running sandbox", async () => {
    const { stdout, stderr, exitCode } = await cli.sandbox(["create", "-d", "base", "--timeout", "600"]);
    expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
    const id = stdout.trim();
    expect(id).toMatch(/^i[a-z0-9]{20}$/);
    const created = await Sandbox.getInfo(id, server().options);
    expect(created).toMatchObject({ state: "running", name: "base" });
    expect(created.endAt.getTime() - created.startedAt.getTime()).toBe(600_000);
    await Sandbox.kill(id, server().options);
  });

  test.skipIf(!LONG)("fails for an unknown template and names it", async () => {
    const { stdout, stderr, exitCode } = await cli.sandbox(["create", "-d", "no-such-template"]);
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 1 });
    expect(stderr).toContain("no-such-template");
  });

  test("with a terminal keeps the sandbox until the terminal closes", async () => {
    using terminal = new LocalTerminal(cli.command(["create", "base"]));
    const [, id = ""] = await terminal.read(/sandbox ID (i[a-z0-9]{20})/);
    terminal.type("echo alive-$((1 + 1))\n");
    await terminal.read(/alive-2/);
    expect(await Sandbox.getInfo(id, server().options)).toMatchObject({ state: "running" });
    terminal.type("exit\n");
    expect(await terminal.exited).toBe(0);
    const isGone = () =>
      Sandbox.getInfo(id, server().options).then(
        () => false,
        (error) => error instanceof SandboxNotFoundError,
      );
    await until("the sandbox ends a second after its terminal", isGone);
  });
});

describe("list", () => {
  test("shows template, state, size and metadata, filters by metadata, and sorts", async () => {
    const other = await Sandbox.create(server().options);
    const facts = { name: "base", state: "running", cpuCount: 2, memoryMB: 1024, metadata: { of: "this file" } };
    const { sandboxId } = sandbox;
    expect(await listed("--metadata", "of=this file")).toEqual([expect.objectContaining({ sandboxId, ...facts })]);
    const ids = async (...args: string[]) => (await listed(...args)).map(({ sandboxId }) => sandboxId);
    expect(await ids("--order", "desc", "--limit", "1")).toEqual([other.sandboxId]);
    expect(await ids("--order", "asc")).toEqual([sandboxId, other.sandboxId]);
    await other.kill();
  });
});

test("info shows one sandbox", async () => {
  const { stdout, exitCode } = await cli.sandbox(["info", "--format", "json", sandbox.sandboxId]);
  expect(exitCode).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ sandboxId: sandbox.sandboxId, state: "running", name: "base" });
});

test.each(LONG ? ["info", "exec", "connect", "pause", "resume", "snapshot create"] : ["exec"])(
  "%s of an unknown sandbox fails with its id",
  async (command) => {
    const program = command === "exec" ? ["true"] : [];
    const { stdout, stderr, exitCode } = await cli.sandbox([...command.split(" "), UNKNOWN, ...program]);
    const text = expect.stringContaining(UNKNOWN);
    expect({ command, exitCode, text: stdout + stderr }).toEqual({ command, exitCode: 1, text });
  },
);

test.skipIf(!LONG).each(["kill", "metrics"])("%s of an unknown sandbox says that it was not found", async (command) => {
  const { stdout, stderr } = await cli.sandbox([command, UNKNOWN]);
  expect(stdout + stderr).toMatch(new RegExp(`${UNKNOWN}.*(?:not|wasn't) found`));
});

describe("exec", () => {
  const exec = (args: string[], input?: string | Uint8Array) => cli.sandbox(["exec", ...args], input);
  const inside = () => sandbox.sandboxId;

  test("passes on output, errors and the exit code, and leaves the sandbox's timeout unchanged", async () => {
    const before = await sandbox.getInfo();
    expect(before.endAt.getTime() - Date.now()).toBeGreaterThan(300_000);
    const answer = await exec([inside(), "echo out; echo err >&2; exit 42"]);
    expect(answer).toEqual({ stdout: "out\n", stderr: expect.stringMatching(/^err\n/), exitCode: 42 });
    expect((await sandbox.getInfo()).endAt).toEqual(before.endAt);
  });

  test("passes arguments unchanged, options among them", async () => {
    const { stdout } = await exec([inside(), "printf", "[%s]", "--help", "two words", "$HOME", "it's"]);
    expect(stdout).toBe("[--help][two words][$HOME][it's]");
  });

  test("takes a user, a folder and variables, passes its input on, and closes it at the end", async () => {
    const options = ["-u", "root", "-c", "/tmp", "-e", "COLOUR=green"];
    const bytes = new Uint8Array(300_000).map((_, at) => (at * 31) % 251);
    const { stdout } = await exec([...options, inside(), "echo $(whoami) $PWD $COLOUR; sha256sum"], bytes);
    const expected = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    expect(stdout).toBe(`root /tmp green\n${expected}  -\n`);
  });

  test("in the background prints the pid and returns", async () => {
    const { stdout, stderr, exitCode } = await exec(["-b", inside(), "sleep 300"]);
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 0 });
    const pid = Number(stderr.trim());
    expect((await sandbox.commands.list()).map((running) => running.pid)).toContain(pid);
    expect(await sandbox.commands.kill(pid)).toBe(true);
  });
});

describe("connect", () => {
  test("opens a terminal that has and follows the local size, and leaves the sandbox running", async () => {
    using terminal = new LocalTerminal(cli.command(["connect", sandbox.sandboxId]), { cols: 101, rows: 33 });
    await terminal.read(/Terminal connecting to sandbox/);
    terminal.type("echo sum-$((40 + 2)) $(whoami) $(stty size)\n");
    await terminal.read(/sum-42 user 33 101/);
    // The program itself reports its start, so that it receives what is typed next.
    terminal.type("sh -c 'echo asleep-$((1 + 1)); exec sleep 300'\n");
    await terminal.read(/asleep-2/);
    terminal.type("\u0003");
    terminal.type("echo code-$?\n");
    await terminal.read(/code-130/);
    terminal.type("trap 'echo now-$(stty size)' WINCH; echo ready-$((1 + 1))\n");
    await terminal.read(/ready-2/);
    terminal.resize(120, 40);
    const answer = async () => {
      // Bash runs a trap when the command before it is done.
      terminal.type("\n");
      return /now-40 120/.test(terminal.text);
    };
    await until(() => `the sandbox's terminal has the new size; it shows ${terminal.text.slice(-500)}`, answer);
    terminal.type("exit\n");
    await terminal.read(/Closing terminal connection/);
    expect(await terminal.exited).toBe(0);
    expect(await sandbox.isRunning()).toBe(true);
  });
});

describe("kill", () => {
  test("ends the named sandboxes", async () => {
    const [one, two] = [await Sandbox.create(server().options), await Sandbox.create(server().options)];
    const { stdout, exitCode } = await cli.sandbox(["kill", one.sandboxId, two.sandboxId]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain(one.sandboxId);
    expect(stdout).toContain(two.sandboxId);
    expect([await one.isRunning(), await two.isRunning(), await sandbox.isRunning()]).toEqual([false, false, true]);
  });

  // tests/functional/cli/cli-paused.test.ts ends all in a state.
  test.skipIf(!LONG)("ends all sandboxes with the given metadata", async () => {
    const ours = await Sandbox.create({ ...server().options, metadata: { doomed: "yes" } });
    const { stdout, exitCode } = await cli.sandbox(["kill", "--all", "--metadata", "doomed=yes"]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain(ours.sandboxId);
    expect([await ours.isRunning(), await sandbox.isRunning()]).toEqual([false, true]);
  });
});

test("a wrong key is refused", async () => {
  const { argv, env } = cli.command(["list"]);
  const child = Bun.spawn(argv, { env: { ...env, E2B_API_KEY: `e2b_${"0".repeat(40)}` }, stderr: "pipe" });
  expect(await new Response(child.stderr).text()).toContain("this API key is not valid");
  expect(await child.exited).toBe(1);
});
