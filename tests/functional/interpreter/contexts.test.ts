/** Contexts through the code interpreter's client: created, listed, restarted, removed, and after failures. */
import { expect, test } from "bun:test";
import { createConnection } from "node:net";
import { interpreterOfFile, leave } from "../../support/interpreter/interpreter-of-file.ts";
import { templateServer } from "../../support/template-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = templateServer("code-interpreter-v1");
const sandbox = interpreterOfFile();
/** The end of a stream is among these. */
const LAST_CHARS = 200;
/** Of 1 KiB: more than the buffers of all connections on the way hold. The kernel lets each grow to 32 MiB. */
const LINES = 100_000;

test("a new context is last in the list, has its own folder and variables, and runs beside others", async () => {
  const before = await sandbox().listCodeContexts();
  expect(before.map(({ language, cwd }) => [language, cwd])).toEqual([
    ["python", "/home/user"],
    ["javascript", "/home/user"],
  ]);
  const context = await sandbox().createCodeContext({ cwd: "/root" });
  expect(context).toMatchObject({ language: "python", cwd: "/root" });
  expect((await sandbox().listCodeContexts()).at(-1)).toEqual(context);

  await sandbox().runCode("own = 1");
  const meeting = "/tmp/side-by-side";
  const [waited, shown] = await Promise.all([
    sandbox().runCode(`import os, time\nwhile not os.path.exists('${meeting}'): time.sleep(0.01)\n'met'`),
    sandbox().runCode(`open('${meeting}', 'w').close()\nimport os\nos.getcwd(), 'own' in globals()`, { context }),
  ]);
  expect([waited.text, shown.text]).toEqual(["met", "('/root', False)"]);
  await sandbox().removeCodeContext(context);
  expect(await sandbox().listCodeContexts()).toEqual(before);
  expect((await refusalOf(sandbox().runCode("1", { context }))).message).toContain(context.id);
});

test("code is interrupted when its client disconnects, and its variables stay", async () => {
  await leave(sandbox(), "x = 'kept'\nprint('runs')\nimport time\ntime.sleep(600)");
  expect((await sandbox().runCode("x")).text).toBe("kept");
});

test("a kernel is stopped while its client does not read, and no line is lost", async () => {
  const { hostname, port } = new URL(server().url);
  const body = JSON.stringify({ code: `for at in range(${LINES}): print(f'{at:>999}')` });
  const client = createConnection(Number(port), hostname);
  client.write(
    `POST /execute HTTP/1.1\r\nHost: ${hostname}\r\nE2b-Sandbox-Id: ${sandbox().sandboxId}\r\nE2b-Sandbox-Port: 49999\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  const pieces: string[] = [];
  let last = "";
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  client.on("data", (piece: Buffer) => {
    // A socket that is not connected yet cannot be told to wait.
    if (pieces.length === 0) begun.resolve(void client.pause());
    const text = piece.toString("latin1");
    pieces.push(text);
    last = (last + text).slice(-LAST_CHARS);
    if (last.includes("end_of_execution")) ended.resolve();
  });
  client.on("close", () => ended.resolve());
  await begun.promise;
  const states = "ps -o stat= -C python3";
  await until("the kernel is stopped", async () => (await sandbox().commands.run(states)).stdout.includes("T"));
  client.resume();
  await ended.promise;
  client.destroy();
  // Without the chunk headers of HTTP, which may be anywhere.
  const printed = pieces
    .join("")
    .replaceAll(/\r\n[0-9a-f]+\r\n/g, "")
    .matchAll(/"stdout","text":" *(\d+)\\n"/g);
  const numbers = [...printed].map(([, number]) => Number(number));
  expect(numbers).toEqual(Array.from({ length: LINES }, (_, at) => at));
  expect((await sandbox().commands.run(states)).stdout).not.toContain("T");
});

test("a kernel that ends is replaced in the same context and folder", async () => {
  const context = await sandbox().createCodeContext({ cwd: "/tmp" });
  const state = "import os; os.getcwd(), 'x' in globals()";
  // Each waits for a kernel to start: some seconds, or a minute on a busy machine.
  const patient = { context, timeoutMs: 240_000 };
  // By itself, by a signal, by a request.
  for (const [code, error, end] of [
    ["exit()", "ContextRestarting", undefined],
    ["import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ContextRestarting", undefined],
    ["print(1)\nimport time\ntime.sleep(600)", "UnexpectedEndOfExecution", () => sandbox().restartCodeContext(context)],
  ] as const) {
    await sandbox().runCode("x = 1", patient);
    let ended: Promise<void> | undefined;
    const onStdout = () => {
      ended ??= end?.();
    };
    expect((await sandbox().runCode(code, Object.assign({ onStdout }, patient))).error?.name).toBe(error);
    await ended;
    expect((await sandbox().runCode(state, patient)).text).toBe("('/tmp', False)");
  }
  await sandbox().removeCodeContext(context);
});

test("a killed interpreter server restarts with new kernels", async () => {
  const kernels = async () => (await sandbox().commands.run("pgrep -f '[s]andlot_kernel.seed'")).stdout.split("\n");
  const before = (await kernels()).filter((pid) => pid !== "");
  await sandbox().commands.run("kill -9 $(pgrep -f '[i]nterpreter/server.js')", { user: "root" });
  const health = "curl -s -o /dev/null -w '%{http_code}' http://0.0.0.0:49999/health || true";
  await until("the server answers", async () => (await sandbox().commands.run(health)).stdout === "200");
  expect((await sandbox().runCode("1 + 1", { requestTimeoutMs: 100_000 })).text).toBe("2");
  const after = await kernels();
  expect(before.filter((pid) => after.includes(pid))).toEqual([]);
});
