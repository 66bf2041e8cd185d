/** A Dockerfile that the server builds by itself, through the first generation of the interface. */
import { expect } from "bun:test";
import { Template } from "e2b";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import type { TestServer } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const BUILD_MS = 120_000;

interface Accepted {
  templateID: string;
  buildID: string;
  memoryMB: number;
  buildStatus: string;
}

/** Resolves once the template is ready; fails with the reason when it is not. */
export async function buildDockerfile(server: TestServer, request: Record<string, unknown>): Promise<Accepted> {
  const token = await sandlotKeys(server, "token", "dockerfiles");
  const reply = await fetch(`${server.url}/templates`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: JSON.stringify(request),
  });
  const accepted = (await reply.json()) as Accepted;
  expect([reply.status, accepted]).toMatchObject([202, { buildStatus: "uploaded" }]);
  const build = { templateId: accepted.templateID, buildId: accepted.buildID };
  const status = () => Template.getBuildStatus(build, server.options);
  await until("the build is over", async () => /ready|error/.test((await status()).status), BUILD_MS);
  expect(await status()).toMatchObject({ status: "ready" });
  return accepted;
}
