/** Private sandboxes: the traffic token, the callers that receive it, and the access rules sent to the edge. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { WakeRequest } from "../../contract/internal/directory.ts";
import type { ForkAnswer } from "../../contract/management/fork.ts";
import { fileSignature } from "../../contract/runtime/file-signature.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { sandboxesIn } from "../testing/team-calls.ts";

const RUNTIME_PORT = 49_983;
const PRIVATE = { network: { allowPublicTraffic: false } };
const TOKEN = /^[0-9a-f]{64}$/;

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function make(path: string, fields: Record<string, unknown>): Promise<{ id: string; token: string | null }> {
  const { status, body } = await fixture.call("POST", path, { templateID: "base", timeout: 600, ...fields });
  expect(status).toBe(201);
  return { id: body.sandboxID, token: body.trafficAccessToken };
}

describe("the traffic token", () => {
  test("exists only if traffic is not public", async () => {
    expect((await make("/v2/sandboxes", PRIVATE)).token).toMatch(TOKEN);
    expect((await make("/sandboxes", PRIVATE)).token).toMatch(TOKEN);
    for (const network of [{}, { allowPublicTraffic: true }, { allowPublicTraffic: null }]) {
      expect((await make("/v2/sandboxes", { network })).token).toBeNull();
    }
  });

  test("is the same in every response, through pauses and restarts of the server", async () => {
    const { id, token } = await make("/v2/sandboxes", PRIVATE);
    const reportOf = async (path: string, body?: unknown) =>
      (await fixture.call("POST", path, body)).body.trafficAccessToken;
    expect(await reportOf(`/v2/sandboxes/${id}/connect`)).toBe(token);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    expect(await reportOf(`/sandboxes/${id}/connect`, { timeout: 600 })).toBe(token);
    await fixture.call("POST", `/sandboxes/${id}/pause`, { memory: false });
    expect(await reportOf(`/sandboxes/${id}/resume`)).toBe(token);
    expect(fixture.find(id)?.access.trafficToken).toBe(token);
    await fixture.restart();
    expect(fixture.find(id)?.access.trafficToken).toBe(token);
    expect(await reportOf(`/v2/sandboxes/${id}/connect`)).toBe(token);
  });

  test("differs in a copy; a create from a snapshot chooses whether it is private", async () => {
    const { id, token } = await make("/v2/sandboxes", PRIVATE);
    const forked = (await fixture.call("POST", `/sandboxes/${id}/fork`, { count: 2 })).body as unknown as ForkAnswer;
    const tokens = sandboxesIn(forked).map(({ trafficAccessToken }) => trafficAccessToken);
    expect(tokens).toEqual([expect.stringMatching(TOKEN), expect.stringMatching(TOKEN)]);
    expect(new Set([...tokens, token]).size).toBe(3);
    const { snapshotID } = (await fixture.call("POST", `/sandboxes/${id}/snapshots`, {})).body;
    expect((await make("/v2/sandboxes", { templateID: snapshotID })).token).toBeNull();
    expect((await make("/v2/sandboxes", { templateID: snapshotID, ...PRIVATE })).token).toMatch(TOKEN);
  });

  test("is in no list, read, log line or event", async () => {
    const { id, token } = await make("/v2/sandboxes", PRIVATE);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.passBy(1_000);
    const reported = [
      "/sandboxes",
      "/v2/sandboxes",
      `/sandboxes/${id}`,
      "/events/sandboxes",
      `/v2/sandboxes/${id}/logs`,
    ];
    const texts = await Promise.all(
      reported.map(async (path) => JSON.stringify((await fixture.call("GET", path)).body)),
    );
    expect([...texts, ...fixture.logLines].filter((text) => text.includes(String(token)))).toEqual([]);
    expect(texts[1]).toContain(id);
  });
});

describe("the edge gets", () => {
  const open = {
    trafficToken: null,
    guardsRuntime: false,
    maskRequestHost: null,
    httpsPorts: [],
  };

  test.each([
    ["nothing of what was not said", "/v2/sandboxes", {}, open],
    ["the token", "/v2/sandboxes", PRIVATE, { ...open, trafficToken: expect.any(String) }],
    [
      "the token, with secure",
      "/sandboxes",
      { ...PRIVATE, secure: true },
      { ...open, trafficToken: expect.any(String) },
    ],
    [
      "that the token guards a runtime that has none of its own",
      "/sandboxes",
      PRIVATE,
      { ...open, trafficToken: expect.any(String), guardsRuntime: true },
    ],
    [
      "what services are told, and where they speak TLS",
      "/sandboxes",
      { network: { maskRequestHost: "localhost", httpsPorts: [8443] } },
      { ...open, maskRequestHost: "localhost", httpsPorts: [8443] },
    ],
  ])("%s", async (_, path, fields, access) => {
    const { id, token } = await make(path, fields);
    const { teamId } = fixture.firstRun;
    expect(fixture.find(id)?.access).toEqual({ teamId, ...access });
    expect(fixture.find(id)?.access.trafficToken).toBe(token);
    const [copy] = sandboxesIn((await fixture.call("POST", `/sandboxes/${id}/fork`)).body as unknown as ForkAnswer);
    expect(fixture.find(copy?.sandboxID ?? "")?.access).toEqual({ teamId, ...access });
    expect(fixture.find(copy?.sandboxID ?? "")?.access.trafficToken).toBe(copy?.trafficAccessToken ?? null);
  });
});

describe("a private sandbox that is paused is woken", () => {
  const right = "right";
  const wrong = "0".repeat(64);

  test.each([
    ["for a port without the token", true, 3000, null, null, "traffic-token-missing"],
    ["for a port with an empty token", true, 3000, "", null, "traffic-token-missing"],
    ["for a port with a wrong token", true, 3000, wrong, null, "traffic-token-wrong"],
    ["for a port with the runtime's token alone", true, 3000, null, right, "traffic-token-missing"],
    ["for a port with the token", true, 3000, right, null, "woken"],
    ["for the runtime with the traffic token alone", true, RUNTIME_PORT, right, null, "forbidden"],
    ["for the runtime with its own token", true, RUNTIME_PORT, null, right, "woken"],
    ["for an open runtime without the token", false, RUNTIME_PORT, null, null, "traffic-token-missing"],
    ["for an open runtime with a wrong token", false, RUNTIME_PORT, wrong, null, "traffic-token-wrong"],
    ["for an open runtime with the token", false, RUNTIME_PORT, right, null, "woken"],
  ] as const)("%s (secure %p, port %d)", async (_, secure, port, traffic, access, outcome) => {
    const { id, token } = await make("/sandboxes", { ...PRIVATE, secure, autoResume: { enabled: true } });
    const { envdAccessToken } = (await fixture.call("GET", `/sandboxes/${id}`)).body;
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    const request: WakeRequest = {
      port,
      trafficToken: traffic === right ? token : traffic,
      accessToken: access === right ? envdAccessToken : access,
      mayWake: true,
    };
    const answer = await fixture.control.directory.wake(id, request);
    expect("refused" in answer ? answer.refused : "woken").toBe(outcome);
    expect(fixture.host.running).toEqual(outcome === "woken" ? [id] : []);
  });

  test("by no request without auto-resume, and the response does not mention its token", async () => {
    const { id } = await make("/sandboxes", PRIVATE);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    const request = { port: 3000, trafficToken: null, accessToken: null, mayWake: true };
    expect(await fixture.control.directory.wake(id, request)).toEqual({ refused: "not-found" });
  });
});

test("a signed link finds a private sandbox without its traffic token", async () => {
  const { id } = await make("/v2/sandboxes", PRIVATE);
  const { envdAccessToken } = (await fixture.call("GET", `/sandboxes/${id}`)).body;
  const content = { path: "a.txt", username: "", operation: "read" as const, expiration: undefined };
  const signature = fileSignature(content, envdAccessToken ?? "");
  expect(await fixture.control.directory.findSigned({ ...content, signature }, "192.0.2.1")).toBe(id);
});
