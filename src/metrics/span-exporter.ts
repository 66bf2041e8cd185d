/**
 * Sends spans to an OpenTelemetry collector: OTLP over HTTP, in JSON. Spans wait in a bounded queue, one batch is under
 * way at a time, and no request waits for it: when the collector is slow or gone, spans are dropped and counted.
 */
import { setTimeout as setTimer } from "node:timers/promises";
import { described, type Log } from "../base/log.ts";
import type { FinishedSpan } from "../base/spans.ts";
import { isSpanId, isTraceId } from "../contract/trace-context.ts";
import { type Resource, tracesJson } from "./otlp.ts";

/** Maximum spans in the queue: a few MiB. */
export const SPANS_WAITING_MAX = 4_096;
/** Maximum spans of one request to the collector; writing them as JSON blocks the server for about a millisecond. */
const SPANS_AT_ONCE_MAX = 256;
const EXPORT_EVERY_MS = 1_000;
/** Attempts per batch while the collector is unreachable or busy, with growing pauses. */
const ATTEMPTS_MAX = 5;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 10_000;
/** How long the last spans may take when the server stops. */
const FLUSH_MS = 2_000;
const NAME_MAX_CHARS = 128;
const TEXT_MAX_CHARS = 512;
const ATTRIBUTES_MAX = 16;
/** The collector asks for another attempt (OTLP). */
const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export interface ExportOptions {
  url: string;
  headers: Readonly<Record<string, string>>;
  timeoutMs: number;
  resource: Resource;
}

export type SpanOutcome = "exported" | "dropped" | "failed";

interface ExportServices {
  log: Log;
  /** Pauses between batches and attempts; timers by default. */
  pause?: typeof setTimer;
}

export class SpanExporter {
  #waiting: FinishedSpan[] = [];
  #sending: Promise<void> | undefined;
  #hasFailed = false;
  /** Ends the pauses, so that the last spans are sent. */
  readonly #flushing = new AbortController();
  readonly #stopping = new AbortController();
  /** Counts spans: `dropped` because the queue was full, `failed` because the collector did not take them. */
  onOutcome: (outcome: SpanOutcome, spans: number) => void = () => undefined;

  constructor(
    private readonly options: ExportOptions,
    private readonly services: ExportServices,
  ) {}

  add(span: FinishedSpan): void {
    if (this.#waiting.length >= SPANS_WAITING_MAX || this.#stopping.signal.aborted) {
      this.onOutcome("dropped", 1);
      return;
    }
    this.#waiting.push(span);
    this.#sending ??= this.#sendAll();
  }

  /** Spans of a process that handles hostile bytes: malformed ones count as dropped. */
  addUntrusted({ spans, dropped }: { spans: readonly FinishedSpan[]; dropped: number }): void {
    if (Number.isSafeInteger(dropped) && dropped > 0) this.onOutcome("dropped", dropped);
    for (const span of spans) {
      const valid = bounded(span);
      if (valid === undefined) this.onOutcome("dropped", 1);
      else this.add(valid);
    }
  }

  /** Sends the queued spans, for at most FLUSH_MS. */
  async stop(): Promise<void> {
    this.#flushing.abort();
    const cutting = setTimeout(() => this.#stopping.abort(), FLUSH_MS);
    await this.#sending;
    clearTimeout(cutting);
    this.#stopping.abort();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#pause(EXPORT_EVERY_MS);
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.splice(0, SPANS_AT_ONCE_MAX);
        this.onOutcome((await this.#deliver(batch)) ? "exported" : "failed", batch.length);
      }
    }
    this.#sending = undefined;
  }

  async #deliver(batch: readonly FinishedSpan[]): Promise<boolean> {
    const body = tracesJson(batch, this.options.resource);
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#post(body);
      if (failure === undefined) {
        this.#hasFailed = false;
        return true;
      }
      this.#logFailure(failure.reason);
      if (!failure.isRetried || attempt >= ATTEMPTS_MAX || this.#stopping.signal.aborted) return false;
      await this.#pause(Math.min(RETRY_MS * 2 ** (attempt - 1), RETRY_MAX_MS));
    }
  }

  /** Undefined: the collector has them. */
  async #post(body: string): Promise<{ reason: string; isRetried: boolean } | undefined> {
    const { url, headers, timeoutMs } = this.options;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "Content-Type": "application/json" },
        body,
        redirect: "manual",
        signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#stopping.signal]),
      });
      await response.body?.cancel();
      if (response.ok) return undefined;
      return { reason: `the collector answered ${response.status}`, isRetried: RETRIED_STATUSES.has(response.status) };
    } catch (error) {
      return { reason: described(error), isRetried: true };
    }
  }

  /** One line for a series of failures. */
  #logFailure(error: string): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const collector = new URL(this.options.url).origin;
    this.services.log.write({ level: "warn", event: "traces cannot be exported", collector, error });
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#flushing;
    await (this.services.pause ?? setTimer)(ms, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** Undefined: it is malformed. */
function bounded(span: FinishedSpan): FinishedSpan | undefined {
  const { traceId, spanId, parentSpanId, name, kind, beganAt, wallMs, hasFailed, attributes } = span;
  const isValid =
    isTraceId(traceId) &&
    isSpanId(spanId) &&
    (parentSpanId === undefined || isSpanId(parentSpanId)) &&
    typeof name === "string" &&
    beganAt >= 0 &&
    beganAt < Number.MAX_SAFE_INTEGER / 1000 &&
    wallMs >= 0 &&
    wallMs < Number.MAX_SAFE_INTEGER / 2000;
  if (!isValid) return undefined;
  const kept = Object.entries(attributes ?? {}).slice(0, ATTRIBUTES_MAX);
  return {
    traceId,
    spanId,
    parentSpanId,
    name: name.slice(0, NAME_MAX_CHARS),
    kind: kind === "server" ? "server" : "internal",
    beganAt,
    wallMs,
    hasFailed: hasFailed === true,
    attributes: Object.fromEntries(
      kept.map(([key, value]) => [
        key.slice(0, NAME_MAX_CHARS),
        Number.isSafeInteger(value) ? value : String(value).slice(0, TEXT_MAX_CHARS),
      ]),
    ),
  };
}
