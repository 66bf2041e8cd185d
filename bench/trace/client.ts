/** Performs the operations to trace, one at a time on an idle server, and prints their steps. */
import { Fault } from "../../src/contract/fault.ts";
import { RUNTIME_PORT } from "../../src/contract/runtime/version.ts";
import type { TraceTask } from "./main.ts";
import type { Traced } from "./options.ts";
import { machineMs, StepFile } from "./step-file.ts";
import { type Exchange, traceTable } from "./trace-table.ts";

interface Sandbox {
  id: string;
  headers: Record<string, string>;
}

/** Prepares without tracing and returns the operation to trace. */
type Act = () => Promise<{ title: string; ask: () => Promise<unknown> }>;

const LIFE_SECONDS = 600;
const HEAD_BYTES = 5;

class Client {
  constructor(readonly task: TraceTask) {}

  readonly acts: Record<Traced, Act> = {
    create: async () => {
      const title = this.task.ready ? "create of base from the ready pool" : "cold create of base";
      return { title, ask: () => this.create() };
    },
    exec: async () => {
      const sandbox = await this.create();
      await this.exec(sandbox);
      return { title: "a command (true) in a sandbox that has run one before", ask: () => this.exec(sandbox) };
    },
    fork: async () => {
      const { id } = await this.create();
      const body = { count: 1, timeout: LIFE_SECONDS };
      return { title: "fork of an idle sandbox into one", ask: () => this.call("POST", `/sandboxes/${id}/fork`, body) };
    },
    pause: async () => {
      const { id } = await this.create();
      return { title: "pause of an idle sandbox", ask: () => this.call("POST", `/sandboxes/${id}/pause`) };
    },
    resume: async () => {
      const { id } = await this.create();
      await this.call("POST", `/sandboxes/${id}/pause`);
      const body = { timeout: LIFE_SECONDS };
      return { title: "resume of an idle sandbox", ask: () => this.call("POST", `/v2/sandboxes/${id}/connect`, body) };
    },
  };

  async create(): Promise<Sandbox> {
    const made = await this.call("POST", "/v2/sandboxes", { templateID: "base", timeout: LIFE_SECONDS });
    const { sandboxID: id, envdAccessToken: token } = made as { sandboxID: string; envdAccessToken: string | null };
    const address = { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(RUNTIME_PORT) };
    return { id, headers: token === null ? address : { ...address, "X-Access-Token": token } };
  }

  async exec({ headers }: Sandbox): Promise<void> {
    const message = new TextEncoder().encode(
      JSON.stringify({ process: { cmd: "/bin/bash", args: ["-l", "-c", "true"] }, stdin: false }),
    );
    const body = new Uint8Array(HEAD_BYTES + message.length);
    new DataView(body.buffer).setUint32(1, message.length);
    body.set(message, HEAD_BYTES);
    const response = await fetch(`${this.task.url}/process.Process/Start`, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1" },
      body,
    });
    const output = await response.text();
    if (!response.ok || output.includes('"error"'))
      throw new Fault(500, `Start was answered ${response.status}: ${output}`);
  }

  async call(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.task.url}${path}`, {
      method,
      headers: { "X-API-Key": this.task.apiKey, "Content-Type": "application/json" },
      body: JSON.stringify(body ?? {}),
    });
    const text = await response.text();
    if (!response.ok) throw new Fault(500, `${method} ${path} was answered with ${response.status}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }
}

async function trace(task: TraceTask): Promise<void> {
  const client = new Client(task);
  const steps = new StepFile(task.stepsFile);
  // The first create has extra work, such as making a disk to copy, so it is not traced.
  await client.create();
  for (const kind of task.kinds) {
    const { title, ask } = await client.acts[kind]();
    await steps.untilQuiet();
    const exchange = await timed(ask);
    await steps.untilQuiet();
    console.log(`${traceTable(title, exchange, steps.read())}\n`);
  }
}

async function timed(ask: () => Promise<unknown>): Promise<Exchange> {
  const [machineBefore, own, beganAt] = [machineMs(), process.cpuUsage(), performance.now()];
  await ask();
  const wallMs = performance.now() - beganAt;
  const { user, system } = process.cpuUsage(own);
  const clientMs = (user + system) / 1000;
  return { beganAt: performance.timeOrigin + beganAt, wallMs, clientMs, machineMs: machineMs() - machineBefore };
}

try {
  await trace((await Bun.stdin.json()) as TraceTask);
  process.exit(0);
} catch (thrown) {
  console.error(thrown instanceof Fault ? `sandlot trace: ${thrown.message}` : thrown);
  process.exit(1);
}
