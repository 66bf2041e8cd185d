/** The Process service of a real daemon: starting, ending, feeding and finding processes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { basic, envelope, envelopes, RunningGuest, type StreamedEvent } from "../testing/running-guest.ts";

let guest: RunningGuest;
beforeAll(async () => {
  guest = await RunningGuest.start({ SANDLOT_LEAK: "must not be seen" });
  await guest.configure({ envVars: { FROM_SANDBOX: "yes", E2B_SANDBOX: "forged" } });
});
afterAll(() => guest[Symbol.asyncDispose]());

const shell = (script: string) => ({ process: { cmd: "/bin/sh", args: ["-c", script] } });
const text = (base64: string | undefined) => Buffer.from(base64 ?? "", "base64").toString();

interface Told {
  pid: number;
  stdout: string;
  stderr: string;
  pty: string;
  end: Record<string, unknown> | undefined;
  error: { code: string; message: string } | undefined;
}

async function follow(events: AsyncIterable<StreamedEvent>): Promise<Told> {
  const told: Told = { pid: 0, stdout: "", stderr: "", pty: "", end: undefined, error: undefined };
  for await (const { end, json } of events) {
    if (end) told.error = json.error;
    else if (json.event.start) told.pid = json.event.start.pid;
    else if (json.event.end) told.end = json.event.end;
    for (const kind of ["stdout", "stderr", "pty"] as const) told[kind] += text(json.event?.data?.[kind]);
  }
  return told;
}

const run = (message: unknown, headers: Record<string, string> = {}) =>
  follow(guest.stream("process.Process/Start", message, headers));

/** Starts a process and leaves its stream open in `rest`. */
async function start(message: unknown, headers: Record<string, string> = {}) {
  const rest = guest.stream("process.Process/Start", message, headers);
  const first = await rest.next();
  return { pid: first.value.json.event.start.pid as number, rest };
}

const input = (pid: number, stdin: string) =>
  guest.call("process.Process/SendInput", { process: { pid }, input: { stdin: btoa(stdin) } });
const kill = (pid: number, signal = "SIGNAL_SIGKILL") =>
  guest.call("process.Process/SendSignal", { process: { pid }, signal });
async function refusal(answer: Promise<Response>) {
  const { status, body } = await answer.then(async (given) => ({ status: given.status, body: await given.json() }));
  return [status, (body as { code: string }).code];
}

describe("the end of a process", () => {
  test("that succeeds", async () => {
    const told = await run(shell("echo out; echo err >&2"));
    expect(told).toMatchObject({ stdout: "out\n", stderr: "err\n", end: { exited: true, status: "exit status 0" } });
    expect(told.error).toBeUndefined();
    expect(Object.keys(told.end ?? {}).sort()).toEqual(["exited", "status"]);
  });

  test("that fails", async () => {
    const { end } = await run(shell("exit 7"));
    expect(end).toEqual({ exitCode: 7, exited: true, status: "exit status 7", error: "exit status 7" });
  });

  test("by a signal", async () => {
    const { end } = await run(shell("kill -TERM $$"));
    expect(end).toEqual({ exitCode: -1, status: "signal: terminated", error: "signal: terminated" });
  });

  test.each([{}, basic("daemon")])("whose program does not exist (%p)", async (headers) => {
    const told = await run({ process: { cmd: "no-such-program" } }, headers);
    expect(told.pid).toBeGreaterThan(0);
    expect(told.stderr).toContain("no-such-program");
    expect(told.end).toMatchObject({ exitCode: 127, exited: true });
  });

  test("waits for a descendant that holds the output", async () => {
    const told = await run(shell("(sleep 0.3; echo late) & exit 2"));
    expect(told).toMatchObject({ stdout: "late\n", end: { exitCode: 2 } });
  });

  test("does not wait for the holder of the output after a signal", async () => {
    const { pid, rest } = await start(shell("sleep 30 & echo $!; sleep 30"));
    const sleeper = Number(text((await rest.next()).value.json.event.data.stdout));
    const killed = await kill(pid);
    expect(killed.status).toBe(200);
    const { end } = await follow(rest);
    expect(end).toEqual({ exitCode: -1, status: "signal: killed", error: "signal: killed" });
    process.kill(sleeper, "SIGKILL");
  });
});

