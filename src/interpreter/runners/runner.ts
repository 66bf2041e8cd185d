/**
 * A program of ours that runs code of one language: its process, what it is asked and what comes back. Requests go to
 * its file descriptor 3. All else that it has to say goes into its standard output as messages (see `frames.ts`), so
 * that what it prints itself and what programs that it has started print keep their order. When it is done with a
 * request it says so there, and in its error output, too: then both have been read to this point.
 */
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { KernelEnded } from "../kernel.ts";
import { preferForOom } from "../kernel-process.ts";
import { Frames } from "./frames.ts";
import { openPipe } from "./pipe.ts";
import type { TextPieces } from "./text.ts";

/** Node takes a tenth of a second to start, a JVM one, and a minute where many start at once on a busy machine. */
const RUNNER_START_MS = 90_000;
/** After a cell is over: until what it wrote to its own error output has been read. */
const RUNNER_REST_MS = 10_000;
/** What a runner has ended with is in its pipes; what it has started may hold them open for ever. */
export const RUNNER_LAST_WORDS_MS = 2_000;
/** Of what a runner that does not start has said. */
const START_LOG_MAX_CHARS = 4_000;

interface RunnerProgram {
  argv: readonly string[];
  variables: Readonly<Record<string, string>>;
  /** How what is printed without the runner's help is cut. */
  pieces: (tell: (text: string) => void) => TextPieces;
}

/** What a runner says. Its last message on a request has the number of the request in `done`. */
export type RunnerMessage = Readonly<Record<string, unknown>> & { done?: number };

export interface RunnerEars {
  text(stream: "stdout" | "stderr", text: string): void;
  message(message: RunnerMessage): void;
}

/** Ours of its pipes. */
interface Ends {
  requests: number;
  stdout: number;
  stderr: number;
}

interface Request {
  number: number;
  ears: RunnerEars;
  /** Streams on which it is not over yet. */
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
  readonly #ends: Ends;
  readonly #readers: ReadableStreamDefaultReader<Uint8Array>[] = [];
  readonly #streamsEnded: Promise<unknown>;
  #number = 0;
  #running: Request | undefined;
  #hasEnded = false;

  private constructor(child: Bun.Subprocess, token: string, program: RunnerProgram, ends: Ends) {
    this.pid = child.pid;
    this.#ends = ends;
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

  /** Resolves when the program is ready. It is the first process of a session, and ends when the server does. */
  static async start(token: string, program: RunnerProgram, folder: string): Promise<Runner> {
    const [requests, stdout, stderr] = [openPipe(), openPipe(), openPipe()];
    const ends = { requests: requests.writeEnd, stdout: stdout.readEnd, stderr: stderr.readEnd };
    let child: Bun.Subprocess;
    try {
      child = Bun.spawn(["setpriv", "--pdeathsig", "KILL", ...program.argv], {
        cwd: folder,
        env: program.variables,
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

  /**
   * Asks it for something; one request at a time. Resolves with its last message on it, when all before that has been
   * told. Rejects with `KernelEnded` when its process ends before.
   */
  ask(body: (number: number) => string, ears: RunnerEars, timeoutMs?: number): Promise<RunnerMessage> {
    if (this.#hasEnded) return Promise.reject(new KernelEnded("the kernel's process has ended"));
    if (this.#running !== undefined) return Promise.reject(new Fault(500, "the kernel is busy with another request"));
    const number = this.#number++;
    return new Promise((resolve, reject) => {
      this.#running = { number, ears, open: new Set(["stdout", "stderr"]), last: {}, resolve, reject };
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

  /** What needs no answer, also while something else is asked for. */
  tell(message: string): void {
    if (!this.#hasEnded) void this.#write(message);
  }

  /** To it and what it has started, as far as that stayed in its process group. */
  signal(name: "SIGINT" | "SIGKILL"): void {
    try {
      process.kill(-this.pid, name);
    } catch {
      // All of them are gone.
    }
  }

  async #write(request: string): Promise<void> {
    try {
      await this.#requests.write(request);
      await this.#requests.flush();
    } catch {
      // One that does not read any more has ended, and says so.
    }
  }

  async #ready(token: string, program: RunnerProgram, folder: string): Promise<void> {
    let log = "";
    const ears: RunnerEars = {
      text: (_stream, text) => {
        log = (log + text).slice(-START_LOG_MAX_CHARS);
      },
      message: () => undefined,
    };
    try {
      await this.ask(() => `${token}\n`, ears, RUNNER_START_MS);
    } catch (thrown) {
      this.signal("SIGKILL");
      const said = log === "" ? "It said nothing" : `It said: ${log.trim()}`;
      throw new Fault(500, `the kernel ${program.argv[0]} did not start in ${JSON.stringify(folder)}. ${said}`, {
        cause: thrown,
      });
    }
  }

  async #listen(stream: "stdout" | "stderr", fd: number, token: string, program: RunnerProgram): Promise<void> {
    // What is printed while nothing runs has no reader; it is read all the same, or its writer would wait for ever.
    const pieces = program.pieces((text) => this.#running?.ears.text(stream, text));
    const frames = new Frames(
      token,
      (bytes) => pieces.take(bytes),
      (json) => {
        pieces.flush();
        const message = messageOf(json);
        if (message !== undefined) this.#hear(stream, message);
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

  #hear(stream: "stdout" | "stderr", message: RunnerMessage): void {
    const running = this.#running;
    if (running === undefined) return;
    if (message.done === undefined) {
      running.ears.message(message);
      return;
    }
    if (message.done !== running.number) return;
    running.open.delete(stream);
    if (stream === "stdout") running.last = message;
    if (running.open.size === 0) this.#settle()?.resolve(running.last);
    else if (stream === "stdout") {
      // A cell that has closed its own error output shall end all the same.
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
    await Promise.race([this.#streamsEnded, Bun.sleep(RUNNER_LAST_WORDS_MS)]);
    this.#settle()?.reject(new KernelEnded("the kernel's process has ended"));
    await Promise.allSettled([this.#requests.end(), ...this.#readers.map((reader) => reader.cancel())]);
    for (const fd of Object.values(this.#ends)) closeSync(fd);
  }
}

/** Undefined for what no runner has said: anybody in the sandbox may have written it. */
function messageOf(json: string): RunnerMessage | undefined {
  try {
    const message: unknown = JSON.parse(json);
    return typeof message === "object" && message !== null ? (message as RunnerMessage) : undefined;
  } catch {
    return undefined;
  }
}
