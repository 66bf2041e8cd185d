/** Writes spans as OTLP in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding */
import type { FinishedSpan } from "../base/spans.ts";

/** What the spans are about, such as `service.name`. */
export type Resource = Readonly<Record<string, string>>;

const KINDS = { internal: 1, server: 2 } as const;
const STATUS_ERROR = 2;

/** The body of a request to `/v1/traces`. */
export function tracesJson(spans: readonly FinishedSpan[], resource: Resource): string {
  const scopeSpans = [{ scope: { name: "sandlot" }, spans: spans.map(spanJson) }];
  return JSON.stringify({ resourceSpans: [{ resource: { attributes: attributesJson(resource) }, scopeSpans }] });
}

function spanJson({ traceId, spanId, parentSpanId, name, kind, beganAt, wallMs, hasFailed, attributes }: FinishedSpan) {
  return {
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(beganAt),
    endTimeUnixNano: nanoseconds(beganAt + wallMs),
    attributes: attributesJson(attributes),
    status: hasFailed ? { code: STATUS_ERROR } : {},
  };
}

/** 64-bit integers are strings. */
function attributesJson(attributes: Readonly<Record<string, string | number>>) {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
  }));
}

/** Microseconds since 1970 still fit in a number; nanoseconds do not. */
function nanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}
