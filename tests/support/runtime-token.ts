/** The token that opens a sandbox's runtime, as the team that owns the sandbox reads it. */
import type { TestServer } from "./server.ts";

export async function runtimeTokenOf(server: TestServer, sandboxId: string): Promise<string> {
  const headers = { "X-API-Key": server.apiKey };
  const answer = await fetch(`${server.url}/sandboxes/${sandboxId}`, { headers });
  return ((await answer.json()) as { envdAccessToken: string }).envdAccessToken;
}
