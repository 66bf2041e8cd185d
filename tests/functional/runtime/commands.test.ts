/** Commands in a sandbox: their input, their output and how they end. */
import { beforeAll, expect, test } from "bun:test";
import { CommandExitError, NotFoundError, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  const envs = { COLOUR: "sandbox", E2B_SANDBOX: "forged" };
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000, envs });
});

const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");

async function exitOf(promise: Promise<unknown>): Promise<CommandExitError> {
  const error = await refusalOf(promise);
  if (!(error instanceof CommandExitError)) throw error;
  return error;
}

test("a command returns stdout, stderr and exit code separately", async () => {
  const { stdout, stderr, exitCode, error } = await sandbox.commands.run("echo out; echo err >&2");
  expect({ stdout, stderr, exitCode, error }).toEqual({
    stdout: "out\n",
    stderr: "err\n",
    exitCode: 0,
    error: undefined,
  });
});

test.each([1, 2, 42, 127, 255])("exit code %p is an error that carries the output", async (code) => {
  const { exitCode, stdout, stderr, error } = await exitOf(
    sandbox.commands.run(`echo out; echo err >&2; exit ${code}`),
  );
  expect({ exitCode, stdout, stderr }).toEqual({ exitCode: code, stdout: "out\n", stderr: "err\n" });
  expect(error).toBe(`exit status ${code}`);
});

test("a command runs in the user's login shell and home folder, without input", async () => {
  const { stdout } = await sandbox.commands.run(
    "shopt -q login_shell && whoami && pwd && cat && echo the end of input",
  );
  expect(stdout).toBe("user\n/home/user\nthe end of input\n");
});

test("a command runs as root on request", async () => {
  const script = "id -un; id -gn; echo $HOME $USER $LOGNAME; touch /etc/only-root-can && echo written";
  const { stdout } = await sandbox.commands.run(script, { user: "root" });
  expect(stdout).toBe("root\nroot\n/root root root\nwritten\n");
  expect((await exitOf(sandbox.commands.run("rm /etc/only-root-can"))).stderr).toContain("Permission denied");
});

test("the user becomes root with sudo, and back", async () => {
  const { stdout } = await sandbox.commands.run("sudo whoami; sudo -u user whoami; sudo cat /etc/shadow | head -c 4");
  expect(stdout).toBe("root\nuser\nroot");
});

test("a command's variables override the sandbox's, and system variables cannot be replaced for all", async () => {
  const script = 'echo "$COLOUR $E2B_SANDBOX $HOME"';
  expect((await sandbox.commands.run(script)).stdout).toBe("sandbox true /home/user\n");
  const envs = { COLOUR: "command", E2B_SANDBOX: "mine", HOME: "/tmp" };
  expect((await sandbox.commands.run(script, { envs })).stdout).toBe("command mine /tmp\n");
  expect((await sandbox.commands.run(script)).stdout).toBe("sandbox true /home/user\n");
});

test("a variable's value arrives unchanged", async () => {
  const value = "a 'b' \"c\" $d `e` \\f\n\tü € 😀 =;&|";
  const { stdout } = await sandbox.commands.run('printf %s "$STRANGE"', { envs: { STRANGE: value } });
  expect(stdout).toBe(value);
});

test.each([
  { cwd: "/tmp", is: "/tmp" },
  { cwd: "~", is: "/home/user" },
  { cwd: "~/deep/er", is: "/home/user/deep/er" },
  { cwd: "deep", is: "/home/user/deep" },
  { cwd: "/", is: "/" },
])("cwd $cwd is $is", async ({ cwd, is }) => {
  await sandbox.files.makeDir("/home/user/deep/er");
  expect((await sandbox.commands.run("pwd", { cwd })).stdout).toBe(`${is}\n`);
});

test("output arrives while the command runs, in order, before it goes on", async () => {
  let seen = "";
  const started = Promise.withResolvers<number>();
  const handle = await sandbox.commands.run("for n in 1 2 3 4 5; do echo $n; read -r _; done; echo end", {
    background: true,
    stdin: true,
    // The command waits for each reply, and each reply waits for the output before it: this ends only if no output is
    // held back.
    onStdout: async (text) => {
      seen += text;
      if (/\d\n$/.test(text)) await sandbox.commands.sendStdin(await started.promise, "go\n");
    },
  });
  started.resolve(handle.pid);
  const { stdout } = await handle.wait();
  expect(seen).toBe("1\n2\n3\n4\n5\nend\n");
  expect(stdout).toBe(seen);
});

