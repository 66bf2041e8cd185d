/** Sandboxes of the template code-interpreter-v1, by its own client, and what that hides: the lines themselves. */
import { afterAll, beforeAll } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import type { TestServer } from "./server.ts";
import { templateServer } from "./template-server.ts";

type Line = Record<string, unknown> & { type: string };

const PORT = "49999";

export const interpreterServer = () => templateServer("code-interpreter-v1");

/** One for all tests of a file. */
export function interpreterOfFile(server: () => TestServer): () => Sandbox {
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    sandbox = await Sandbox.create(Object.assign({ timeoutMs: 600_000 }, server().options));
  });
  afterAll(async () => {
    await sandbox?.kill();
  });
  return () => {
    if (sandbox === undefined) throw new Error("the sandbox runs only while tests do");
    return sandbox;
  };
}

/** A request of one's own to the server in the sandbox. */
export async function ask(server: TestServer, sandbox: Sandbox, path: string, init: RequestInit): Promise<Response> {
  const headers = { "Content-Type": "application/json", "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": PORT };
  return await fetch(server.url + path, Object.assign({}, init, { headers }));
}

/** The whole stream of an execution, as text. */
export async function streamOf(server: TestServer, sandbox: Sandbox, body: object): Promise<string> {
  const answer = await ask(server, sandbox, "/execute", { method: "POST", body: JSON.stringify(body) });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  return await answer.text();
}

export function linesIn(stream: string): Line[] {
  return stream
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}
