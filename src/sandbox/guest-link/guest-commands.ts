/**
 * Runs programs and writes files in a sandbox from the host, through the services that its guest offers to clients,
 * with a token that only the host knows. Root in the sandbox can replace the guest: messages, waits and responses are
 * bounded, and nothing outside the sandbox relies on them.
 */
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { overloaded } from "../../system/overload.ts";
import { GUEST_ANSWER_MAX_BYTES, GUEST_CALL_MS } from "../limits.ts";
import { envelope, messagesOf } from "./connect-stream.ts";
import { boundedText, fetchGuest, isTimeout, jsonObject } from "./guest-request.ts";

/** The guest sends a keepalive for a running command this often, and the host gives up after this long without one. */
const GUEST_KEEPALIVE_SECONDS = 10;
const GUEST_SILENT_MAX_MS = scaled(90_000);

interface GuestCommand {
  argv: readonly [program: string, ...args: string[]];
  user: string;
  /** An absolute path; empty for the sandbox's default folder. */
  cwd: string;
  envVars: Record<string, string>;
}

interface CommandEnd {
  exitCode: number;
  /** Such as `signal: killed`; empty if the command exited by itself. */
  signal: string;
}

/** Gets each piece of output before the next is read: while it waits, backpressure holds the command. */
type OutputSink = (chunk: Uint8Array, from: "stdout" | "stderr") => Promise<void> | void;

/** Status for a failure of the command itself: the program or the working folder is missing. */
const REFUSED = 422;

export class GuestCommands {
  constructor(
    readonly address: string,
    readonly token: string,
    readonly port = RUNTIME_PORT,
  ) {}

  /**
   * Runs a command to its end. Aborting leaves the command running; end the sandbox to stop it. Throws Fault 422 when
   * the command cannot be started, 502 when the response is not a guest's.
   */
  async run(command: GuestCommand, onOutput: OutputSink, signal: AbortSignal): Promise<CommandEnd> {
    return await (await this.start(command, onOutput, signal)).ended;
  }

