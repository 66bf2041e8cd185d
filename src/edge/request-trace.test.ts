/** Spans of clients' requests at the edge, and the place in the trace that control, runtimes and services are told. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type { FinishedSpan } from "../base/spans.ts";
import { recordSteps, spanOfStep } from "../base/steps.ts";
import { untilTrue } from "../base/testing/until.ts";
import type { WakeRequest } from "../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { RequestTraces, type Sampling } from "./request-trace.ts";
import { closedPort, EdgeUnderTest, RawService, SANDBOX } from "./testing/edge-under-test.ts";
import { serve, upgrading } from "./testing/service.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const SAMPLED = `00-${TRACE}-${PARENT}-01`;
const HALF: Sampling = { parentBased: false, ratio: 0.5 };
const ALL: Sampling = { parentBased: true, ratio: 1 };

const open: EdgeUnderTest[] = [];
afterEach(() => recordSteps(undefined));
afterAll(() => Promise.all(open.map((edge) => edge[Symbol.asyncDispose]())));

function traced(sampling = ALL): { edge: EdgeUnderTest; spans: FinishedSpan[] } {
  const spans: FinishedSpan[] = [];
  recordSteps({ write: (step) => spans.push(spanOfStep(step) as FinishedSpan) });
  const edge = new EdgeUnderTest({ traces: new RequestTraces(sampling, (span) => spans.push(span)) });
  open.push(edge);
  return { edge, spans };
}

const answering = () => RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));

function sentTo(service: RawService): string | undefined {
  return /^traceparent: (.*)\r$/im.exec(service.received.at(-1) ?? "")?.[1];
}

describe("a request to a runtime", () => {
  test("is a span of the client's trace, with the steps of the edge within it", async () => {
    await using service = await answering();
    const { edge, spans } = traced();
    edge.place({ runtimePort: service.port });
    const headers = { traceparent: SAMPLED, "X-Request-ID": "mine" };
    await (await edge.fetch(RUNTIME_PORT, "/files?path=secret", { headers })).text();
    await untilTrue(() => spans.length === 4);
    const request = spans.find(({ kind }) => kind === "server");
    expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, name: "GET files", hasFailed: false });
    expect(request?.attributes).toEqual({
      "http.request.method": "GET",
      "http.response.status_code": 200,
      "sandlot.request.id": "mine",
      "sandlot.sandbox.id": SANDBOX,
      "server.port": RUNTIME_PORT,
      "url.path": "/files",
    });
    const steps = spans.filter(({ kind }) => kind === "internal");
    expect(steps.map(({ name }) => name)).toEqual([
      "edge: connect",
      "edge: wait for the response",
      "edge: forward the response",
    ]);
    for (const step of steps) expect(step).toMatchObject({ traceId: TRACE, parentSpanId: request?.spanId });
    expect(sentTo(service)).toBe(`00-${TRACE}-${request?.spanId}-01`);
  });

  test("without a trace begins one; a malformed one is none", async () => {
    await using service = await answering();
    const { edge, spans } = traced();
    edge.place({ runtimePort: service.port });
    const headers = { traceparent: "00-x" };
    await (await edge.fetch(RUNTIME_PORT, "/", { headers })).text();
    await untilTrue(() => spans.length === 4);
    const request = spans.find(({ kind }) => kind === "server");
    expect(request?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(request?.parentSpanId).toBeUndefined();
    expect(sentTo(service)).toBe(`00-${request?.traceId}-${request?.spanId}-01`);
  });
});

test("a service on another port gets the client's own trace, and the span has no path", async () => {
  await using service = await answering();
  const { edge, spans } = traced();
  await (await edge.fetch(service.port, "/secret", { headers: { traceparent: SAMPLED } })).text();
  await (await edge.fetch(service.port, "/secret")).text();
  await untilTrue(() => spans.filter(({ kind }) => kind === "server").length === 2);
  expect(service.received.map((head) => /^traceparent: (.*)\r$/im.exec(head)?.[1])).toEqual([SAMPLED, undefined]);
  expect(JSON.stringify(spans)).not.toContain("secret");
});

test("control gets the edge's span as its parent, and a wake as its origin", async () => {
  const { edge, spans } = traced();
  const seen: (string | null)[] = [];
  edge.management = async (request) => {
    seen.push(request.headers.get("traceparent"));
    return new Response(null, { status: 503 });
  };
  await fetch(`${edge.url}sandboxes?x=secret`, { headers: { traceparent: SAMPLED } });
  const wakes: WakeRequest[] = [];
  edge.wake = async (_id, request) => {
    wakes.push(request);
    return { refused: "not-found" };
  };
  edge.end();
  await edge.fetch(3000, "/", { headers: { traceparent: SAMPLED, "X-Request-ID": "mine" } });
  await untilTrue(() => spans.filter(({ kind }) => kind === "server").length === 2);
  const [management, wake] = spans.filter(({ kind }) => kind === "server");
  expect(management).toMatchObject({ name: "GET management", hasFailed: true });
  expect(management?.attributes).toMatchObject({ "url.path": "/sandboxes", "http.response.status_code": 503 });
  expect(seen).toEqual([`00-${TRACE}-${management?.spanId}-01`]);
  const trace = { traceId: TRACE, spanId: wake?.spanId ?? "", isSampled: true };
  expect(wakes).toMatchObject([{ origin: { id: "mine", trace } }]);
});

test.each([
  ["always", { parentBased: true, ratio: 0 }, SAMPLED, 1],
  ["that the client leaves out", ALL, SAMPLED.replace(/01$/, "00"), 0],
  ["not with a low id", HALF, `00-${TRACE.slice(0, 20)}7${"f".repeat(11)}-${PARENT}-01`, 0],
  ["with a high id", { parentBased: false, ratio: 0.5 }, `00-${TRACE.slice(0, 20)}f${"0".repeat(11)}-${PARENT}-01`, 1],
] as const)("a trace is recorded or not: %s", async (_, sampling, traceparent, recorded) => {
  await using service = await answering();
  const { edge, spans } = traced(sampling);
  edge.place({ runtimePort: service.port });
  await (await edge.fetch(RUNTIME_PORT, "/", { headers: { traceparent } })).text();
  expect(sentTo(service)).toEndWith(recorded === 1 ? "-01" : "-00");
  if (recorded === 1) await untilTrue(() => spans.length === 4);
  else expect(spans).toEqual([]);
});

test("a refused connection and a WebSocket are spans, too", async () => {
  await using service = serve(upgrading);
  const { edge, spans } = traced();
  expect((await edge.fetch(await closedPort(), "/", { headers: { traceparent: SAMPLED } })).status).toBe(502);
  const socket = edge.websocket(service.port);
  await new Promise((resolve) => {
    socket.onopen = resolve;
  });
  socket.close();
  await untilTrue(() => spans.filter(({ kind }) => kind === "server").length === 2);
  const statuses = spans.flatMap(({ attributes }) => attributes["http.response.status_code"] ?? []);
  expect(statuses).toEqual([502, 101]);
});

test("without traces, all get the client's own header, and nothing is recorded", async () => {
  await using service = await answering();
  const edge = new EdgeUnderTest();
  open.push(edge);
  edge.place({ runtimePort: service.port });
  await (await edge.fetch(RUNTIME_PORT, "/", { headers: { traceparent: SAMPLED } })).text();
  expect(sentTo(service)).toBe(SAMPLED);
});
