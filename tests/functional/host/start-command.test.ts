/** Start commands on the real machine: every sandbox of the template has the started processes, or starts them. */
import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { timed } from "../../../src/base/testing/timed.ts";
import type { CreateSandbox, StartCommand } from "../../../src/contract/internal/host.ts";
import { base, build, env, type Ready, requestOf, requireReady, run, workdir } from "../../support/building.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { ask, shell } from "../../support/inside.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";
import { SERVICE_PORT } from "../../support/memory-service.ts";
import { until } from "../../support/until.ts";

const TRIES = 20;
/** Long enough for a shell that fails at once, on a busy machine. */
const here = new MachineOfFile("start", { builds: { readyDefaultMs: 2_000 } });
/** A machine with a short timeout, for commands that never become ready. */
const hurried = new MachineOfFile("start-hurried", { builds: { readyMaxMs: 1_000 } });
afterEach(async () => {
  for (const { dataFolder } of [here, hurried]) expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
});

/** Answers with the random value it drew at its start, and its user, folder and environment. */
const SERVICE = `import getpass, os, socket, sys
drawn = os.urandom(8).hex()
exec(os.environ.get("HOLD", ""))
server = socket.create_server(("0.0.0.0", ${SERVICE_PORT}))
print("serving", flush=True)
while True:
    client, _ = server.accept()
    client.makefile().readline()
    client.sendall(f"{drawn} {getpass.getuser()} {os.getcwd()} {os.environ['WORD']}".encode())
    client.close()
`;
const start: StartCommand = {
  command: "exec python3 /srv/service.py",
  ready: `[ -n "$(ss -Htuln sport = :${SERVICE_PORT})" ]`,
};
const steps = [
  run(`cat > /srv/service.py <<'END'\n${SERVICE}\nEND`, "root"),
  env(["WORD", "kept"]),
  workdir("/srv/app"),
];
/** The process holds a resource that no checkpoint can keep. */
const unkeepable = [...steps, env(["HOLD", "pipe = os.pipe2(os.O_DIRECT)"])];

function creation({ image, defaultUser, defaultWorkdir, envVars, checkpoint }: Ready): CreateSandbox {
  const kind = { ...base, image, defaultUser, defaultWorkdir };
  return { kind, start, envVars, accessTokens: [], egress: "closed", ...(checkpoint === null ? {} : { checkpoint }) };
}

async function answerOf(
  request: CreateSandbox,
): Promise<{ answer: string; mismatch: string | undefined; name: string }> {
  const { id, mismatch } = await here.machine.create(request);
  try {
    const answer = await ask(here.machine, id, SERVICE_PORT);
    return { answer, mismatch, name: await shell(here.data, id, "cat /etc/machine-id") };
  } finally {
    await here.machine.destroy(id);
  }
}

describe("the processes of a start command", () => {
  test("run in every sandbox of the template, each with its own machine id", async () => {
    const { outcome, entries } = await build(here.machine, requestOf(steps, { start }));
    const ready = requireReady(outcome);
    expect(ready.checkpoint).toMatch(/^start-/);
    expect(entries.find(({ message }) => message === "serving")).toMatchObject({ level: "info", step: "finalize" });
    const answers = await Promise.all([1, 2].map(() => answerOf(creation(ready))));
    const [one, two] = answers;
    expect(one?.answer).toMatch(/^[0-9a-f]{16} user \/srv\/app kept$/);
    expect(two?.answer).toBe(one?.answer);
    expect(one?.name).not.toBe(two?.name);
    expect(answers.map(({ mismatch }) => mismatch)).toEqual([undefined, undefined]);

    const checkpoints = await here.machine.parts.checkpoints.list();
    const again = await build(here.machine, requestOf(steps, { start }));
    expect(again.outcome).toEqual(outcome);
    expect(await here.machine.parts.checkpoints.list()).toEqual(checkpoints);
    const other = await build(here.machine, requestOf(steps, { start, memoryMB: base.memoryMB * 2 }));
    expect(requireReady(other.outcome)).toMatchObject({ image: ready.image });
    expect(requireReady(other.outcome).checkpoint).not.toBe(ready.checkpoint);
  });

  test("are checkpointed again if the template with the same checkpoint is deleted during a build", async () => {
    // On a busy machine it may be over before it was seen: then once more.
    for (let [wasSeen, tries] = [false, 0]; !wasSeen; tries++) {
      expect(tries).toBeLessThan(TRIES);
      const { checkpoint: known } = requireReady((await build(here.machine, requestOf(steps, { start }))).outcome);
      let isOver = false;
      const again = build(here.machine, requestOf(steps, { start })).finally(() => {
        isOver = true;
      });
      // All of it is known: the only sandbox is the one that tries it.
      await until("it is tried", () => isOver || readdirSync(here.data.sandboxesFolder).length > 0);
      wasSeen = !isOver;
      await here.machine.removeCheckpoint(known ?? "");
      const { checkpoint } = requireReady((await again).outcome);
      if (!wasSeen) continue;
      expect(checkpoint).not.toBe(known);
      expect(here.machine.parts.checkpoints.has(checkpoint ?? "")).toBe(true);
    }
  });

  test("run in ready sandboxes of the template", async () => {
    const ready = requireReady((await build(here.machine, requestOf(steps, { start }))).outcome);
    const request = creation(ready);
    const { kind } = request;
    const running = () => readdirSync(here.data.sandboxesFolder);
    await here.machine.keepReady([{ kind, count: 1, checkpoint: ready.checkpoint }]);
    let readyId: string | undefined;
    await until("one is ready", () => {
      readyId = running().find((id) => here.machine.addressOf(id) !== undefined);
      return readyId !== undefined;
    });
    const closed = await answerOf(request);
    const open = await here.machine.create({ ...request, egress: "open", accessTokens: ["token"] });
    expect(open.id).toBe(readyId ?? "");
    await here.machine.keepReady([]);
    expect(await ask(here.machine, open.id, SERVICE_PORT)).toBe(closed.answer);
    expect(await shell(here.data, open.id, "cat /run/e2b/.E2B_SANDBOX_ID")).toBe(open.id);
    const address = here.machine.addressOf(open.id) ?? "";
    const metrics = (token: string) =>
      fetch(`http://${address}:49983/metrics`, { headers: { "x-access-token": token } }).then(({ status }) => status);
    expect([await metrics("token"), await metrics("other")]).toEqual([200, 401]);
    await here.machine.destroy(open.id);
  });

  test("start in each sandbox if they cannot be checkpointed, and the log has the reason", async () => {
    const { outcome, entries } = await build(here.machine, requestOf(unkeepable, { start }));
    const ready = requireReady(outcome);
    expect(ready.checkpoint).toBeNull();
    expect(entries.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
      expect.stringMatching(/cannot be kept.*"python3": it holds a pipe in packet mode/),
    ]);
    const one = await answerOf(creation(ready));
    expect(one.answer).toEndWith(" user /srv/app kept");
    expect(one.mismatch).toBeUndefined();
    expect((await answerOf(creation(ready))).answer).not.toBe(one.answer);
  });
});

