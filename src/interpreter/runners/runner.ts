/**
 * A runner: Sandlot's program that executes code of one language. Requests go to its file descriptor 3. It writes
 * messages to its stdout (see `frames.ts`), so that they keep their order with what it and its child processes print.
 * It reports the end of a request on stdout and on stderr, which shows that both have been read up to there.
 */
import { closeSync } from "node:fs";
import { openPipe } from "../../base/c-library.ts";
import { kernelUuid } from "../../base/kernel-random.ts";
import { Fault } from "../../contract/fault.ts";
import { KernelEnded } from "../kernel.ts";
import { KERNEL_VARIABLES, preferForOom, signalGroup } from "../kernel-process.ts";
import { Frames } from "./frames.ts";
import type { TextPieces } from "./text.ts";

/** Node takes a tenth of a second to start, a JVM one, or a minute when many start at once on a busy host. */
const RUNNER_START_MS = 90_000;
/** Time to read the rest of stderr after a cell. */
const RUNNER_REST_MS = 10_000;
/** Time to read the pipes of an ended runner; its child processes may hold them open forever. */
export const RUNNER_FINAL_OUTPUT_MS = 2_000;
/** Length of the kept output of a runner that does not start. */
const START_LOG_MAX_CHARS = 4_000;

interface RunnerProgram {
  argv: readonly string[];
  /** Splits the text that is printed without the runner's help. */
  pieces: (onText: (text: string) => void) => TextPieces;
}

/** A message of a runner. The last one about a request has the request's number in `done`. */
export type RunnerMessage = Readonly<Record<string, unknown>> & { done?: number };

export interface RunnerListener {
  text(stream: "stdout" | "stderr", text: string): void;
  message(message: RunnerMessage): void;
}

interface Ends {
  requests: number;
  stdout: number;
  stderr: number;
}

interface Request {
  number: number;
  listener: RunnerListener;
  /** Streams on which the request has not ended yet. */
  open: Set<"stdout" | "stderr">;
  last: RunnerMessage;
  resolve(last: RunnerMessage): void;
  reject(reason: unknown): void;
  timer?: ReturnType<typeof setTimeout>;
}

export class Runner {
  readonly pid: number;
  readonly ended: Promise<void>;
  readonly #requests: Bun.FileSink;
  readonly #readers: ReadableStreamDefaultReader<Uint8Array>[] = [];
  readonly #streamsEnded: Promise<unknown>;
  #number = 0;
  #running: Request | undefined;
  #hasEnded = false;