test("20 MB of output arrive complete", async () => {
  const lines = 2_600_000;
  const { stdout } = await sandbox.commands.run(`seq 1 ${lines}`);
  const expected = `${Array.from({ length: lines }, (_, at) => at + 1).join("\n")}\n`;
  expect(expected.length).toBeGreaterThan(19_000_000);
  expect(stdout.length).toBe(expected.length);
  expect(sha256(stdout)).toBe(sha256(expected));
});

test("input is sent in pieces and ends when it is closed", async () => {
  const script = "cat | wc -c; until [ -e closed-twice ]; do sleep 0.05; done; echo done";
  const handle = await sandbox.commands.run(script, { background: true, stdin: true });
  await handle.sendStdin("hello ");
  await sandbox.commands.sendStdin(handle.pid, new Uint8Array([0, 255, 10, 13]));
  await handle.closeStdin();
  await handle.closeStdin();
  await sandbox.files.write("closed-twice", "");
  expect((await handle.wait()).stdout).toBe("10\ndone\n");
});

test("a command in the background is listed until it has ended", async () => {
  const envs = { MARK: "listed" };
  const handle = await sandbox.commands.run("read -r _", { background: true, stdin: true, envs, cwd: "/tmp" });
  expect(handle.exitCode).toBeUndefined();
  const listed = (await sandbox.commands.list()).find(({ pid }) => pid === handle.pid);
  expect(listed).toMatchObject({ cmd: "/bin/bash", args: ["-l", "-c", "read -r _"], envs, cwd: "/tmp" });
  await handle.sendStdin("\n");
  expect((await handle.wait()).exitCode).toBe(0);
  expect((await sandbox.commands.list()).map(({ pid }) => pid)).not.toContain(handle.pid);
});

test("a killed command returns -1 and names the signal", async () => {
  const handle = await sandbox.commands.run("echo started; exec sleep 300", { background: true });
  expect(await handle.kill()).toBe(true);
  const { exitCode, error } = await exitOf(handle.wait());
  expect({ exitCode, error }).toEqual({ exitCode: -1, error: "signal: killed" });
  expect(await handle.kill()).toBe(false);
  expect(await sandbox.commands.kill(handle.pid)).toBe(false);
});

test("a request for a process that is not running fails", async () => {
  const nobody = 999_999;
  expect(await sandbox.commands.kill(nobody)).toBe(false);
  expect(await refusalOf(sandbox.commands.sendStdin(nobody, "x"))).toBeInstanceOf(NotFoundError);
  expect(await refusalOf(sandbox.commands.closeStdin(nobody))).toBeInstanceOf(NotFoundError);
  expect(await refusalOf(sandbox.commands.connect(nobody))).toBeInstanceOf(NotFoundError);
});

test("a command ends while its background job runs, if the job has closed the output", async () => {
  const { stdout } = await sandbox.commands.run("sleep 300 >/dev/null 2>&1 & echo $!");
  expect((await sandbox.commands.run(`kill -0 ${stdout.trim()} && echo runs`)).stdout).toBe("runs\n");
  await sandbox.commands.run(`kill ${stdout.trim()}`);
});

test("a first command runs alone, and has the same user and groups as concurrent commands", async () => {
  const quiet = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  try {
    const itself = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|SigBlk|SigIgn)' /proc/self/status; umask; sudo -n id";
    const alone = await quiet.commands.run(`echo /proc/[0-9]*; ${itself}`);
    await quiet.commands.run("sleep 600", { background: true });
    const beside = await quiet.commands.run(`echo /proc/[0-9]*; ${itself}`);
    const [listed, ...first] = alone.stdout.split("\n");
    const [, ...second] = beside.stdout.split("\n");
    // The first process, the shell that keeps the guest, the guest, and this one.
    expect(listed?.split(" ").length).toBe(4);
    expect(first).toEqual(second);
    expect(first).toContain("CapPrm:\t0000000000000000");
    expect(first.at(-2)).toContain("uid=0(root)");
  } finally {
    await quiet.kill();
  }
});
