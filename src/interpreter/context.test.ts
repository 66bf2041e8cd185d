import { describe, expect, test } from "bun:test";
import { createConnection } from "node:net";
import { untilTrue } from "../base/testing/until.ts";
import { EXECUTIONS_WAITING_MAX } from "./context.ts";
import { type Line, linesOf, post, type ScriptedServer, scriptedServer } from "./testing/scripted-kernel.ts";

type Fields = Record<string, unknown>;

async function run(server: ScriptedServer, code: string, more: Fields = {}, headers = {}): Promise<Line[]> {
  return await linesOf(await post(`${server.url}/execute`, Object.assign({ code }, more), { headers }));
}

async function contextOf(server: ScriptedServer): Promise<string> {
  const response = await post(`${server.url}/contexts`, {});
  return ((await response.json()) as { id: string }).id;
}

function errorIn(lines: readonly Line[]): unknown {
  return lines.find(({ type }) => type === "error")?.name;
}

function textOf(lines: readonly Line[]): unknown {
  return lines.find(({ type }) => type === "stdout")?.text;
}

/** An execution that is under way, or waits; its client can leave. */
async function begin(server: ScriptedServer, code: string, more: Fields = {}) {
  const client = new AbortController();
  const body = Object.assign({ code }, more);
  const response = await post(`${server.url}/execute`, body, { signal: client.signal });
  return { leave: () => client.abort(), lines: linesOf(response).catch(() => []) };
}

/** The lines of a response as they arrive. */
function arriving(response: Response): { lines: readonly Line[]; end: Promise<void> } {
  const lines: Line[] = [];
  const read = async () => {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const piece of response.body ?? []) {
      const whole = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = whole.pop() ?? "";
      lines.push(...whole.map((line) => JSON.parse(line) as Line));
    }
  };
  return { lines, end: read() };
}

/** Over its own connection: `fetch` allows only a few hundred at a time. Resolves when the response begins. */
async function plainly(server: ScriptedServer, code: string): Promise<{ end: Promise<void> }> {
  const body = JSON.stringify({ code });
  const began = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const socket = createConnection(Number(new URL(server.url).port), "127.0.0.1");
  socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  socket.on("data", (piece) => {
    if (String(piece).startsWith("HTTP/1.1 200")) began.resolve();
    if (String(piece).includes("end_of_execution")) end.resolve(void socket.destroy());
  });
  socket.on("error", began.reject);
  await began.promise;
  return { end: end.promise };
}

describe("executions in one context", () => {
  test("run in order, and their responses begin at once", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait");
    const others: Awaited<ReturnType<typeof begin>>[] = [];
    // One by one: each has its own connection, and the order in which the server reads them is not defined.
    for (const code of ["say a", "say b", "say c"]) others.push(await begin(server, code));
    expect(server.kernels[0]?.cells).toEqual(["wait"]);
    server.kernels[0]?.interrupt();
    expect(errorIn(await first.lines)).toBe("Interrupted");
    for (const { lines } of others) await lines;
    expect(server.kernels[0]?.cells).toEqual(["wait", "say a", "say b", "say c"]);
  });

  test("do not wait for those in another", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait");
    const other = await contextOf(server);
    expect(textOf(await run(server, "say x", { context_id: other }))).toBe("x");
    server.kernels[0]?.interrupt();
    await first.lines;
  });

  test("end with an error, and the next one runs", async () => {
    await using server = await scriptedServer();
    expect((await run(server, "fail x")).map(({ type }) => type)).toEqual([
      "number_of_executions",
      "error",
      "end_of_execution",
    ]);
    expect(textOf(await run(server, "say y"))).toBe("y");
  });

  test("are bounded in number", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait");
    const waiting = await Promise.all(Array.from({ length: EXECUTIONS_WAITING_MAX }, () => plainly(server, "say x")));
    const refused = await post(`${server.url}/execute`, { code: "say x" });
    expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining("EXECUTIONS_WAITING_MAX")]);
    server.kernels[0]?.interrupt();
    await first.lines;
    for (const { end } of waiting) await end;
    expect(server.kernels[0]?.cells).toHaveLength(EXECUTIONS_WAITING_MAX + 1);
  });
});

