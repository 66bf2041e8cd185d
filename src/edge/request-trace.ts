/**
 * The span of a client's request, from its head to the end of its response. It continues the client's trace or begins
 * one; control and runtimes get it as their parent. Requests of a service's own port keep the client's header.
 */
import { masked } from "../base/log.ts";
import { type FinishedSpan, newSpanId, newTraceId } from "../base/spans.ts";
import { parseTraceparent, TRACEPARENT_HEADER, type TraceContext } from "../contract/trace-context.ts";
import type { ReadHeaders } from "../http1/header-lines.ts";

/** Longer paths are cut. */
const PATH_MAX_CHARS = 256;
const FAILED_STATUS_MIN = 500;
const METHODS: ReadonlySet<string> = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]);

/** Which traces are recorded: the ratio of those that begin here, and whether a client's choice is followed. */
export interface Sampling {
  parentBased: boolean;
  /** 0 to 1. */
  ratio: number;
}

/** Where a request goes. */
interface Destination {
  kind: string;
  /** Absent if it may hold data of a tenant. */
  target?: string;
  sandboxId?: string;
  port?: number;
}

type Report = (span: FinishedSpan) => void;
type TracedRequest = { readonly method: string; readonly headers: ReadHeaders; readonly requestId: string };

export class RequestTraces {
  constructor(
    private readonly sampling: Sampling,
    private readonly report: Report,
  ) {}

  begin(request: TracedRequest): RequestTrace {
    const given = parseTraceparent(request.headers.get(TRACEPARENT_HEADER));
    const traceId = given?.traceId ?? newTraceId();
    const isSampled =
      this.sampling.parentBased && given !== undefined ? given.isSampled : this.#isSampledByRatio(traceId);
    return new RequestTrace(request, { traceId, spanId: newSpanId(), isSampled }, given?.spanId, this.report);
  }

  /** By the random part of the id, so that every program of a trace draws the same. */
  #isSampledByRatio(traceId: string): boolean {
    return Number.parseInt(traceId.slice(-12), 16) >= (1 - this.sampling.ratio) * 2 ** 48;
  }
}

export class RequestTrace {
  readonly #beganAt = performance.timeOrigin + performance.now();
  #destination: Destination = { kind: "refused" };
  #status: number | undefined;
  #isOver = false;

  constructor(
    private readonly request: TracedRequest,
    /** Sent with the requests that follow from this one. */
    readonly context: TraceContext,
    private readonly parentSpanId: string | undefined,
    private readonly report: Report,
  ) {}

  setDestination(place: Destination): void {
    this.#destination = place;
  }

  setStatus(status: number): void {
    this.#status = status;
  }

  /** The response has ended, or broke off. */
  end(): void {
    if (this.#isOver || !this.context.isSampled) return;
    this.#isOver = true;
    const { traceId, spanId } = this.context;
    const method = METHODS.has(this.request.method) ? this.request.method : "_OTHER";
    this.report({
      traceId,
      spanId,
      parentSpanId: this.parentSpanId,
      name: `${method} ${this.#destination.kind}`,
      kind: "server",
      beganAt: this.#beganAt,
      wallMs: performance.timeOrigin + performance.now() - this.#beganAt,
      hasFailed: this.#status === undefined || this.#status >= FAILED_STATUS_MIN,
      attributes: this.#attributes(method),
    });
  }

  #attributes(method: string): Record<string, string | number> {
    const { target, sandboxId, port } = this.#destination;
    const path = target?.replace(/[?#].*$/, "").slice(0, PATH_MAX_CHARS);
    return {
      "http.request.method": method,
      "sandlot.request.id": masked(this.request.requestId),
      ...(this.#status !== undefined && { "http.response.status_code": this.#status }),
      ...(path !== undefined && { "url.path": masked(path) }),
      ...(sandboxId !== undefined && { "sandlot.sandbox.id": sandboxId }),
      ...(port !== undefined && { "server.port": port }),
    };
  }
}
