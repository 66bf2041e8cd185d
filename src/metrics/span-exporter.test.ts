/** Spans reach a real HTTP server as OTLP. A collector that is slow, away or unwilling costs spans, but no request. */
import { afterEach, expect, test } from "bun:test";
import type { LogEntry } from "../base/log.ts";
import type { FinishedSpan } from "../base/spans.ts";
import { freePort } from "../base/testing/free-port.ts";
import { untilTrue } from "../base/testing/until.ts";
import { SPANS_WAITING_MAX, SpanExporter, type SpanOutcome } from "./span-exporter.ts";
import { OtlpReceiver } from "./testing/otlp-receiver.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function exporting(url: string, timeoutMs = 10_000) {
  const outcomes: Record<SpanOutcome, number> = { exported: 0, dropped: 0, failed: 0 };
  const log: LogEntry[] = [];
  const pauses: number[] = [];
  const options = { url, headers: { "X-Key": "secret" }, timeoutMs, resource: { "service.name": "sandlot" } };
  const exporter = new SpanExporter(options, {
    log: { write: (entry) => log.push(entry) },
    pause: async (ms, value) => {
      pauses.push(ms ?? 0);
      return value as never;
    },
  });
  exporter.onOutcome = (outcome, count) => {
    outcomes[outcome] += count;
  };
  stops.push(() => exporter.stop());
  return { exporter, outcomes, log, pauses };
}

function receiver(answer?: () => Response | Promise<Response>): OtlpReceiver {
  const one = new OtlpReceiver(answer);
  stops.push(() => one.stop());
  return one;
}

function span(number: number, more: Partial<FinishedSpan> = {}): FinishedSpan {
  return {
    traceId: TRACE,
    spanId: number.toString(16).padStart(16, "0"),
    name: `span ${number}`,
    kind: "internal",
    beganAt: 1_800_000_000_000.125,
    wallMs: 1.5,
    hasFailed: false,
    attributes: {},
    ...more,
  };
}

test("spans arrive in batches, with the resource and the headers of the operator", async () => {
  const collector = receiver();
  const { exporter, outcomes } = exporting(collector.url);
  const attributes = { "http.response.status_code": 503, "url.path": "/a" };
  exporter.add(span(1, { kind: "server", hasFailed: true, attributes }));
  for (let number = 2; number <= 600; number++) exporter.add(span(number, { parentSpanId: "0000000000000001" }));
  await untilTrue(() => outcomes.exported === 600);
  expect(collector.requests.map(({ spans }) => spans.length)).toEqual([256, 256, 88]);
  const [{ headers, resource } = {}] = collector.requests;
  expect(headers?.get("x-key")).toBe("secret");
  expect(resource).toEqual({ "service.name": "sandlot" });
  expect(collector.spans[0]).toEqual({
    traceId: TRACE,
    spanId: "0000000000000001",
    name: "span 1",
    kind: 2,
    startTimeUnixNano: "1800000000000125000",
    endTimeUnixNano: "1800000000001625000",
    attributes: [
      { key: "http.response.status_code", value: { intValue: "503" } },
      { key: "url.path", value: { stringValue: "/a" } },
    ],
    status: { code: 2 },
  });
  expect(collector.spans[599]).toMatchObject({ kind: 1, parentSpanId: "0000000000000001", status: {} });
});

test("a busy collector is asked again, with growing pauses, and logged once", async () => {
  const answers = [503, 429, 502, 200];
  const collector = receiver(() => new Response(null, { status: answers.shift() ?? 200 }));
  const { exporter, outcomes, log, pauses } = exporting(collector.url);
  exporter.add(span(1));
  await untilTrue(() => outcomes.exported === 1);
  expect(pauses).toEqual([1_000, 1_000, 2_000, 4_000]);
  expect(log).toMatchObject([
    { level: "warn", event: "traces cannot be exported", error: "the collector answered 503" },
  ]);
  expect(JSON.stringify(log)).not.toContain("secret");
});

test.each([400, 401, 302])("a collector that refuses with %d is not asked again", async (status) => {
  const collector = receiver(() => new Response(null, { status, headers: { Location: "/elsewhere" } }));
  const { exporter, outcomes } = exporting(collector.url);
  exporter.add(span(1));
  await untilTrue(() => outcomes.failed === 1);
  expect(collector.requests).toHaveLength(1);
});

test("a collector that is away costs the spans, after some attempts", async () => {
  const { exporter, outcomes, log } = exporting(`http://127.0.0.1:${freePort()}/v1/traces`);
  exporter.add(span(1));
  await untilTrue(() => outcomes.failed === 1);
  expect(log).toHaveLength(1);
});

test("a silent collector delays no request: the queue is bounded, further spans are counted, and stop ends it", async () => {
  const asked = Promise.withResolvers<void>();
  const collector = receiver(() => {
    asked.resolve();
    return new Promise<Response>(() => undefined);
  });
  const { exporter, outcomes } = exporting(collector.url);
  exporter.add(span(1));
  await asked.promise;
  for (let number = 0; number < SPANS_WAITING_MAX + 10; number++) exporter.add(span(number + 2));
  expect(outcomes).toEqual({ exported: 0, dropped: 10, failed: 0 });
  await exporter.stop();
  expect(outcomes).toEqual({ exported: 0, dropped: 10, failed: SPANS_WAITING_MAX + 1 });
});

test("a collector that does not answer in time is one that is away", async () => {
  const collector = receiver(() => new Promise<Response>(() => undefined));
  const { exporter, outcomes } = exporting(collector.url, 5);
  exporter.add(span(1));
  await untilTrue(() => outcomes.failed === 1);
  expect(collector.requests.length).toBeGreaterThan(1);
});

test("stop sends what waits", async () => {
  const collector = receiver();
  const options = { url: collector.url, headers: {}, timeoutMs: 10_000, resource: {} };
  const exporter = new SpanExporter(options, { log: { write: () => undefined } });
  exporter.add(span(1));
  await exporter.stop();
  expect(collector.spans).toHaveLength(1);
});

test("spans of an edge process are bounded, and malformed ones dropped", async () => {
  const collector = receiver();
  const { exporter, outcomes } = exporting(collector.url);
  const attributes = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, "x".repeat(10_000)]));
  const odd: object[] = [
    { traceId: "x" },
    { spanId: 7 },
    { parentSpanId: "y" },
    { beganAt: Number.NaN },
    { beganAt: 1e300 },
    { wallMs: -1 },
    { name: null },
  ];
  const spans = [span(1, { name: "n".repeat(1_000), attributes }), ...odd.map((more) => ({ ...span(2), ...more }))];
  exporter.addUntrusted({ spans: spans as FinishedSpan[], dropped: 3 });
  await untilTrue(() => outcomes.exported === 1);
  expect(outcomes.dropped).toBe(odd.length + 3);
  const [arrived] = collector.spans;
  expect(arrived?.name).toHaveLength(128);
  expect(arrived?.attributes).toHaveLength(16);
  expect(JSON.stringify(arrived).length).toBeLessThan(10_000);
});