test("a silent execution gets keepalives, while it runs and while it waits", async () => {
  await using server = await scriptedServer();
  const executions = [arriving(await post(`${server.url}/execute`, { code: "wait" }))];
  executions.push(arriving(await post(`${server.url}/execute`, { code: "say x" })));
  const isAlive = ({ lines }: { lines: readonly Line[] }) => lines.some(({ type }) => type === "keepalive");
  await untilTrue(() => executions.every(isAlive));
  server.kernels[0]?.interrupt();
  for (const { end } of executions) await end;
  expect(executions[1]?.lines[0]?.type).toBe("keepalive");
});

describe("a client that disconnects", () => {
  test("while it waits is dropped, and the running code continues", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait");
    const waiting = await begin(server, "say never");
    const last = await begin(server, "say after");
    waiting.leave();
    await waiting.lines;
    // The server has noticed it once it has answered several later requests.
    for (let times = 0; times < 3; times++) await fetch(`${server.url}/health`);
    expect(server.kernels[0]?.interrupts).toBe(0);
    server.kernels[0]?.interrupt();
    await first.lines;
    expect(textOf(await last.lines)).toBe("after");
    expect(server.kernels[0]?.cells).toEqual(["wait", "say after"]);
  });

  test("while its code runs interrupts it", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait");
    await untilTrue(() => server.kernels[0]?.cells.length === 1);
    first.leave();
    expect(textOf(await run(server, "say next"))).toBe("next");
    expect(server.kernels).toHaveLength(1);
    expect(server.kernels[0]?.interrupts).toBe(1);
  });

  test("from code that ignores the interrupt causes a new kernel", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait deaf");
    await untilTrue(() => server.kernels[0]?.cells.length === 1);
    first.leave();
    expect(textOf(await run(server, "say next"))).toBe("next");
    expect(server.kernels.map(({ isAlive }) => isAlive)).toEqual([false, true]);
    expect(server.kernels[0]?.interrupts).toBeGreaterThan(1);
  });
});

