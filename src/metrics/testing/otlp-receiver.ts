/**
 * For tests: an HTTP server that takes traces as a collector does. It rejects bodies that break the rules of OTLP in
 * JSON: ids in hex, 64-bit numbers as strings, known fields only.
 */
import { z } from "zod";

const NANOSECONDS = z.string().regex(/^[1-9]\d{18}$/);
const SPAN_ID = z.string().regex(/^(?!0{16})[0-9a-f]{16}$/);
const ATTRIBUTES = z.array(
  z.strictObject({
    key: z.string().min(1),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
    ]),
  }),
);
const SPAN = z
  .strictObject({
    traceId: z.string().regex(/^(?!0{32})[0-9a-f]{32}$/),
    spanId: SPAN_ID,
    parentSpanId: SPAN_ID.optional(),
    name: z.string().min(1),
    kind: z.int().min(1).max(5),
    startTimeUnixNano: NANOSECONDS,
    endTimeUnixNano: NANOSECONDS,
    attributes: ATTRIBUTES,
    status: z.strictObject({ code: z.int().min(0).max(2).optional() }),
  })
  .refine(({ startTimeUnixNano: start, endTimeUnixNano: end }) => BigInt(start) <= BigInt(end));
const REQUEST = z.strictObject({
  resourceSpans: z.tuple([
    z.strictObject({
      resource: z.strictObject({ attributes: ATTRIBUTES }),
      scopeSpans: z.tuple([z.strictObject({ scope: z.strictObject({ name: z.string() }), spans: z.array(SPAN) })]),
    }),
  ]),
});

export type ReceivedSpan = z.infer<typeof SPAN>;

interface ReceivedRequest {
  headers: Headers;
  resource: Record<string, unknown>;
  spans: ReceivedSpan[];
}

export class OtlpReceiver {
  readonly requests: ReceivedRequest[] = [];
  /** Bodies that no collector would take. */
  readonly refused: string[] = [];
  readonly #server: Bun.Server<undefined>;

  constructor(answer: () => Response | Promise<Response> = () => Response.json({})) {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      routes: { "/v1/traces": { POST: (request) => this.#take(request, answer) } },
      fetch: () => new Response(null, { status: 404 }),
    });
  }

  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  get url(): string {
    return `${this.endpoint}/v1/traces`;
  }

  get spans(): ReceivedSpan[] {
    return this.requests.flatMap(({ spans }) => spans);
  }

  stop(): Promise<void> {
    return this.#server.stop(true);
  }

  async #take(request: Request, answer: () => Response | Promise<Response>): Promise<Response> {
    if (request.headers.get("content-type") !== "application/json") return new Response(null, { status: 415 });
    const parsed = REQUEST.safeParse(await request.json());
    if (!parsed.success) {
      this.refused.push(String(parsed.error));
      return new Response(null, { status: 400 });
    }
    const [{ resource, scopeSpans }] = parsed.data.resourceSpans;
    const attributes = resource.attributes.map(({ key, value }) => [key, Object.values(value)[0]]);
    this.requests.push({
      headers: request.headers,
      resource: Object.fromEntries(attributes),
      spans: scopeSpans[0].spans,
    });
    return await answer();
  }
}
