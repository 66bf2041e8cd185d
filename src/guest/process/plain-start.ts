/**
 * Answers a plain Start as the library would, byte by byte: the same events from the same listener.
 */
import { answerStream } from "../rpc/answer-stream.ts";
import { endOfStream, envelope } from "../rpc/envelopes.ts";
import { keepaliveMs } from "../rpc/keepalive.ts";
import { Shortcut } from "../rpc/shortcut.ts";
import { failedEnd } from "../rpc/wire-error.ts";
import { noteGarbage } from "../system/garbage.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account } from "../users/accounts.ts";
import { passOutputBy } from "./passing-output.ts";
import { isPlainHead, PLAIN_TYPE, plainCall, plainTimeoutMs } from "./plain-call.ts";
import type { StartProcess } from "./starting.ts";
import type { ProcessEventInit, Subscription } from "./subscription.ts";

const HEADERS = { "Content-Type": PLAIN_TYPE };
const KEEPALIVE = envelope('{"event":{"keepalive":{}}}');
const END = endOfStream("{}");

export class PlainStarts {
  readonly #start: StartProcess;

  constructor(start: StartProcess) {
    this.#start = start;
  }

  /** The answer; or the request, as it came, for the library. */
  async answer(request: Request, user: () => Account): Promise<Response | Request> {
    if (!isPlainHead(request)) return request;
    const body = await request.bytes();
    noteGarbage(body.length);
    const call = plainCall(body);
    const { headers, signal } = request;
    if (call === undefined || signal.aborted) {
      // Only the path of its address is looked at, and not here.
      return new Request("http://guest/", { method: "POST", headers, body, signal });
    }
    const timeoutMs = plainTimeoutMs(headers);
    const listening = new Listening(timeoutMs);
    try {
      const { pid, subscription } = this.#start(call, user(), timeoutMs);
      listening.begin(subscription, signal);
      const stream = this.#narrate(pid, subscription, listening, keepaliveMs(headers));
      return new Response(stream, { headers: HEADERS });
    } catch (thrown) {
      listening.end();
      return new Response(failedEnd(thrown), { headers: HEADERS });
    }
  }

  #narrate(pid: number, subscription: Subscription, listening: Listening, quietMs: number): ReadableStream<Uint8Array> {
    const shortcut = new Shortcut();
    passOutputBy(subscription, shortcut);
    const others = shortcut.joined(this.#news(subscription, listening, quietMs));
    let hasBegun = false;
    const next = () => {
      if (hasBegun) return others();
      hasBegun = true;
      return envelope(`{"event":{"start":{"pid":${pid}}}}`);
    };
    return answerStream(next, () => {
      shortcut.close();
      listening.end();
    });
  }

  /** All but the start and output. */
  async *#news(subscription: Subscription, listening: Listening, quietMs: number): AsyncGenerator<Uint8Array> {
    let last: Uint8Array = END;
    try {
      for (;;) {
        const next = await subscription.take(quietMs);
        if (next === "closed") break;
        if (next !== "idle") {
          last = Buffer.concat([envelope(`{"event":${eventJson(next)}}`), END]);
          break;
        }
        yield KEEPALIVE;
      }
      listening.demandTime();
    } catch (thrown) {
      last = failedEnd(thrown);
    }
    listening.end();
    yield last;
  }
}

/** The fields of an end in their order, without those that have their usual value: as the library writes them. */
function eventJson({ event }: ProcessEventInit): string {
  if (event?.case !== "end") throw refuse("internal", `an event of the kind ${event?.case} came where only an end can`);
  const { exitCode, exited, status, error } = event.value;
  return JSON.stringify({ end: { exitCode: exitCode || undefined, exited: exited || undefined, status, error } });
}

/** How long a client listens: until its time is over, or it has gone. */
class Listening {
  #subscription: Subscription | undefined;
  #signal: AbortSignal | undefined;
  #isLate = false;
  readonly #timer: Timer | undefined;
  readonly #hangUp = () => this.#subscription?.close();

  /** Counted from before the start: the process ends by the same limit, and the client is told first. */
  constructor(timeoutMs: number | undefined) {
    if (timeoutMs === undefined) return;
    this.#timer = setTimeout(() => {
      this.#isLate = true;
      this.#hangUp();
    }, timeoutMs);
  }

  begin(subscription: Subscription, signal: AbortSignal): void {
    this.#subscription = subscription;
    this.#signal = signal;
    signal.addEventListener("abort", this.#hangUp);
    if (signal.aborted) this.#hangUp();
  }

  demandTime(): void {
    if (this.#isLate) throw refuse("deadline_exceeded", "the operation timed out");
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#hangUp);
    this.#hangUp();
  }
}
