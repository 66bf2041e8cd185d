import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OTEL_VARIABLES, parseOpenTelemetry } from "./open-telemetry.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
const parse = (env: Record<string, string>) => parseOpenTelemetry(env, "1.2.3");

test("without an endpoint no traces are exported, whatever else is set", () => {
  const others = { OTEL_SERVICE_NAME: "a", OTEL_TRACES_SAMPLER: "nonsense", OTEL_EXPORTER_OTLP_ENDPOINT: "" };
  expect(parse(others)).toBeUndefined();
  expect(parse({ ...ENDPOINT, OTEL_SDK_DISABLED: "true" })).toBeUndefined();
  expect(parse({ ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" })).toBeUndefined();
});

test("the endpoint alone is enough", () => {
  expect(parse(ENDPOINT)).toEqual({
    exporting: {
      url: "http://127.0.0.1:4318/v1/traces",
      headers: {},
      timeoutMs: 10_000,
      resource: { "service.name": "sandlot", "service.version": "1.2.3", "host.name": expect.any(String) },
    },
    sampling: { parentBased: true, ratio: 1 },
  });
});

test("each variable has its effect, and that of traces alone wins", () => {
  const parsed = parse({
    OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.test/base/",
    OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Basic%20YTpi, x-tenant = 1",
    OTEL_EXPORTER_OTLP_TIMEOUT: "500",
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "700",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_SERVICE_NAME: "mine",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment.name=a%2Cb",
    OTEL_TRACES_SAMPLER: "traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.25",
  });
  expect(parsed?.exporting).toMatchObject({
    url: "https://collector.test/base/v1/traces",
    headers: { Authorization: "Basic YTpi", "x-tenant": "1" },
    timeoutMs: 700,
    resource: { "service.name": "mine", "deployment.environment.name": "a,b" },
  });
  expect(parsed?.sampling).toEqual({ parentBased: false, ratio: 0.25 });
  const exact = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:1/in" };
  expect(parse({ ...ENDPOINT, ...exact })?.exporting.url).toBe("http://127.0.0.1:1/in");
});

test.each([
  ["always_on", { parentBased: false, ratio: 1 }],
  ["always_off", { parentBased: false, ratio: 0 }],
  ["traceidratio", { parentBased: false, ratio: 1 }],
  ["parentbased_always_on", { parentBased: true, ratio: 1 }],
  ["parentbased_always_off", { parentBased: true, ratio: 0 }],
  ["parentbased_traceidratio", { parentBased: true, ratio: 1 }],
])("the sampler %s", (sampler, sampling) => {
  expect(parse({ ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler })?.sampling).toEqual(sampling);
});

describe("an invalid value is an error that names it and a remedy:", () => {
  test.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, "must be a URL with http or https, such as"],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://u:p@c:4318" }, "FIX: give them in OTEL_EXPORTER_OTLP_HEADERS"],
    [
      { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
      'must be http/json, for the collector\'s HTTP port (usually 4318), not "grpc"',
    ],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: "10s" }, 'must be milliseconds from 1 to 600000, not "10s"'],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "secret" }, "entry 1 is not"],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a b=c" }, 'this name is no header, not "a b"'],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a=x%0d%0ay" }, "the value of a is no header value"],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a=%zz" }, "entry 1 is not"],
    [{ OTEL_TRACES_EXPORTER: "zipkin" }, 'must be otlp or none, not "zipkin"'],
    [{ OTEL_TRACES_SAMPLER: "toString" }, "must be one of always_on, "],
    [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" }, 'a number from 0 to 1, not "2"'],
  ])("%p", (env, message) => {
    expect(() => parse({ ...ENDPOINT, ...env } as Record<string, string>)).toThrow(message);
  });
});

test("the documentation lists each variable", () => {
  const page = readFileSync(join(import.meta.dir, "../../../docs/configuration.md"), "utf8");
  expect(OTEL_VARIABLES.filter((name) => !page.includes(`| \`${name}\``))).toEqual([]);
});