describe("a kernel", () => {
  test("that ends while code runs is replaced in the same context", async () => {
    await using server = await scriptedServer();
    const id = await contextOf(server);
    expect(errorIn(await run(server, "die", { context_id: id }))).toBe("ContextRestarting");
    expect(textOf(await run(server, "say x", { context_id: id }))).toBe("x");
    expect(server.kernels.map(({ isAlive }) => isAlive)).toEqual([false, true]);
  });

  test("that ends while idle is replaced at once", async () => {
    await using server = await scriptedServer();
    await contextOf(server);
    await server.kernels[0]?.kill();
    await untilTrue(() => server.kernels.length === 2);
  });

  test("that cannot be replaced is reported, and tried again", async () => {
    await using server = await scriptedServer();
    const id = await contextOf(server);
    server.breakStarts();
    await run(server, "die", { context_id: id });
    expect(errorIn(await run(server, "say x", { context_id: id }))).toBe("KernelError");
  });

  test.each([
    ["restarted", "POST", "/restart", 2],
    ["removed", "DELETE", "", 1],
  ])("of a context that is %s ends the running code", async (_, method, path, kernels) => {
    await using server = await scriptedServer();
    const id = await contextOf(server);
    const running = await begin(server, "wait", { context_id: id });
    await untilTrue(() => server.kernels[0]?.cells.length === 1);
    const response = await fetch(`${server.url}/contexts/${id}${path}`, { method });
    expect(response.status).toBe(200);
    expect(errorIn(await running.lines)).toBe("UnexpectedEndOfExecution");
    expect(server.kernels).toHaveLength(kernels);
  });

  test("of a restarted context has its folder, and runs waiting code", async () => {
    await using server = await scriptedServer();
    const response = await post(`${server.url}/contexts`, { cwd: "/tmp" });
    const { id } = (await response.json()) as { id: string };
    const running = await begin(server, "wait", { context_id: id });
    const waiting = await begin(server, "say x", { context_id: id });
    await untilTrue(() => server.kernels[0]?.cells.length === 1);
    await fetch(`${server.url}/contexts/${id}/restart`, { method: "POST" });
    await running.lines;
    expect(textOf(await waiting.lines)).toBe("x");
    expect(server.kernels.map(({ folder }) => folder)).toEqual(["/tmp", "/tmp"]);
    expect(server.kernels[1]?.cells).toEqual(["say x"]);
  });

  test("is not used for a missing folder", async () => {
    await using server = await scriptedServer(1);
    const response = await post(`${server.url}/contexts`, { cwd: "/no/such" });
    expect([response.status, await response.text()]).toEqual([500, expect.stringContaining("/no/such")]);
    await contextOf(server);
    expect(server.kernels).toHaveLength(1);
  });

  test("that is spare is used for a context, and another starts when idle", async () => {
    await using server = await scriptedServer(1);
    expect(server.kernels).toHaveLength(1);
    await contextOf(server);
    const running = await begin(server, "wait");
    expect(server.kernels).toHaveLength(2);
    server.kernels[1]?.interrupt();
    await running.lines;
    await untilTrue(() => server.kernels.length === 3);
  });

  test("draws new seeds before its first code in another sandbox, and not again", async () => {
    await using server = await scriptedServer();
    await run(server, "say x");
    expect(server.kernels[0]?.reseeds).toBe(0);
    server.sandbox.identity = "two";
    await run(server, "say x");
    await run(server, "say x");
    expect(server.kernels[0]?.reseeds).toBe(1);
  });
});

describe("variables", () => {
  test("of the sandbox are read once, with the client's token, and again after a failure", async () => {
    await using server = await scriptedServer();
    server.sandbox.variables = undefined;
    expect(textOf(await run(server, "show A", {}, { "X-Access-Token": "first" }))).toBe("(none)");
    server.sandbox.variables = { A: "sandbox" };
    for (let times = 0; times < 3; times++) {
      expect(textOf(await run(server, "show A", {}, { "X-Access-Token": "next" }))).toBe("sandbox");
    }
    expect(server.sandbox.askedWith).toEqual(["first", "next"]);
  });

  test("of a call are removed before the next one", async () => {
    await using server = await scriptedServer();
    server.sandbox.variables = { A: "sandbox" };
    const shown = await Promise.all([
      run(server, "show A", { env_vars: { A: "call", B: "call" } }),
      run(server, "show A"),
      run(server, "show B"),
    ]);
    expect(shown.map(textOf)).toEqual(["call", "sandbox", "(none)"]);
  });

  test("of a call are removed also if its client disconnects", async () => {
    await using server = await scriptedServer();
    const first = await begin(server, "wait", { env_vars: { A: "call" } });
    await untilTrue(() => server.kernels[0]?.cells.length === 1);
    first.leave();
    expect(textOf(await run(server, "show A"))).toBe("(none)");
  });

  test("of the sandbox are set in a new kernel and in a copy of the sandbox", async () => {
    await using server = await scriptedServer();
    server.sandbox.variables = { A: "one", B: "one" };
    const id = await contextOf(server);
    await run(server, "show A", { context_id: id });
    await run(server, "die", { context_id: id });
    expect(textOf(await run(server, "show A", { context_id: id }))).toBe("one");
    server.sandbox.identity = "two";
    server.sandbox.variables = { A: "two" };
    expect(textOf(await run(server, "show A", { context_id: id }))).toBe("two");
    expect(textOf(await run(server, "show B", { context_id: id }))).toBe("(none)");
  });
});
