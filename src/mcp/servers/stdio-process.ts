/** One process of a server, with messages as lines of JSON on its standard input and output. */
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { boundedLines } from "../../base/bounded-lines.ts";
import { writeToStdin } from "../../base/program-stdin.ts";
import { Fault } from "../../contract/fault.ts";
import { endGroup, FinalOutput, type Program, type RunOptions, startAsUser } from "./run-as-user.ts";

/** Time after a server's end to read its stderr, which its child processes may hold open. */
const FINAL_OUTPUT_MS = 1_000;
/** Time from SIGTERM to SIGKILL. */
const SERVER_END_MS = 2_000;
/** Maximum length of a message, which is one line. A server that sends more is ended. */
export const MESSAGE_MAX_BYTES = 32 * 1024 * 1024;
/** Maximum bytes of requests that a server has not read yet. */
const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;

export class StdioProcess implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  #program: Program | undefined;
  #stderr: FinalOutput | undefined;
  /** Bytes of requests that it has not read yet. */
  #waitingBytes = 0;
  #end: string | undefined;
  readonly #ended = Promise.withResolvers<void>();

  constructor(
    private readonly argv: readonly string[],
    private readonly options: RunOptions & { log: (piece: Uint8Array) => void },
  ) {}

  async start(): Promise<void> {
    const program = this.#begin();
    this.#program = program;
    this.#stderr = new FinalOutput(program.stderr, this.options.log);
    void this.#readAll(program);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#program === undefined || this.#end !== undefined) throw new Fault(503, "the server has ended");
    if (this.#waitingBytes > INPUT_WAITING_MAX_BYTES) {
      throw new Fault(503, "the server does not read its input; try again later");
    }
    const line = Buffer.from(`${JSON.stringify(message)}\n`);
    const { stdin } = this.#program;
    this.#waitingBytes += line.length;
    // Do not await this: a server may read its next request only after it has responded to others.
    writeToStdin(stdin, line).then(
      () => (this.#waitingBytes -= line.length),
      () => this.#kill(),
    );
  }

  async close(): Promise<void> {
    if (this.#program === undefined || this.#end !== undefined) return;
    this.#program.stdin.end();
    endGroup(this.#program, "SIGTERM");
    const timer = setTimeout(() => this.#kill(), SERVER_END_MS);
    await this.#ended.promise;
    clearTimeout(timer);
  }

  /** Why it ended, with the end of its stderr. */
  finalOutput(): string {
    const output = this.#stderr?.text() ?? "";
    const end = this.#end ?? "still running";
    return output === "" ? `${end}; nothing on its standard error` : `${end}; on its standard error: ${output}`;
  }

  #begin(): Program {
    try {
      return startAsUser(this.argv, this.options, (end) => void this.#close(end));
    } catch (cause) {
      this.#end = `not begun: ${(cause as Error).message}`;
      throw new Fault(500, `is there a folder ${this.options.cwd}?`, { cause });
    }
  }

  /** Also for a process that no longer reads: the caller gets an error from its end. */
  #kill(): void {
    if (this.#program !== undefined) endGroup(this.#program, "SIGKILL");
  }

  async #close(end: string): Promise<void> {
    if (this.#end !== undefined) return;
    this.#end = end;
    // End the other processes of its session.
    this.#kill();
    await Promise.race([this.#stderr?.over, Bun.sleep(FINAL_OUTPUT_MS)]);
    this.#ended.resolve();
    this.onclose?.();
  }

  /**
   * Backpressure: a server that sends faster than the gateway handles messages waits. The loop also gives the MCP
   * library a tick between two lines: it handles notifications later than responses, and progress must not follow its
   * result.
   */
  async #readAll({ stdout }: Program): Promise<void> {
    try {
      for await (const line of boundedLines(stdout, MESSAGE_MAX_BYTES)) this.#receive(line);
    } catch {
      void this.#close(`ended by the gateway, for a message of more than ${MESSAGE_MAX_BYTES} bytes`);
    }
  }

  /** Ignores lines that are not messages, because many servers also print to standard output. */
  #receive(line: string): void {
    if (this.#end !== undefined) return;
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    if (typeof message === "object" && message !== null) this.onmessage?.(message as JSONRPCMessage);
  }
}
