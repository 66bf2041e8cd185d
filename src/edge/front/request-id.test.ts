/** The id of a request: in the request to a runtime or to control, in the response, and in log lines. */
import { describe, expect, test } from "bun:test";
import type { WakeRequest } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { closedPort, hostOf, RawService } from "../testing/edge-under-test.ts";

const edge = edgeOfFile();

const ODD = /^[0-9a-f]{16}$/;
/** The service's own id must not reach the client where the edge decides it. */
const answering = () =>
  RawService.start((socket) => {
    socket.end("HTTP/1.1 200 OK\r\nX-Request-Id: of-the-service\r\nContent-Length: 2\r\n\r\nok");
  });

/** The ids of a request to the port, as the service and the client got them. */
async function idsOf(service: RawService, port: number, lines: string[]) {
  edge.place({ runtimePort: service.port });
  const head = [`GET /files HTTP/1.1`, `Host: ${hostOf(port)}`, ...lines].join("\r\n");
  const response = await edge.raw(`${head}\r\n\r\n`, (received) => received.endsWith("ok"));
  return { sent: idsIn(service.received.at(-1) ?? ""), returned: idsIn(response) };
}

function idsIn(head: string): string[] {
  return [...head.matchAll(/^x-request-id: (.*)\r$/gim)].map(([, id = ""]) => id);
}

describe("a request to a runtime", () => {
  test("keeps the id that its client chose", async () => {
    await using service = await answering();
    const id = "Job-7_b.2";
    expect(await idsOf(service, RUNTIME_PORT, [`X-Request-ID: ${id}`])).toEqual({ sent: [id], returned: [id] });
  });

  test.each([
    ["without one", []],
    ["with an empty one", ["X-Request-ID:"]],
    ["with two", ["X-Request-ID: a", "X-Request-ID: b"]],
    ["with a long one", [`X-Request-ID: ${"x".repeat(65)}`]],
    ["with a space in it", ["X-Request-ID: a b"]],
    ["that is a key", ["X-Request-ID: e2b_0123456789abcdef0123456789abcdef01234567"]],
    ["that is an admin token", ["X-Request-ID: sandlot_admin_0123456789abcdef0123"]],
    ["with a quote in it", ['X-Request-ID: a"b']],
    ["with bytes beyond ASCII in it", ["X-Request-ID: \xe9"]],
    ["with an escape sequence in it", ["X-Request-ID: \x1b[31m"]],
  ])("gets a new id %s", async (_, lines) => {
    await using service = await answering();
    const { sent, returned } = await idsOf(service, RUNTIME_PORT, lines);
    // The reader of request heads rejects control characters.
    if (lines.some((line) => line.includes("\x1b"))) return expect(sent).toEqual([]);
    expect(sent).toEqual([expect.stringMatching(ODD)]);
    expect(returned).toEqual(sent);
  });
});

test("a service on another port and its client keep their own headers", async () => {
  await using service = await answering();
  expect(await idsOf(service, service.port, [])).toEqual({ sent: [], returned: ["of-the-service"] });
  expect(await idsOf(service, service.port, ["X-Request-ID: a b"])).toEqual({
    sent: ["a b"],
    returned: ["of-the-service"],
  });
});

test("control and its client get the same id", async () => {
  const seen: (string | null)[] = [];
  edge.management = async (request) => {
    seen.push(request.headers.get("x-request-id"));
    return new Response("ok");
  };
  for (const given of ["mine", "not mine"]) await fetch(edge.url, { headers: { "X-Request-ID": given } });
  expect(seen).toEqual(["mine", expect.stringMatching(ODD)]);
});

test("a refusal has the id, for any port", async () => {
  const port = await closedPort();
  const refused = await edge.fetch(port, "/", { headers: { "X-Request-ID": "mine" } });
  expect([refused.status, refused.headers.get("x-request-id")]).toEqual([502, "mine"]);
});

test("a wake and a log line of the edge have the id", async () => {
  const wakes: WakeRequest[] = [];
  edge.wake = async (_id, request) => {
    wakes.push(request);
    throw new Error("control is away");
  };
  edge.end();
  const response = await edge.fetch(3000, "/", { headers: { "X-Request-ID": "mine" } });
  expect([response.status, response.headers.get("x-request-id")]).toEqual([500, "mine"]);
  expect(wakes).toMatchObject([{ origin: { id: "mine" } }]);
  expect(edge.contexts.at(-1)).toMatchObject({ request: "mine" });
});