describe("the lifetime of a process", () => {
  test("ends with Connect-Timeout-Ms, and so does the call", async () => {
    const { pid, rest } = await start(shell("exec sleep 30"), { "Connect-Timeout-Ms": "200" });
    expect((await follow(rest)).error?.code).toBe("deadline_exceeded");
    const after = await follow(guest.stream("process.Process/Connect", { process: { pid } }));
    expect(after.end).toMatchObject({ exitCode: -1, status: "signal: killed" });
  });

  test("does not depend on the connection", async () => {
    const { pid, rest } = await start(shell("exec sleep 30"), { "Connect-Timeout-Ms": "400" });
    await rest.return(undefined);
    const later = await follow(guest.stream("process.Process/Connect", { process: { pid } }));
    expect(later).toMatchObject({ pid, end: { status: "signal: killed" } });
  });

  test("of zero starts nothing", async () => {
    const told = await run(shell("echo ran"), { "Connect-Timeout-Ms": "0" });
    expect([told.pid, told.stdout, told.error?.code]).toEqual([0, "", "deadline_exceeded"]);
  });

  test("beyond what timers hold is not cut to nothing", async () => {
    const told = await run(shell("sleep 0.05; echo done"), { "Connect-Timeout-Ms": "9999999999" });
    expect(told).toMatchObject({ stdout: "done\n", end: { exited: true } });
  });
});

describe("the user of a process", () => {
  test("is root with root's basics by default", async () => {
    const { stdout } = await run(shell("id -u; pwd; env | sort"));
    const [uid, cwd, ...variables] = stdout.trim().split("\n");
    expect([uid, cwd]).toEqual(["0", "/root"]);
    const names = variables.map((line) => line.split("=")[0]).filter((name) => name !== "_" && name !== "PWD");
    expect(names.filter((name) => name !== "OLDPWD" && name !== "SHLVL")).toEqual([
      "E2B_SANDBOX",
      "E2B_SANDBOX_ID",
      "E2B_TEMPLATE_ID",
      "FROM_SANDBOX",
      "HOME",
      "LOGNAME",
      "PATH",
      "USER",
    ]);
    expect(variables).toContain("E2B_SANDBOX=true");
  });

  test("is the named one, with gid and all groups", async () => {
    const message = { process: { cmd: "/bin/sh", args: ["-c", "id -u; id -g; id -G; echo $HOME $USER"], cwd: "/" } };
    const told = await run(message, basic("daemon"));
    const expected = Bun.spawnSync(["id", "-G", "daemon"]).stdout.toString().trim();
    expect(told.stdout.trim().split("\n")).toEqual(["1", "1", expected, "/usr/sbin daemon"]);
  });

  test("is refused when there is no such user", async () => {
    expect((await run(shell("true"), basic("ghost"))).error?.code).toBe("unauthenticated");
    expect(await refusal(guest.call("process.Process/List", {}, basic("ghost")))).toEqual([401, "unauthenticated"]);
  });

  test("makes a better victim than the guest when memory runs out", async () => {
    expect((await run(shell("sleep 0.1; cat /proc/self/oom_score_adj"))).stdout).toBe("100\n");
  });
});

