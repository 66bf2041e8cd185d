/**
 * Records where work spends its time: nested steps, each with its wall time and processor time. Steps of a request
 * whose trace is recorded are spans of it. Recording is off by default; a step then costs one comparison.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { TraceContext } from "../contract/trace-context.ts";
import { currentRequest } from "./current-request.ts";
import { type FinishedSpan, newSpanId, type SpanIds } from "./spans.ts";
import { type CallNames, wrapCalls } from "./wrapped-calls.ts";

/** Milliseconds of processor time, by consumer. */
export type Uses = Readonly<Record<string, number>>;

export interface Step {
  /** Rises within a recording; a step has a higher number than the one around it. */
  number: number;
  /** The enclosing step. */
  within: number | null;
  name: string;
  /** Start in milliseconds since 1970. */
  beganAt: number;
  wallMs: number;
  uses: Uses;
  failed?: true;
  /** Present if the step is part of a trace. */
  span?: SpanIds;
}

interface Recording {
  /** Counters that only rise. Absent: only steps of traces are recorded, without their use. */
  read?(): Uses;
  /** Called at the beginning of each step. */
  began?(number: number, name: string): void;
  write(step: Step): void;
}

interface OpenStep {
  number: number;
  within: OpenStep | undefined;
  span: SpanIds | undefined;
  /** Use that the counters do not show, including that of inner steps. */
  noted: Map<string, number>;
}

const around = new AsyncLocalStorage<OpenStep>();
let recording: Recording | undefined;
let last = 0;

/** Starts recording; undefined: stops it. */
export function recordSteps(wanted: Recording | undefined): void {
  recording = wanted;
}

/** Runs the work as a step that ends when its result is there. */
export function step<T>(name: string, work: () => T): T {
  if (recording === undefined) return work();
  const span = spanOf(currentRequest()?.trace);
  if (!isWanted(recording, span)) return work();
  const { open, end } = begin(recording, name, span);
  return around.run(open, () => {
    let result: T;
    try {
      result = work();
    } catch (thrown) {
      end(true);
      throw thrown;
    }
    if (!(result instanceof Promise)) {
      end();
      return result;
    }
    return result.then(
      (value) => {
        end();
        return value;
      },
      (thrown: unknown) => {
        end(true);
        throw thrown;
      },
    ) as T;
  });
}

/** A step of another process, with the values that the process measured. */
type Elsewhere = Pick<Step, "beganAt" | "wallMs" | "uses">;

/** For a step that is not one call: it ends when the returned function is called. */
export function beginStep(name: string, trace?: TraceContext): (elsewhere?: Elsewhere) => void {
  if (recording === undefined) return nothing;
  const span = spanOf(trace ?? currentRequest()?.trace);
  if (!isWanted(recording, span)) return nothing;
  const { end } = begin(recording, name, span);
  return (elsewhere) => end(false, elsewhere);
}

/** Adds use to the current step that the counters do not show. */
export function noteUse(consumer: string, ms: number): void {
  if (recording?.read === undefined) return;
  // Added to all enclosing steps, even finished ones.
  for (let open = around.getStore(); open !== undefined; open = open.within) {
    open.noted.set(consumer, (open.noted.get(consumer) ?? 0) + ms);
  }
}

/** True: the use of each step is recorded, so collecting it is worthwhile. */
export function recordsUsage(): boolean {
  return recording?.read !== undefined;
}

/** True: steps become spans of traces, or are recorded otherwise. */
export function recordsAnySteps(): boolean {
  return recording !== undefined;
}

/** Undefined: the step is part of no trace. */
export function spanOfStep({ span, name, beganAt, wallMs, failed }: Step): FinishedSpan | undefined {
  if (span === undefined) return undefined;
  return { ...span, name, kind: "internal", beganAt, wallMs, hasFailed: failed === true, attributes: {} };
}

/** Turns calls of these methods into steps, for an object or the prototype of a class. */
export function recordCalls<T extends object>(subject: T, names: CallNames<T>): void {
  wrapCalls(subject, names, step);
}

function isWanted({ read }: Recording, span: SpanIds | undefined): boolean {
  return read !== undefined || span !== undefined;
}

/** Within the current step if that belongs to the same trace. */
function spanOf(trace: TraceContext | undefined): SpanIds | undefined {
  if (trace === undefined || !trace.isSampled) return undefined;
  const outer = around.getStore()?.span;
  const { traceId } = trace;
  return { traceId, spanId: newSpanId(), parentSpanId: outer?.traceId === traceId ? outer.spanId : trace.spanId };
}

function begin({ read = nothingUsed, began, write }: Recording, name: string, span: SpanIds | undefined) {
  const open: OpenStep = { number: ++last, within: around.getStore(), span, noted: new Map() };
  began?.(open.number, name);
  const beganAt = performance.timeOrigin + performance.now();
  const before = read();
  let isOver = false;
  const end = (failed = false, elsewhere?: Elsewhere) => {
    if (isOver) return;
    isOver = true;
    const after = read();
    const wallMs = performance.timeOrigin + performance.now() - beganAt;
    const counted = Object.entries(after).map(([who, ms]) => [who, ms - (before[who] ?? 0)]);
    const uses = Object.fromEntries([...counted, ...open.noted, ...Object.entries(elsewhere?.uses ?? {})]);
    const { number, within } = open;
    const times = { beganAt: elsewhere?.beganAt ?? beganAt, wallMs: elsewhere?.wallMs ?? wallMs };
    const step: Step = { number, within: within?.number ?? null, name, ...times, uses };
    if (failed) step.failed = true;
    if (span !== undefined) step.span = span;
    write(step);
  };
  return { open, end };
}

function nothingUsed(): Uses {
  return {};
}

function nothing(): void {
  // Not recording.
}
