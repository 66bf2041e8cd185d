/** Private sandboxes' URLs, and the Host header their services receive: through the client, as its users set them. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startService } from "../../support/listening.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const RUNTIME = 49983;
const WEB = 8000;
const MISSING = "The sandbox is private: the header e2b-traffic-access-token is missing";
const WRONG = "The sandbox is private: the header e2b-traffic-access-token holds another token";

const tokenOf = ({ trafficAccessToken }: Sandbox) => ({ "E2B-Traffic-Access-Token": trafficAccessToken ?? "" });

/** Sends a request to a port of a sandbox by its host name. */
const ask = ({ sandboxId }: Pick<Sandbox, "sandboxId">, port: number, path: string, init: RequestInit = {}) =>
  fetch(`${server().url}${path}`, {
    ...init,
    headers: { ...(init.headers as Record<string, string> | undefined), Host: `${port}-${sandboxId}.anything.test` },
  });

async function seenBy(response: Response): Promise<{ headers: Record<string, string>; url: string }> {
  expect(response.status).toBe(200);
  return (await response.json()) as { headers: Record<string, string>; url: string };
}

describe("a private sandbox", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await Sandbox.create({
      ...server().options,
      network: { allowPublicTraffic: false },
      lifecycle: { onTimeout: "pause", autoResume: true },
      timeoutMs: 600_000,
    });
    await startService(sandbox, "web-service", WEB, "127.0.0.1");
  });

  test("accepts requests with its token, which the service sees, and rejects others", async () => {
    const { sandboxId, trafficAccessToken } = sandbox;
    const { headers } = await seenBy(await ask(sandbox, WEB, "/echo", { headers: tokenOf(sandbox) }));
    expect(headers["e2b-traffic-access-token"]).toBe(trafficAccessToken ?? "none");
    for (const [given, message] of [
      [{}, MISSING],
      [{ "E2B-Traffic-Access-Token": "0".repeat(64) }, WRONG],
    ] as [Record<string, string>, string][]) {
      const refused = await ask(sandbox, WEB, "/echo", { headers: given });
      expect([refused.status, await refused.text()]).toEqual([403, JSON.stringify({ sandboxId, message, code: 403 })]);
      // A port without a listener gets the same response, so that callers do not learn what runs inside.
      expect((await ask(sandbox, 8999, "/", { headers: given })).status).toBe(403);
    }
    const page = await ask(sandbox, WEB, "/", {
      headers: { "User-Agent": "Mozilla/5.0", "Sec-Fetch-Mode": "navigate" },
    });
    expect(await page.text()).toContain("<title>Missing Traffic Access Token</title>");
  });

  test("is resumed by requests with its token only, and keeps the token", async () => {
    await sandbox.pause();
    for (const headers of [{}, { "E2B-Traffic-Access-Token": "guess" }]) {
      const refused = await ask(sandbox, WEB, "/echo", { headers });
      expect(refused.status).toBe(403);
      expect(await refused.json()).toMatchObject({ sandboxId: sandbox.sandboxId, code: 403 });
    }
    expect((await Sandbox.getInfo(sandbox.sandboxId, server().options)).state).toBe("paused");
    await seenBy(await ask(sandbox, WEB, "/echo", { headers: tokenOf(sandbox) }));
    expect((await Sandbox.getInfo(sandbox.sandboxId, server().options)).state).toBe("running");
    expect((await ask(sandbox, WEB, "/echo")).status).toBe(403);
    const connected = await Sandbox.connect(sandbox.sandboxId, server().options);
    expect(connected.trafficAccessToken).toBe(sandbox.trafficAccessToken ?? "none");
  });
});

test("the runtime of a private sandbox without an access token needs the traffic token", async () => {
  const made = await server().call("POST", "/sandboxes", {
    templateID: "base",
    network: { allowPublicTraffic: false },
  });
  const { sandboxID, trafficAccessToken, envdAccessToken } = made.body as Record<string, string | null>;
  expect([made.status, envdAccessToken]).toEqual([201, null]);
  const at = { sandboxId: sandboxID ?? "" };
  const headers = { "E2B-Traffic-Access-Token": trafficAccessToken ?? "" };
  for (const path of ["/health", "/files?path=/etc/hostname", "/files?path=/etc/hostname&signature=v1_any"]) {
    expect((await ask(at, RUNTIME, path)).status).toBe(403);
  }
  expect((await ask(at, RUNTIME, "/health", { headers })).status).toBe(204);
  expect((await ask(at, RUNTIME, "/files?path=/etc/hostname", { headers })).status).toBe(200);
});

test("a service gets the masked host, and the requested one in X-Forwarded-Host", async () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what users write.
  const sandbox = await Sandbox.create({ ...server().options, network: { maskRequestHost: "localhost:${PORT}" } });
  await startService(sandbox, "web-service", WEB);
  const { headers } = await seenBy(await ask(sandbox, WEB, "/echo", { headers: { "X-Forwarded-Host": "forged" } }));
  expect(headers).toMatchObject({
    host: `localhost:${WEB}`,
    "x-forwarded-host": `${WEB}-${sandbox.sandboxId}.anything.test`,
  });
});