test.each([{}, basic("daemon")])(
  "a process may open its own stdin, stdout and stderr by name (%p)",
  async (headers) => {
    const script = "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr";
    const { pid, rest } = await start({ process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" } }, headers);
    await input(pid, "in ");
    await guest.call("process.Process/CloseStdin", { process: { pid } });
    expect(await follow(rest)).toMatchObject({ stdout: "in out\n", stderr: "err\n", end: { status: "exit status 0" } });
  },
);

test("processes leave no descriptors behind in the guest", async () => {
  const open = () => readdirSync(`/proc/${guest.pid}/fd`).length;
  const kinds = [shell("echo x"), { ...shell("true"), stdin: false }, { process: { cmd: "no-such-program" } }];
  const round = async () => {
    for (const kind of kinds) await run(kind);
    await run({ ...shell("echo x"), pty: { size: { cols: 80, rows: 24 } } });
  };
  await round();
  const before = open();
  for (let count = 0; count < 10; count++) await round();
  expect(open()).toBeLessThanOrEqual(before + 2);
});

describe("a start that cannot be", () => {
  test.each([
    ["a directory that is missing", { process: { cmd: "true", cwd: "/nowhere" } }],
    ["a directory that is a file", { process: { cmd: "true", cwd: "/etc/passwd" } }],
    ["another user's home", { process: { cmd: "true", cwd: "~ghost" } }],
    ["no command", { process: { cmd: "" } }],
    ["no process at all", {}],
  ])("%s", async (_, message) => {
    expect((await run(message)).error?.code).toBe("invalid_argument");
  });
});

describe("stdin", () => {
  test("is fed in order and closed", async () => {
    const { pid, rest } = await start({ ...shell("cat"), stdin: true });
    for (const letter of "order") await input(pid, letter);
    expect((await guest.call("process.Process/CloseStdin", { process: { pid } })).status).toBe(200);
    const told = await follow(rest);
    expect(told.stdout).toBe("order");
    expect(told.end).toMatchObject({ status: "exit status 0" });
  });

  test("closes twice without complaint, and takes nothing afterwards", async () => {
    const { pid, rest } = await start(shell("exec sleep 30"));
    const close = () => guest.call("process.Process/CloseStdin", { process: { pid } });
    expect([(await close()).status, (await close()).status]).toEqual([200, 200]);
    expect(await refusal(input(pid, "late"))).toEqual([500, "internal"]);
    await kill(pid);
    await follow(rest);
  });

  test("is empty when it was not asked for", async () => {
    expect(await run({ ...shell("cat; echo done"), stdin: false })).toMatchObject({ stdout: "done\n" });
  });

  test("of a process that does not read takes no more than the pipe holds", async () => {
    const { pid, rest } = await start(shell("exec sleep 30"));
    const blocked = guest.call(
      "process.Process/SendInput",
      { process: { pid }, input: { stdin: Buffer.alloc(1_000_000).toString("base64") } },
      { "Connect-Timeout-Ms": "200" },
    );
    expect(await refusal(blocked)).toEqual([504, "deadline_exceeded"]);
    await kill(pid);
    await follow(rest);
  });

  test("takes 100 MB by StreamInput without keeping them", async () => {
    const { pid, rest } = await start(shell("sleep 0.2; wc -c"));
    const before = await guest.memoryKib();
    const message = envelope({ data: { input: { stdin: Buffer.alloc(1_000_000, "x").toString("base64") } } });
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent === 0) controller.enqueue(envelope({ start: { process: { pid } } }));
        if (sent++ < 100) controller.enqueue(message);
        else controller.close();
      },
    });
    const answer = await guest.fetch("/process.Process/StreamInput", {
      method: "POST",
      headers: { "Content-Type": "application/connect+json" },
      body,
    });
    const events: StreamedEvent[] = [];
    if (answer.body) for await (const event of envelopes(answer.body)) events.push(event);
    expect(events).toEqual([
      { end: false, json: {} },
      { end: true, json: {} },
    ]);
    await guest.call("process.Process/CloseStdin", { process: { pid } });
    expect((await follow(rest)).stdout.trim()).toBe("100000000");
    expect((await guest.memoryKib()).peak - before.now).toBeLessThan(96 * 1024);
  });

  test("data before a target is a mistake of the caller", async () => {
    const answer = await guest.fetch("/process.Process/StreamInput", {
      method: "POST",
      headers: { "Content-Type": "application/connect+json" },
      body: envelope({ data: { input: { stdin: "" } } }),
    });
    const events: StreamedEvent[] = [];
    if (answer.body) for await (const event of envelopes(answer.body)) events.push(event);
    expect(events[0]?.json.error.code).toBe("invalid_argument");
  });
});