  private constructor(
    child: Bun.Subprocess,
    token: string,
    program: RunnerProgram,
    private readonly ends: Ends,
  ) {
    this.pid = child.pid;
    this.#requests = Bun.file(ends.requests).writer();
    this.#streamsEnded = Promise.all([
      this.#listen("stdout", ends.stdout, token, program),
      this.#listen("stderr", ends.stderr, token, program),
    ]);
    this.ended = child.exited.then(() => {
      this.#hasEnded = true;
      void this.#afterEnd();
    });
  }

  /** Resolves when the program is ready. Its process leads a session and ends with the server. */
  static async start(program: RunnerProgram, folder: string): Promise<Runner> {
    const token = kernelUuid();
    const [requests, stdout, stderr] = [openPipe(), openPipe(), openPipe()];
    const ends = { requests: requests.writeEnd, stdout: stdout.readEnd, stderr: stderr.readEnd };
    let child: Bun.Subprocess;
    try {
      child = Bun.spawn(["setpriv", "--pdeathsig", "KILL", ...program.argv], {
        cwd: folder,
        env: KERNEL_VARIABLES,
        detached: true,
        stdio: ["ignore", stdout.writeEnd, stderr.writeEnd, requests.readEnd],
      });
    } catch (thrown) {
      for (const fd of Object.values(ends)) closeSync(fd);
      throw new Fault(500, `no kernel can be started in ${JSON.stringify(folder)}: is it a folder?`, { cause: thrown });
    } finally {
      for (const fd of [requests.readEnd, stdout.writeEnd, stderr.writeEnd]) closeSync(fd);
    }
    preferForOom(child.pid);
    const runner = new Runner(child, token, program, ends);
    await runner.#ready(token, program, folder);
    return runner;
  }

  /** One at a time. Resolves with the last message, after all output; rejects with `KernelEnded`. */
  ask(body: (number: number) => string, listener: RunnerListener, timeoutMs?: number): Promise<RunnerMessage> {
    if (this.#hasEnded) return Promise.reject(new KernelEnded("the kernel's process has ended"));
    if (this.#running !== undefined) return Promise.reject(new Fault(500, "the kernel is busy with another request"));
    const number = this.#number++;
    return new Promise((resolve, reject) => {
      this.#running = { number, listener: listener, open: new Set(["stdout", "stderr"]), last: {}, resolve, reject };
      if (timeoutMs !== undefined) {
        this.#running.timer = setTimeout(() => {
          this.#settle()?.reject(
            new Fault(500, `the kernel did not do its duty within ${timeoutMs / 1000} s; restart it`),
          );
        }, timeoutMs);
      }
      void this.#write(body(number));
    });
  }

  /** Sends a message without a reply, also during a request. */
  send(message: string): void {
    if (!this.#hasEnded) void this.#write(message);
  }

  signal(name: "SIGINT" | "SIGKILL"): void {
    signalGroup(this.pid, name);
  }

  async #write(request: string): Promise<void> {
    try {
      await this.#requests.write(request);
      await this.#requests.flush();
    } catch {
      // The runner has ended; its exit event follows.
    }
  }

  async #ready(token: string, program: RunnerProgram, folder: string): Promise<void> {
    let log = "";
    const listener: RunnerListener = {
      text: (_stream, text) => {
        log = (log + text).slice(-START_LOG_MAX_CHARS);
      },
      message: () => undefined,
    };
    try {
      await this.ask(() => `${token}\n`, listener, RUNNER_START_MS);
    } catch (thrown) {
      this.signal("SIGKILL");
      const output = log === "" ? "It said nothing" : `It said: ${log.trim()}`;
      throw new Fault(500, `the kernel ${program.argv[0]} did not start in ${JSON.stringify(folder)}. ${output}`, {
        cause: thrown,
      });
    }
  }

  async #listen(stream: "stdout" | "stderr", fd: number, token: string, program: RunnerProgram): Promise<void> {
    // Output without a running request is discarded, but read, otherwise its writer would block forever.
    const pieces = program.pieces((text) => this.#running?.listener.text(stream, text));
    const frames = new Frames(
      token,
      (bytes) => pieces.take(bytes),
      (json) => {
        pieces.flush();
        const message = messageOf(json);
        if (message !== undefined) this.#onMessage(stream, message);
      },
    );
    const reader = Bun.file(fd).stream().getReader();
    this.#readers.push(reader);
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      if (value !== undefined) frames.take(value);
    }
    frames.end();
    pieces.flush();
  }

  #onMessage(stream: "stdout" | "stderr", message: RunnerMessage): void {
    const running = this.#running;
    if (running === undefined) return;
    if (message.done === undefined) {
      running.listener.message(message);
      return;
    }
    if (message.done !== running.number) return;
    running.open.delete(stream);
    if (stream === "stdout") running.last = message;
    if (running.open.size === 0) this.#settle()?.resolve(running.last);
    else if (stream === "stdout") {
      // End the request even if the cell has closed its stderr.
      clearTimeout(running.timer);
      running.timer = setTimeout(() => this.#settle()?.resolve(running.last), RUNNER_REST_MS);
    }
  }

  #settle(): Request | undefined {
    const running = this.#running;
    this.#running = undefined;
    clearTimeout(running?.timer);
    return running;
  }

  async #afterEnd(): Promise<void> {
    await Promise.race([this.#streamsEnded, Bun.sleep(RUNNER_FINAL_OUTPUT_MS)]);
    this.#settle()?.reject(new KernelEnded("the kernel's process has ended"));
    await Promise.allSettled([this.#requests.end(), ...this.#readers.map((reader) => reader.cancel())]);
    for (const fd of Object.values(this.ends)) closeSync(fd);
  }
}

/** Undefined: not a runner's message; any program in the sandbox may have written it. */
function messageOf(json: string): RunnerMessage | undefined {
  try {
    const message: unknown = JSON.parse(json);
    return typeof message === "object" && message !== null ? (message as RunnerMessage) : undefined;
  } catch {
    return undefined;
  }
}
