/**
 * Runs programs and writes files in a sandbox from the host, through the services that its guest has for clients, with
 * a token that only the host knows. What comes back is the word of a guest that root in the sandbox may have replaced:
 * messages, waits and answers are bounded, and nothing of it is trusted beyond the sandbox itself.
 */

import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { overloaded } from "../../system/overload.ts";
import { GUEST_ANSWER_MAX_BYTES, GUEST_CALL_MS } from "../limits.ts";
import { envelope, messagesOf } from "./connect-stream.ts";
import { boundedText, isTimeout } from "./guest-client.ts";

/** A guest says at least so often that a command runs on, and is given up when it says nothing for so long. */
const GUEST_KEEPALIVE_SECONDS = 10;
const GUEST_SILENT_MAX_MS = scaled(90_000);

interface GuestCommand {
  argv: readonly [program: string, ...args: string[]];
  user: string;
  /** An absolute path; empty is the default one of the sandbox. */
  cwd: string;
  envVars: Record<string, string>;
}

interface CommandEnd {
  exitCode: number;
  /** Such as `signal: killed`; empty if it ended by itself. */
  signal: string;
}

/** Sees each piece of output before the next is read: as long as it waits, the command is held back. */
type OutputSink = (chunk: Uint8Array, from: "stdout" | "stderr") => Promise<void> | void;

/** A failure of the command that is no failure of the sandbox: the program is missing, or the folder to run it in. */
const REFUSED = 422;

export class GuestCommands {
  constructor(
    readonly address: string,
    readonly token: string,
    readonly port = RUNTIME_PORT,
  ) {}

  /**
   * Runs a command to its end. Aborting leaves it to itself: who wants it gone ends the sandbox. Fault 422 when it
   * cannot be started, 502 when the guest does not answer as a guest does.
   */
  async run(command: GuestCommand, onOutput: OutputSink, signal: AbortSignal): Promise<CommandEnd> {
    return await (await this.start(command, onOutput, signal)).ended;
  }

  /** Resolves when the process is there; `ended` follows it. */
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
    const events = eventsOf(messagesOf(silence.heard(response.body)));
    try {
      const first = await events.next();
      if (first.done || first.value.kind !== "start") throw new Fault(502, "the sandbox's runtime started nothing");
      return { pid: first.value.pid, ended: follow(events, onOutput, silence) };
    } catch (cause) {
      silence.end();
      throw cause;
    }
  }

  /** Writes a file, whose owner becomes `user`. Folders on the way are made. */
  async upload(path: string, user: string, content: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
    const query = new URLSearchParams({ path, username: user });
    const response = await this.#fetch(`/files?${query}`, user, signal, {
      headers: { "content-type": "application/octet-stream" },
      body: content,
    });
    if (response.status !== 200) throw await refusal(response);
    await response.body?.cancel();
  }

  /** Makes a folder, and those on the way to it, for this user; true if it was not there. */
  async makeFolder(path: string, user: string, signal: AbortSignal): Promise<boolean> {
    const response = await this.#call("MakeDir", { path }, user, signal);
    if (response.status === 409) return false;
    if (response.status !== 200) throw await refusal(response);
    return true;
  }

  /** Whether there is something at this path. */
  async exists(path: string, signal: AbortSignal): Promise<boolean> {
    const response = await this.#call("Stat", { path }, "root", signal);
    if (response.status === 404) return false;
    if (response.status !== 200) throw await refusal(response);
    return true;
  }

  /** A file of at most `maxBytes`; what is longer is refused. */
  async readText(path: string, maxBytes: number, signal: AbortSignal): Promise<string> {
    const over = AbortSignal.any([signal, AbortSignal.timeout(GUEST_CALL_MS)]);
    const query = new URLSearchParams({ path, username: "root" });
    const response = await this.#fetch(`/files?${query}`, "root", over, { method: "GET", headers: {} });
    if (response.status !== 200) throw await refusal(response);
    return await boundedText(response, maxBytes);
  }

  /** A file of any size. */
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
      return await fetch(`http://${this.address}:${this.port}${path}`, {
        method: "POST",
        headers: {
          ...headers,
          "x-access-token": this.token,
          authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}`,
        },
        ...request,
        redirect: "manual",
        decompress: false,
        // Addresses are used again by other sandboxes: a kept connection could reach the wrong one.
        keepalive: false,
        signal,
      });
    } catch (cause) {
      if (isTimeout(signal.reason)) throw overloaded(`the guest did not answer within ${GUEST_CALL_MS} ms`, cause);
      signal.throwIfAborted();
      throw new Fault(502, "the sandbox's runtime did not answer", { cause });
    }
  }
}

/** Hangs up on a guest that says nothing for too long; an honest one says at least that it is still there. */
class Silence {
  /** Also when whoever listens has heard enough. */
  readonly signal: AbortSignal;
  readonly #over = new AbortController();
  readonly #maxMs: number;
  #timer: Timer | undefined;

  constructor(maxMs: number, enough: AbortSignal) {
    this.#maxMs = maxMs;
    this.signal = AbortSignal.any([enough, this.#over.signal]);
    this.#wait();
  }

  async *heard(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((cause) => this.#brokenOff(cause));
        if (done) return;
        // What is done with it takes its own time.
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
    const said = new Fault(502, `the sandbox's runtime said nothing for ${this.#maxMs / 1000} s`);
    this.#timer = setTimeout(() => this.#over.abort(said), this.#maxMs);
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

/** What is none of them, such as a sign of life, is passed over. */
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

/** A field that is left out is 0. */
function wholeNumber(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) ? value : 0;
}

function signalOf({ exited, status }: Record<string, unknown>): string {
  return exited !== true && typeof status === "string" ? status.slice(0, GUEST_ANSWER_MAX_BYTES) : "";
}

/** What the guest says to a call that it refuses, in its own words if there are some. */
async function refusal(response: Response): Promise<Fault> {
  const text = await boundedText(response).catch(() => "");
  let message = "";
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && "message" in body) message = String(body.message);
  } catch {
    // Then its status says all there is.
  }
  const words = message === "" ? `the sandbox's runtime answered with status ${response.status}` : message;
  return new Fault(response.status >= 500 ? 502 : REFUSED, words);
}