describe("finding a process", () => {
  test("List echoes what Start was given, for running processes only", async () => {
    const config = { cmd: "/bin/sleep", args: ["30"], envs: { A: "1" }, cwd: "~" };
    const { pid, rest } = await start({ process: config, tag: "listed" });
    const list = async () => ((await (await guest.call("process.Process/List", {})).json()) as Listed).processes ?? [];
    interface Listed {
      processes?: { pid: number }[];
    }
    expect((await list()).find((each) => each.pid === pid)).toEqual({ config, pid, tag: "listed" } as { pid: number });
    await kill(pid);
    await follow(rest);
    expect((await list()).some((each) => each.pid === pid)).toBe(false);
  });

  test("a tag is found among other tags", async () => {
    const started = await Promise.all(
      ["red", "green", "blue"].map((tag) => start({ process: { cmd: "/bin/sleep", args: ["30"] }, tag })),
    );
    for (const [index, tag] of ["red", "green", "blue"].entries()) {
      const connection = guest.stream("process.Process/Connect", { process: { tag } });
      expect((await connection.next()).value.json.event.start.pid).toBe(started[index]?.pid);
      await connection.return(undefined);
    }
    for (const { pid, rest } of started) {
      await kill(pid);
      await follow(rest);
    }
  });

  test("answers by the table of errors", async () => {
    expect(await refusal(kill(4_000_000))).toEqual([404, "not_found"]);
    expect(await refusal(guest.call("process.Process/SendSignal", { signal: 9 }))).toEqual([501, "unimplemented"]);
    const { pid, rest } = await start(shell("exec sleep 30"));
    const of = { process: { pid } };
    expect(await refusal(kill(pid, "SIGNAL_UNSPECIFIED"))).toEqual([501, "unimplemented"]);
    expect(await refusal(guest.call("process.Process/SendInput", of))).toEqual([501, "unimplemented"]);
    const pty = { ...of, input: { pty: "eA==" } };
    expect(await refusal(guest.call("process.Process/SendInput", pty))).toEqual([500, "internal"]);
    const resize = { ...of, pty: { size: { cols: 1, rows: 1 } } };
    expect(await refusal(guest.call("process.Process/Update", resize))).toEqual([500, "internal"]);
    expect((await guest.call("process.Process/Update", of)).status).toBe(200);
    await kill(pid, "SIGNAL_SIGTERM");
    expect((await follow(rest)).end).toMatchObject({ status: "signal: terminated" });
  });
});

describe("a process in a terminal", () => {
  const terminal = (script: string) => ({ ...shell(script), pty: { size: { cols: 90, rows: 33 } } });

  test("has a session, a size and the user's identity", async () => {
    const script = "sleep 0.1; stty size < $(tty); id -un; ps -o sid= -o tty= -p $$; echo $$";
    const message = {
      process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" },
      pty: { size: { cols: 90, rows: 33 } },
    };
    const { pty, end, pid } = await run(message, basic("daemon"));
    const [size, user, session, self] = pty.trim().split("\r\n");
    expect([size, user, self]).toEqual(["33 90", "daemon", String(pid)]);
    expect(session).toMatch(new RegExp(`^\\s*${pid} pts/`));
    expect(end).toMatchObject({ status: "exit status 0" });
  });

  test("takes input, is resized and killed", async () => {
    const { pid, rest } = await start(
      terminal("stty -echo; echo ready; read line; stty size; echo got $line; sleep 30"),
    );
    expect(text((await rest.next()).value.json.event.data.pty)).toBe("ready\r\n");
    const size = { cols: 70_000, rows: 40 };
    expect((await guest.call("process.Process/Update", { process: { pid }, pty: { size } })).status).toBe(200);
    const typed = await guest.call("process.Process/SendInput", { process: { pid }, input: { pty: btoa("hello\n") } });
    expect(typed.status).toBe(200);
    let seen = "";
    while (!seen.includes("got hello")) seen += text((await rest.next()).value.json.event.data?.pty);
    expect(seen).toContain(`40 ${70_000 & 0xffff}\r\n`);
    expect(await refusal(input(pid, "x"))).toEqual([500, "internal"]);
    expect(await refusal(guest.call("process.Process/CloseStdin", { process: { pid } }))).toEqual([500, "unknown"]);
    await kill(pid);
    expect((await follow(rest)).end).toEqual({ exitCode: -1, status: "signal: killed", error: "signal: killed" });
  });

  test("loses none of its output", async () => {
    const { pty } = await run(terminal("seq 1 60000"));
    const lines = pty.trimEnd().split("\r\n");
    expect(lines).toHaveLength(60_000);
    expect(lines.every((line, at) => line === String(at + 1))).toBe(true);
  });
});
