/** The official SDK on Node, as most people run it. There it connects with undici; the other tests use Bun's client. */
import { expect, test } from "bun:test";
import type * as E2B from "e2b";
import { runWithSdk } from "../../support/programs/sdk-program.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();

function onNode<T>(program: Parameters<typeof runWithSdk<T>>[0], word = ""): Promise<T> {
  const { url, apiKey } = server();
  return runWithSdk(program, { env: { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey }, word });
}

test("commands, files, terminals and watchers work", async () => {
  const seen = await onNode(async ({ Sandbox, until }) => {
    const sandbox = await Sandbox.create();
    const { stdout, stderr, exitCode } = await sandbox.commands.run("echo out; echo err >&2");
    const failure = await sandbox.commands.run("exit 3").catch((error: Error) => error.name);

    const noticed: string[] = [];
    await sandbox.files.makeDir("watched");
    await sandbox.files.watchDir("watched", ({ name }) => void noticed.push(name));
    await sandbox.files.write("watched/ü €", new Blob(["as a ", "form"]));
    await until(() => noticed.includes("ü €"));
    const content = await sandbox.files.read("watched/ü €");

    let screen = "";
    const onData = (bytes: Uint8Array) => {
      screen += new TextDecoder().decode(bytes);
    };
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("echo sum-$((40 + 2))\n"));
    await until(() => screen.includes("sum-42"));
    return { stdout, stderr, exitCode, failure, content, killed: await sandbox.kill() };
  });
  const command = { stdout: "out\n", stderr: "err\n", exitCode: 0, failure: "CommandExitError" };
  expect(seen).toEqual({ ...command, content: "as a form", killed: true });
});

test("files stream in and out, and an aborted upload leaves nothing", async () => {
  const seen = await onNode(async ({ Sandbox, until }) => {
    const sandbox = await Sandbox.create();
    const piece = new Uint8Array(1 << 20).fill(7);
    /** A stream of `count` pieces that then calls `then`. */
    const pieces = (count: number, then: (stream: ReadableStreamDefaultController) => void) => {
      let given = 0;
      const pull = async (stream: ReadableStreamDefaultController) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        if (given++ < count) stream.enqueue(piece);
        else then(stream);
      };
      return new ReadableStream({ pull });
    };
    const whole = pieces(32, (stream) => stream.close());
    await sandbox.files.write("streamed", whole);
    const { stdout: counted } = await sandbox.commands.run("stat -c %s streamed; tr -d '\\7' < streamed | wc -c");
    let read = 0;
    for await (const part of await sandbox.files.read("streamed", { format: "stream" })) read += part.length;

    const impatience = new AbortController();
    const half = pieces(16, () => impatience.abort());
    const upload = sandbox.files.write("given-up", half, { signal: impatience.signal });
    const refusal = await upload.catch((error: Error) => error.name);
    await until(async () => !(await sandbox.files.exists("given-up")));
    await sandbox.kill();
    return { counted, read, refusal };
  });
  expect(seen).toEqual({ counted: `${32 << 20}\n0\n`, read: 32 << 20, refusal: "AbortError" });
});

test("180 commands are followed at once, and other requests are answered", async () => {
  const seen = await onNode(async ({ Sandbox }) => {
    const sandbox = await Sandbox.create();
    const start = (n: number) =>
      sandbox.commands.run(`read -r x; echo ${n}-$x`, { background: true, stdin: true, timeoutMs: 0 });
    const handles = await Promise.all(Array.from({ length: 180 }, (_, n) => start(n)));
    const meanwhile = await sandbox.commands.run("echo answered");
    await Promise.all(handles.map((handle, n) => handle.sendStdin(`${n}\n`)));
    const outputs = await Promise.all(handles.map(async (handle) => (await handle.wait()).stdout));
    await sandbox.kill();
    return { meanwhile: meanwhile.stdout, wrong: outputs.filter((text, n) => text !== `${n}-${n}\n`) };
  });
  expect(seen).toEqual({ meanwhile: "answered\n", wrong: [] });
});

test.each(["kill", "pause"] as const)("all followed streams end with a %s, and get the reason", async (end) => {
  const { done, reports } = await onNode(async ({ Sandbox, until, word }) => {
    const sandbox = await Sandbox.create();
    const reports: string[] = [];
    const tell = (error: unknown) => void reports.push(String(error));
    const command = await sandbox.commands.run("sleep 300", { background: true });
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    await sandbox.files.watchDir("/tmp", () => undefined, { onExit: tell });
    for (const followed of [command, terminal]) void followed.wait().then(tell, tell);
    const done = await (word === "kill" ? sandbox.kill() : sandbox.pause());
    await until(() => reports.length === 3);
    return { done, reports };
  }, end);
  expect(done).toBe(true);
  for (const words of reports)
    expect(words).toMatch(/^TimeoutError: .*The sandbox was killed or reached its end of life/);
});

test("another client follows a command again after a pause, by its pid", async () => {
  const seen = await onNode(async ({ Sandbox, until }) => {
    const sandbox = await Sandbox.create();
    const command = await sandbox.commands.run("n=0; while read -r _; do n=$((n + 1)); echo $n; done; exit 5", {
      background: true,
      stdin: true,
      timeoutMs: 0,
    });
    await command.sendStdin("\n");
    await until(() => command.stdout === "1\n");
    const first = command.wait().catch(() => "broken off");
    await sandbox.pause();
    const theirs = await Sandbox.connect(sandbox.sandboxId);
    const again = await theirs.commands.connect(command.pid);
    await again.sendStdin("\n");
    await again.closeStdin();
    const second = await again.wait().catch(({ exitCode, stdout }: E2B.CommandExitError) => ({ exitCode, stdout }));
    await theirs.kill();
    return { first: await first, second };
  });
  expect(seen).toEqual({ first: "broken off", second: { exitCode: 5, stdout: "2\n" } });
});
