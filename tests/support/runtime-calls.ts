/** Calls a sandbox's runtime directly, without a shell. */
import { follow } from "../../src/guest/testing/process-calls.ts";
import { envelope, envelopes } from "../../src/guest/testing/running-guest.ts";
import type { TestServer } from "./server.ts";

/** The token that opens it, as the team that owns the sandbox reads it. */
export async function runtimeTokenOf(server: TestServer, sandboxId: string): Promise<string> {
  return (await server.call("GET", `/sandboxes/${sandboxId}`)).body.envdAccessToken;
}

/** All that a process told until its end. `process` and `more` are the message that starts it. */
export async function startProcess(
  server: TestServer,
  sandboxId: string,
  user: string,
  process: object,
  more: object = {},
) {
  const response = await fetch(`${server.url}/process.Process/Start`, {
    method: "POST",
    headers: {
      "E2b-Sandbox-Id": sandboxId,
      "E2b-Sandbox-Port": "49983",
      "X-Access-Token": await runtimeTokenOf(server, sandboxId),
      Authorization: `Basic ${btoa(`${user}:`)}`,
      "Content-Type": "application/connect+json",
    },
    body: envelope({ process, ...more }),
  });
  if (response.body === null) throw new Error("no stream");
  return await follow(envelopes(response.body));
}
