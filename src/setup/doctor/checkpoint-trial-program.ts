/** The checkpoint trial inside the mount namespace. Prints a TrialResult, or the reason on stderr. */
import { connect } from "node:net";
import { errorMessage } from "../../base/error-message.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../../contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../contract/management/base-template.ts";
import { isRuntimeName } from "../../contract/runtime-name.ts";
import { Machine, type MachineOptions } from "../../host/machine.ts";
import { GuestClient } from "../../sandbox/guest-link/guest-client.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { BASE_IMAGE } from "../base-image.ts";
import { TIMEOUT_EXIT_CODE, type TrialResult } from "./checkpoint-trial.ts";

const PORT = 4567;
const CHECKPOINT = "trial";
const CAUSES_MAX = 8;
const ANSWER_MS = scaled(10_000);

/** Holds a listening socket, an inotify watch, a shell on a terminal, and a word that is only in memory. */
const WORKLOAD = `
import ctypes, os, pty, socket, sys
server = socket.socket()
server.bind(("0.0.0.0", ${PORT}))
server.listen()
libc = ctypes.CDLL(None)
assert libc.inotify_add_watch(libc.inotify_init(), b"/tmp", 0x100) > 0
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash"])
word = sys.argv[1].encode()
while True:
    client, _ = server.accept()
    client.sendall(word)
    client.close()
`;

const [dataPath = "", cacheFolder = "", guestFolder = "", runtime = "", runsc = ""] = process.argv.slice(2);
const data = new DataFolder(dataPath);
data.lock();
data.makeRunFolder();
const options: MachineOptions = {
  data,
  cacheFolder,
  guestFolder,
  resolver: undefined,
  ...(isRuntimeName(runtime) ? { runtime } : {}),
  ...(runsc === "" ? {} : { runsc }),
};
const kind: SandboxKind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE };

try {
  console.log(JSON.stringify(await trial()));
  process.exit(0);
} catch (error) {
  const reasons = causesOf(error);
  console.error(reasons.map(errorMessage).join(": "));
  process.exit(reasons.some(isTimeout) ? TIMEOUT_EXIT_CODE : 1);
}

function causesOf(error: unknown): unknown[] {
  const causes = [error];
  for (let cause = error; cause instanceof Error && causes.length < CAUSES_MAX; ) {
    cause = cause.cause;
    if (cause !== undefined) causes.push(cause);
  }
  return causes;
}

/** Includes a restore without progress, which might have succeeded later. */
function isTimeout(reason: unknown): boolean {
  return reason instanceof Fault && (reason.status === 503 || reason.message.includes("made no progress"));
}

async function trial(): Promise<TrialResult> {
  const machine = await Machine.open(options);
  const { id } = await machine.create({ kind, envVars: {}, accessTokens: [], egress: "closed" as const });
  const word = crypto.randomUUID();
  await startWorkload(addressOf(machine, id), word);
  await expectWord(addressOf(machine, id), word);

  const begun = performance.now();
  await machine.pause(id, CHECKPOINT, { memory: true });
  const written = performance.now();
  const request = { kind, envVars: {}, accessTokens: [], egress: "closed" as const };
  await machine.resume({ ...request, id, checkpoint: CHECKPOINT, memory: true });
  const restored = performance.now();
  await expectWord(addressOf(machine, id), word);
  await machine.adopt({ sandboxes: [], checkpoints: [] });
  await machine.close();
  return { checkpointMs: Math.round(written - begun), restoreMs: Math.round(restored - written) };
}

function addressOf(machine: Machine, id: string): string {
  return machine.addressOf(id) ?? "";
}

/** Through the guest, like every process of a sandbox. It continues after its event stream closes. */
async function startWorkload(address: string, word: string): Promise<void> {
  const events = await new GuestClient(address, "").start(["/usr/bin/python3", "-c", WORKLOAD, word], "root");
  const reader = events.body?.getReader();
  await reader?.read();
  await reader?.cancel();
}

async function expectWord(address: string, word: string): Promise<void> {
  const deadline = performance.now() + ANSWER_MS;
  for (;;) {
    const answer = await ask(address);
    if (answer === word) return;
    if (performance.now() > deadline)
      throw new Fault(503, `the workload answered ${JSON.stringify(answer)} instead of its word for ${ANSWER_MS} ms`);
    await Bun.sleep(20);
  }
}

/** The workload's reply, or the error as text. */
function ask(address: string): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(PORT, address);
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("error", (error) => resolve(error.message));
    socket.on("close", () => resolve(text));
  });
}
