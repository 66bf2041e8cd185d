/** Export of traces: OpenTelemetry's own environment variables. docs/configuration.md lists those that are read. */
import { hostname } from "node:os";
import { Fault } from "../../contract/fault.ts";
import type { Sampling } from "../../edge/request-trace.ts";
import type { ExportOptions } from "../../metrics/span-exporter.ts";

interface OpenTelemetry {
  exporting: ExportOptions;
  sampling: Sampling;
}

/** Those after OTEL_EXPORTER_OTLP_… also exist for traces alone, as OTEL_EXPORTER_OTLP_TRACES_…, which wins. */
export const OTEL_VARIABLES = [
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_HEADERS",
  "OTEL_EXPORTER_OTLP_TIMEOUT",
  "OTEL_EXPORTER_OTLP_PROTOCOL",
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
  "OTEL_TRACES_EXPORTER",
  "OTEL_SDK_DISABLED",
] as const;

type Name = (typeof OTEL_VARIABLES)[number];

const TIMEOUT_DEFAULT_MS = "10000";
const TIMEOUT_MAX_MS = 600_000;
const PAIRS_MAX = 64;
const HEADER_NAME = /^[\w-]+$/;
const HEADER_VALUE = /^[\x20-\x7e]*$/;
const PARENT_BASED = "parentbased_";
const RATIOS: Readonly<Record<string, number | "argument">> = {
  always_on: 1,
  always_off: 0,
  traceidratio: "argument",
};

/** Undefined: no traces are exported. Fault 400 for an invalid value. */
export function parseOpenTelemetry(
  env: Record<string, string | undefined>,
  version: string,
): OpenTelemetry | undefined {
  const own = (name: string) => env[name] || undefined;
  const ofExporter = (name: string) => own(`OTEL_EXPORTER_OTLP_TRACES_${name}`) ?? own(`OTEL_EXPORTER_OTLP_${name}`);
  const tracesEndpoint = own("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const endpoint = own("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (tracesEndpoint === undefined && endpoint === undefined) return undefined;
  if (own("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  const exporter = own("OTEL_TRACES_EXPORTER") ?? "otlp";
  if (exporter === "none") return undefined;
  if (exporter !== "otlp") throw invalid("OTEL_TRACES_EXPORTER", "otlp or none", exporter);
  const protocol = ofExporter("PROTOCOL") ?? "http/json";
  if (protocol !== "http/json") {
    throw invalid("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json, for the collector's HTTP port (usually 4318)", protocol);
  }
  const url = tracesEndpoint === undefined ? new URL(urlOf("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint ?? "")) : undefined;
  if (url !== undefined) url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/traces`;
  const service = own("OTEL_SERVICE_NAME");
  return {
    exporting: {
      url: url?.href ?? urlOf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", tracesEndpoint ?? ""),
      headers: headersOf(ofExporter("HEADERS") ?? ""),
      timeoutMs: timeoutOf(ofExporter("TIMEOUT") ?? TIMEOUT_DEFAULT_MS),
      resource: {
        "service.name": "sandlot",
        "service.version": version,
        "host.name": hostname(),
        ...Object.fromEntries(pairsOf("OTEL_RESOURCE_ATTRIBUTES", own("OTEL_RESOURCE_ATTRIBUTES") ?? "")),
        ...(service !== undefined && { "service.name": service }),
      },
    },
    sampling: samplingOf(own("OTEL_TRACES_SAMPLER") ?? "parentbased_always_on", own("OTEL_TRACES_SAMPLER_ARG") ?? "1"),
  };
}

function urlOf(name: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) {
    throw invalid(name, "a URL with http or https, such as http://127.0.0.1:4318", text);
  }
  if (url.username === "" && url.password === "") return url.href;
  throw new Fault(400, `${name} has a user or password. FIX: give them in OTEL_EXPORTER_OTLP_HEADERS`);
}

function headersOf(text: string): Record<string, string> {
  const name = "OTEL_EXPORTER_OTLP_HEADERS";
  const pairs = pairsOf(name, text);
  for (const [header, value] of pairs) {
    if (!HEADER_NAME.test(header)) throw invalid(name, "NAME=VALUE,NAME=VALUE; this name is no header", header);
    if (!HEADER_VALUE.test(value)) throw new Fault(400, `${name}: the value of ${header} is no header value`);
  }
  return Object.fromEntries(pairs);
}

/** `NAME=VALUE,NAME=VALUE`, with values in percent-encoding. Values may be secret, so no error has one. */
function pairsOf(name: Name, text: string): [string, string][] {
  const entries = text.split(",").filter((entry) => entry.trim() !== "");
  if (entries.length > PAIRS_MAX) throw invalid(name, `at most ${PAIRS_MAX} pairs`, String(entries.length));
  return entries.map((entry, at) => {
    const equals = entry.indexOf("=");
    const key = entry.slice(0, Math.max(equals, 0)).trim();
    try {
      if (key !== "") return [key, decodeURIComponent(entry.slice(equals + 1).trim())];
    } catch {
      // Reported below.
    }
    throw new Fault(
      400,
      `${name} must be NAME=VALUE,NAME=VALUE with values in percent-encoding; entry ${at + 1} is not`,
    );
  });
}

function timeoutOf(text: string): number {
  const ms = Number(text);
  if (/^\d+$/.test(text) && ms > 0 && ms <= TIMEOUT_MAX_MS) return ms;
  throw invalid("OTEL_EXPORTER_OTLP_TIMEOUT", `milliseconds from 1 to ${TIMEOUT_MAX_MS}`, text);
}

function samplingOf(sampler: string, argument: string): Sampling {
  const followsClient = sampler.startsWith(PARENT_BASED);
  const kind = followsClient ? sampler.slice(PARENT_BASED.length) : sampler;
  const ratio = Object.hasOwn(RATIOS, kind) ? RATIOS[kind] : undefined;
  if (ratio === undefined) {
    const kinds = Object.keys(RATIOS);
    const known = [...kinds, ...kinds.map((each) => `${PARENT_BASED}${each}`)].join(", ");
    throw invalid("OTEL_TRACES_SAMPLER", `one of ${known}`, sampler);
  }
  if (ratio !== "argument") return { parentBased: followsClient, ratio };
  const given = Number(argument);
  if (/^\d*\.?\d+$/.test(argument) && given <= 1) return { parentBased: followsClient, ratio: given };
  throw invalid("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1", argument);
}

function invalid(name: string, wanted: string, given: string): Fault {
  return new Fault(400, `${name} must be ${wanted}, not ${JSON.stringify(given)}`);
}