  /** Resolves when the process has started; `ended` resolves when it ends. */
  async start(
    command: GuestCommand,
    onOutput: OutputSink,
    signal: AbortSignal,
  ): Promise<{ pid: number; ended: Promise<CommandEnd> }> {
    const [cmd, ...args] = command.argv;
    const { cwd, envVars: envs } = command;
    const silence = new Silence(GUEST_SILENT_MAX_MS, signal);
    const response = await this.#fetch("/process.Process/Start", command.user, silence.signal, {
      headers: {
        "content-type": "application/connect+json",
        "keepalive-ping-interval": String(GUEST_KEEPALIVE_SECONDS),
      },
      body: envelope({ process: { cmd, args, envs, ...(cwd === "" ? {} : { cwd }) }, stdin: false }),
    });
    if (response.status !== 200 || response.body === null) {
      throw await refusal(response).finally(() => silence.end());
    }
    const events = eventsOf(messagesOf(silence.readTimed(response.body)));
    try {
      const first = await events.next();
      if (first.done || first.value.kind !== "start") throw new Fault(502, "the sandbox's runtime started nothing");
      return { pid: first.value.pid, ended: follow(events, onOutput, silence) };
    } catch (cause) {
      silence.end();
      throw cause;
    }
  }

  /** Writes a file owned by `user`. Missing folders are created. */
  async upload(path: string, user: string, content: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
    const query = new URLSearchParams({ path, username: user });
    const response = await this.#fetch(`/files?${query}`, user, signal, {
      headers: { "content-type": "application/octet-stream" },
      body: content,
    });
    if (response.status !== 200) throw await refusal(response);
    await response.body?.cancel();
  }

  /** Makes a folder and its missing parents for this user; true if it did not exist. */
  async makeFolder(path: string, user: string, signal: AbortSignal): Promise<boolean> {
    const response = await this.#call("MakeDir", { path }, user, signal);
    if (response.status === 409) return false;
    if (response.status !== 200) throw await refusal(response);
    return true;
  }

  async exists(path: string, signal: AbortSignal): Promise<boolean> {
    const response = await this.#call("Stat", { path }, "root", signal);
    if (response.status === 404) return false;
    if (response.status !== 200) throw await refusal(response);
    return true;
  }

  /** Reads a file of at most `maxBytes`; a longer one is an error. */
  async readText(path: string, maxBytes: number, signal: AbortSignal): Promise<string> {
    const over = AbortSignal.any([signal, AbortSignal.timeout(GUEST_CALL_MS)]);
    return await boundedText(new Response(await this.download(path, over)), maxBytes);
  }

  async download(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const query = new URLSearchParams({ path, username: "root" });
    const response = await this.#fetch(`/files?${query}`, "root", signal, { method: "GET", headers: {} });
    if (response.status !== 200 || response.body === null) throw await refusal(response);
    return response.body;
  }

  async #call(method: string, message: object, user: string, signal: AbortSignal): Promise<Response> {
    const over = AbortSignal.any([signal, AbortSignal.timeout(GUEST_CALL_MS)]);
    const response = await this.#fetch(`/filesystem.Filesystem/${method}`, user, over, {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(message),
    });
    if (response.status === 200) await response.body?.cancel();
    return response;
  }

  async #fetch(
    path: string,
    user: string,
    signal: AbortSignal,
    { headers, ...request }: { method?: "GET"; headers: Record<string, string>; body?: BodyInit },
  ): Promise<Response> {
    signal.throwIfAborted();
    try {
      return await fetchGuest(this, path, {
        method: "POST",
        headers: {
          ...headers,
          "x-access-token": this.token,
          authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}`,
        },
        ...request,
        signal,
      });
    } catch (cause) {
      if (isTimeout(signal.reason)) throw overloaded(`the guest did not answer within ${GUEST_CALL_MS} ms`, cause);
      signal.throwIfAborted();
      throw new Fault(502, "the sandbox's runtime did not answer", { cause });
    }
  }
}

/** Closes the stream of a guest that sends nothing for too long; a working guest sends keepalives. */
class Silence {
  /** Aborted on silence, and when the reader has stopped. */
  readonly signal: AbortSignal;
  readonly #over = new AbortController();
  #timer: Timer | undefined;

  constructor(
    private readonly maxMs: number,
    enough: AbortSignal,
  ) {
    this.signal = AbortSignal.any([enough, this.#over.signal]);
    this.#wait();
  }

  async *readTimed(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((cause) => this.#brokenOff(cause));
        if (done) return;
        // The timer stops while the caller handles the value.
        clearTimeout(this.#timer);
        yield value;
        this.#wait();
      }
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#over.abort();
  }

  #brokenOff(cause: unknown): never {
    this.signal.throwIfAborted();
    throw new Fault(502, "the sandbox ended, or its runtime hung up, while a command ran", { cause });
  }

  #wait(): void {
    clearTimeout(this.#timer);
    const fault = new Fault(502, `the sandbox's runtime sent nothing for ${this.maxMs / 1000} s`);
    this.#timer = setTimeout(() => this.#over.abort(fault), this.maxMs);
    this.#timer.unref();
  }
}

type ProcessEvent =
  | { kind: "start"; pid: number }
  | { kind: "output"; bytes: Buffer; from: "stdout" | "stderr" }
  | ({ kind: "end" } & CommandEnd);

async function follow(
  events: AsyncGenerator<ProcessEvent>,
  onOutput: OutputSink,
  silence: Silence,
): Promise<CommandEnd> {
  try {
    for await (const event of events) {
      if (event.kind === "output") await onOutput(event.bytes, event.from);
      else if (event.kind === "end") return { exitCode: event.exitCode, signal: event.signal };
    }
    throw new Fault(502, "the sandbox's runtime did not report the end of the command");
  } finally {
    silence.end();
  }
}

/** Skips messages that are not events, such as keepalives. */
async function* eventsOf(messages: AsyncIterable<Record<string, unknown>>): AsyncGenerator<ProcessEvent> {
  for await (const message of messages) {
    const event = objectIn(message, "event");
    const start = objectIn(event, "start");
    const data = objectIn(event, "data");
    const end = objectIn(event, "end");
    if (start !== undefined) yield { kind: "start", pid: wholeNumber(start.pid) };
    for (const from of ["stdout", "stderr"] as const) {
      const bytes = data?.[from];
      if (typeof bytes === "string") yield { kind: "output", bytes: Buffer.from(bytes, "base64"), from };
    }
    if (end !== undefined) yield { kind: "end", exitCode: wholeNumber(end.exitCode), signal: signalOf(end) };
  }
}

function objectIn(holder: Record<string, unknown> | undefined, name: string): Record<string, unknown> | undefined {
  const value = holder?.[name];
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}

/** A missing field is 0. */
function wholeNumber(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) ? value : 0;
}

function signalOf({ exited, status }: Record<string, unknown>): string {
  return exited !== true && typeof status === "string" ? status.slice(0, GUEST_ANSWER_MAX_BYTES) : "";
}

/** The error of a rejected call, with the guest's own message if there is one. */
async function refusal(response: Response): Promise<Fault> {
  const text = await boundedText(response).catch(() => "");
  const message = String(jsonObject(text)?.message ?? "");
  const words = message === "" ? `the sandbox's runtime answered with status ${response.status}` : message;
  return new Fault(response.status >= 500 ? 502 : REFUSED, words);
}
