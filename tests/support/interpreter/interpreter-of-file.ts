/** One code interpreter sandbox for all tests of a file, used through the unmodified client. */
import { afterAll, beforeAll } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { templateServer } from "../template-server.ts";

const INTERPRETER_PORT = "49999";
const LIVES_MS = 900_000;

/** Where sandboxes are reached. */
const urls = new WeakMap<Sandbox, string>();

export function interpreterOfFile(): () => Sandbox {
  const server = templateServer("code-interpreter-v1");
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    const { options, url } = server();
    sandbox = await Sandbox.create({ ...options, timeoutMs: LIVES_MS });
    urls.set(sandbox, url);
  });
  afterAll(async () => {
    await sandbox?.kill();
  });
  return () => {
    if (sandbox === undefined) throw new Error("the sandbox is there only while tests run");
    return sandbox;
  };
}

/** A request of one's own to the server in the sandbox. */
async function ask(sandbox: Sandbox, path: string, init: RequestInit): Promise<Response> {
  const headers = {
    "Content-Type": "application/json",
    "E2b-Sandbox-Id": sandbox.sandboxId,
    "E2b-Sandbox-Port": INTERPRETER_PORT,
  };
  return await fetch(`${urls.get(sandbox)}${path}`, { ...init, headers });
}

/** The lines of an execution as on the wire: the client turns 1.0 into 1, and drops unknown fields. */
export async function rawLines(sandbox: Sandbox, code: string): Promise<string[]> {
  const response = await ask(sandbox, "/execute", { method: "POST", body: JSON.stringify({ code }) });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return text.trimEnd().split("\n");
}

/** Runs code that prints, and leaves as soon as it has: its client is gone then, and it runs on. */
export async function leave(sandbox: Sandbox, code: string, contextId?: string): Promise<void> {
  const client = new AbortController();
  const body = JSON.stringify({ code, context_id: contextId ?? null });
  const response = await ask(sandbox, "/execute", { method: "POST", body, signal: client.signal });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  for await (const piece of response.body ?? []) if (Buffer.from(piece).includes('"stdout"')) break;
  client.abort();
}
