/** One process of a server, with messages as lines of JSON on its standard input and output. */
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { Fault } from "../../contract/fault.ts";
import { endGroup, LastWords, type Program, type RunOptions, startAsUser } from "./run-as-user.ts";

/** Time after a server's end to read its stderr, which its child processes may hold open. */
const LAST_WORDS_MS = 1_000;
/** Time from SIGTERM to SIGKILL. */
const SERVER_END_MS = 2_000;
/** Maximum size of a message, which is one line. A server that sends more is ended. */
export const MESSAGE_MAX_BYTES = 32 * 1024 * 1024;
/** Maximum bytes of requests that a server has not read yet. */
const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;

const NEWLINE = 10;

export class StdioProcess implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #argv: readonly string[];
  readonly #options: RunOptions & { log: (piece: Uint8Array) => void };
  #program: Program | undefined;
  #stderr: LastWords | undefined;
  /** Pieces of an incomplete message. */
  #pieces: Uint8Array[] = [];
  #arrivedBytes = 0;
  /** Bytes of requests that it has not read yet. */
  #waitingBytes = 0;
  #end: string | undefined;
  readonly #ended = Promise.withResolvers<void>();

  constructor(argv: readonly string[], options: RunOptions & { log: (piece: Uint8Array) => void }) {
    this.#argv = argv;
    this.#options = options;
  }

  async start(): Promise<void> {
    const program = this.#begin();
    this.#program = program;
    this.#stderr = new LastWords(program.stderr, this.#options.log);
    this.#readAll(program).catch((error: Error) => this.onerror?.(error));
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
    Promise.try(async () => {
      stdin.write(line);
      await stdin.flush();
      this.#waitingBytes -= line.length;
    }).catch(() => this.#kill());
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
  lastWords(): string {
    const said = this.#stderr?.text() ?? "";
    const end = this.#end ?? "still running";
    return said === "" ? `${end}; nothing on its standard error` : `${end}; on its standard error: ${said}`;
  }

  #begin(): Program {
    try {
      return startAsUser(this.#argv, this.#options, (end) => void this.#close(end));
    } catch (cause) {
      this.#end = `not begun: ${(cause as Error).message}`;
      throw new Fault(500, `is there a folder ${this.#options.cwd}?`, { cause });
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
    await Promise.race([this.#stderr?.over, Bun.sleep(LAST_WORDS_MS)]);
    this.#ended.resolve();
    this.onclose?.();
  }

  /** Backpressure: a server that sends faster than the gateway handles messages waits. */
  async #readAll({ stdout }: Program): Promise<void> {
    for await (const piece of stdout) await this.#read(piece);
  }

  async #read(piece: Uint8Array): Promise<void> {
    let from = 0;
    for (let to = piece.indexOf(NEWLINE); to !== -1; to = piece.indexOf(NEWLINE, from)) {
      this.#keep(piece.subarray(from, to));
      from = to + 1;
      const line = Buffer.concat(this.#pieces).toString("utf8").trim();
      this.#pieces = [];
      this.#arrivedBytes = 0;
      if (line === "") continue;
      this.#receive(line);
      // The MCP library handles notifications a tick later than responses. Without this, progress would come after the
      // result.
      await undefined;
    }
    this.#keep(piece.subarray(from));
  }

  #keep(piece: Uint8Array): void {
    this.#arrivedBytes += piece.length;
    if (this.#arrivedBytes <= MESSAGE_MAX_BYTES) {
      if (piece.length > 0) this.#pieces.push(piece);
      return;
    }
    this.#pieces = [];
    void this.#close(`ended by the gateway, for a message of more than ${MESSAGE_MAX_BYTES} bytes`);
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
