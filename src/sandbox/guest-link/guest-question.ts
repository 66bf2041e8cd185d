/**
 * One short HTTP/1.1 request to a guest, on a connection of its own and on this thread. `fetch` uses another thread,
 * and on a busy machine each thread switch waits for a processor. Connections are not kept, because other sandboxes
 * reuse the address. Root in a sandbox can respond in the guest's place, so an oversized or malformed response is an
 * error.
 */
import type { Socket, SocketHandler } from "bun";
import { CountedBody } from "../../http1/body.ts";
import { BadHead } from "../../http1/head-reader.ts";
import { isBodiless, ResponseHeadReader, responseLength } from "../../http1/response-head.ts";
import { GUEST_ANSWER_MAX_BYTES } from "../limits.ts";

interface Question {
  address: string;
  port: number;
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
}

export interface GuestAnswer {
  status: number;
  text: string;
}

type Bytes = Buffer<ArrayBuffer>;

const STATUS_MIN = 200;
const STATUS_MAX = 599;

/** Rejects with a `TimeoutError` on timeout, and with ECONNREFUSED if the port is closed. */
export function askGuest(question: Question, timeoutMs: number): Promise<GuestAnswer> {
  return new Asking(question, timeoutMs).begun();
}

/** Reads one short response in pieces. `take` throws when a guest would not send it. */
class AnswerReader {
  readonly #head = new ResponseHeadReader({ maxBytes: GUEST_ANSWER_MAX_BYTES });
  readonly #method: string;
  #body: CountedBody | undefined;
  #status = 0;
  #content = Buffer.alloc(0);

  constructor(method: string) {
    this.#method = method;
  }

  /** Undefined: it is not complete. */
  take(bytes: Bytes): GuestAnswer | undefined {
    let content = bytes;
    if (this.#body === undefined) {
      const found = this.#head.take(bytes);
      if (found === undefined) return undefined;
      const { status } = found.head;
      if (status < STATUS_MIN || status > STATUS_MAX) throw new BadHead(400, `The status is ${status}`);
      const length = isBodiless(this.#method, found.head) ? 0 : responseLength(found.head);
      if (typeof length !== "number") throw new BadHead(400, "The response has no length");
      if (length > GUEST_ANSWER_MAX_BYTES) throw new Error(`the guest said more than ${GUEST_ANSWER_MAX_BYTES} bytes`);
      this.#status = status;
      this.#body = new CountedBody(length);
      content = found.rest;
    }
    this.#content = Buffer.concat([this.#content, this.#body.take(content)]);
    return this.#body.ended ? { status: this.#status, text: this.#content.toString() } : undefined;
  }
}

class Asking {
  readonly #question: Question;
  readonly #answer = Promise.withResolvers<GuestAnswer>();
  readonly #late: ReturnType<typeof setTimeout>;
  #socket: Socket<Asking> | undefined;
  #unsent: Buffer;
  readonly #reader: AnswerReader;
  #isOver = false;

  constructor(question: Question, timeoutMs: number) {
    this.#question = question;
    this.#unsent = requestOf(question);
    this.#reader = new AnswerReader(question.method);
    const late = () => this.#fail(new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError"));
    this.#late = setTimeout(late, timeoutMs);
  }

  /** One handler object for all requests. */
  static readonly #HANDLER: SocketHandler<Asking> = {
    open: (socket) => socket.data.#opened(socket),
    data: (socket, bytes) => socket.data.#received(bytes as Bytes),
    drain: (socket) => socket.data.#send(),
    close: (socket) => socket.data.#fail(new Error("the guest hung up")),
    connectError: (socket, error) => socket.data.#fail(error),
    error: (socket, error) => socket.data.#fail(error),
  };

  begun(): Promise<GuestAnswer> {
    const { address, port } = this.#question;
    Bun.connect<Asking>({ hostname: address, port, data: this, socket: Asking.#HANDLER }).catch((error: unknown) =>
      this.#fail(error),
    );
    return this.#answer.promise;
  }

  #opened(socket: Socket<Asking>): void {
    this.#socket = socket;
    if (this.#isOver) socket.terminate();
    else this.#send();
  }

  #send(): void {
    if (this.#isOver || this.#unsent.length === 0) return;
    const sent = Math.max(this.#socket?.write(this.#unsent) ?? 0, 0);
    this.#unsent = this.#unsent.subarray(sent);
  }

  #received(bytes: Bytes): void {
    if (this.#isOver) return;
    try {
      const answer = this.#reader.take(bytes);
      if (answer !== undefined) this.#end(() => this.#answer.resolve(answer));
    } catch (error) {
      this.#fail(error instanceof BadHead ? notOfGuest(error) : error);
    }
  }

  #fail(error: unknown): void {
    this.#end(() => this.#answer.reject(error));
  }

  #end(settle: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#late);
    settle();
    this.#socket?.end();
  }
}

function requestOf({ address, port, method, path, headers = {}, body }: Question): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${address}:${port}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`);
  lines.push("", body ?? "");
  return Buffer.from(lines.join("\r\n"));
}

function notOfGuest(cause: BadHead): Error {
  const what = cause.status === 431 ? "the guest's answer has no end" : "the guest answered with something else";
  return new Error(what, { cause });
}