describe("a build fails at its end, and leaves neither image nor checkpoint,", () => {
  const failing: [string, StartCommand, string, MachineOfFile][] = [
    [
      "when the start command fails before it is ready",
      { command: "echo no such thing >&2; exit 4", ready: "false" },
      'the command "echo no such thing >&2; exit 4" ended with exit code 4 before the sandbox was ready. ' +
        "Its last output:\nno such thing",
      here,
    ],
    [
      "when it fails and nothing says what ready is",
      { command: "exit 4", ready: null },
      'the command "exit 4" ended with exit code 4 before the sandbox was ready',
      here,
    ],
    [
      "when it never is ready",
      { command: "sleep 1000", ready: "exit 1" },
      'the sandbox was not ready within 1 s: the ready command "exit 1" did not succeed',
      hurried,
    ],
    [
      "when the ready command hangs",
      { command: "sleep 1000", ready: "sleep 1000" },
      'the sandbox was not ready within 1 s: the ready command "sleep 1000" did not succeed',
      hurried,
    ],
  ];
  test.each(failing)("%s", async (_, wrong, message, { machine }) => {
    const before = [machine.parts.images.list(), await machine.parts.checkpoints.list()];
    const unique = run(`echo ${crypto.randomUUID()} > unique`);
    const { outcome } = await build(machine, requestOf([unique], { start: wrong }));
    expect(outcome).toEqual({ isReady: false, step: "finalize", message });
    expect([machine.parts.images.list(), await machine.parts.checkpoints.list()]).toEqual(before);
  });
});

timed("a build that is cancelled during its checkpoint ends within five seconds", async () => {
  // So much that writing it takes a while, on any machine.
  const hold = {
    command: "exec python3 -c 'import os, time; a = os.urandom(300 << 20); time.sleep(1000)'",
    ready: "sleep 2",
  };
  const request = requestOf(steps, { start: hold });
  const before = await here.machine.parts.checkpoints.list();
  let tookMs = Number.POSITIVE_INFINITY;
  const { outcome } = await build(here.machine, request, async (line) => {
    if (line !== "Ready") return;
    const began = performance.now();
    await here.machine.cancelBuild(request.id, "deleted");
    tookMs = performance.now() - began;
  });
  expect(outcome).toEqual({ isReady: false, step: "finalize", message: "deleted" });
  expect(tookMs).toBeLessThan(5_000);
  expect(await here.machine.parts.checkpoints.list()).toEqual(before);
});

test("a start command may daemonize itself, or have no ready command", async () => {
  for (const command of ["setsid python3 /srv/service.py > /dev/null 2>&1 &", "exec python3 /srv/service.py"]) {
    const given = { command, ready: command.startsWith("exec") ? null : start.ready };
    const ready = requireReady((await build(here.machine, requestOf(steps, { start: given }))).outcome);
    expect((await answerOf({ ...creation(ready), start: given })).answer).toContain("kept");
  }
});
