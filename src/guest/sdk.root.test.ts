/** The official JavaScript SDK, unmodified, against a real daemon. */
import { describe, expect, test } from "bun:test";
import { AuthenticationError, CommandExitError, Sandbox } from "e2b";
import { guestOfFile } from "./testing/guest-of-file.ts";

const guest = await guestOfFile();
// In debug mode the SDK asks no management server and sends no token.
const sandbox = await Sandbox.connect("debug", { debug: true, sandboxUrl: guest.url });

describe("commands", () => {
  test("run, fail, run in the background, take input, are listed and killed", async () => {
    const done = await sandbox.commands.run("echo $A; echo err >&2", { envs: { A: "é" }, cwd: "/tmp" });
    expect([done.stdout, done.stderr, done.exitCode]).toEqual(["é\n", "err\n", 0]);

    const failed = await sandbox.commands.run("exit 9").catch((thrown: unknown) => thrown);
    expect(failed).toBeInstanceOf(CommandExitError);
    expect(failed).toMatchObject({ exitCode: 9 });

    const cat = await sandbox.commands.run("cat", { background: true, stdin: true });
    await sandbox.commands.sendStdin(cat.pid, "typed");
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(cat.pid);
    await cat.closeStdin();
    expect((await cat.wait()).stdout).toBe("typed");

    const sleeper = await sandbox.commands.run("sleep 30", { background: true });
    expect([await sleeper.kill(), await sandbox.commands.kill(4_000_000)]).toEqual([true, false]);
    expect(await sleeper.wait().catch((thrown: unknown) => thrown)).toMatchObject({ exitCode: -1 });
  });

  test("of an unknown user are refused, like files and terminals", async () => {
    const user = "ghost";
    const refused = [
      () => sandbox.commands.run("true", { user }),
      () => sandbox.commands.run("true", { user, background: true }),
      () => sandbox.pty.create({ user, cols: 80, rows: 24, onData: () => undefined }),
      () => sandbox.files.list("/", { user }),
      () => sandbox.files.makeDir("/tmp/ghost", { user }),
      () => sandbox.files.watchDir("/tmp", () => undefined, { user }),
      () => sandbox.files.read("/etc/passwd", { user }),
      () => sandbox.files.write("/tmp/ghost", "", { user }),
    ];
    for (const call of refused) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect([String(call), error]).toEqual([String(call), expect.any(AuthenticationError)]);
      expect(error).toMatchObject({ message: expect.stringContaining("invalid username: 'ghost'") });
    }
  });

  test("time out", async () => {
    const late = await sandbox.commands.run("sleep 30", { timeoutMs: 200 }).catch((thrown: Error) => thrown.name);
    expect(late).toBe("TimeoutError");
  });
});

test("files are written, read, listed, renamed and removed", async () => {
  const folder = `${guest.folder}/sdk`;
  const path = `${folder}/a b/c.txt`;
  await sandbox.files.write(path, "content");
  await sandbox.files.write([
    { path: `${folder}/1`, data: "one" },
    { path: `${folder}/2`, data: new Blob(["two"]).stream() },
  ]);
  expect(await sandbox.files.read(path)).toBe("content");
  expect(await sandbox.files.read(`${folder}/2`)).toBe("two");
  expect((await sandbox.files.list(folder)).map(({ name }) => name)).toEqual(["1", "2", "a b"]);
  expect([await sandbox.files.makeDir(`${folder}/d`), await sandbox.files.makeDir(`${folder}/d`)]).toEqual([
    true,
    false,
  ]);
  await sandbox.files.rename(path, `${folder}/d/e.txt`);
  expect([await sandbox.files.exists(path), await sandbox.files.exists(`${folder}/d/e.txt`)]).toEqual([false, true]);
  expect(await sandbox.files.getInfo(`${folder}/1`)).toMatchObject({ size: 3, permissions: "-rw-r--r--" });
  await sandbox.files.remove(folder);
  expect(await sandbox.files.exists(folder)).toBe(false);
});

test("a terminal is opened, typed into, resized and killed", async () => {
  let seen = "";
  const ready = Promise.withResolvers<void>();
  const terminal = await sandbox.pty.create({
    cols: 80,
    rows: 24,
    onData: (bytes) => {
      seen += Buffer.from(bytes).toString();
      if (seen.includes("size is 30 100")) ready.resolve();
    },
  });
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
  await sandbox.pty.sendInput(terminal.pid, Buffer.from('echo "size is $(stty size)"\n'));
  await ready.promise;
  expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
  expect(await terminal.wait().catch((thrown: unknown) => thrown)).toMatchObject({ exitCode: -1 });
});
