/**
 * One short question to a guest, over HTTP/1.1 and a connection of its own, asked on this thread: `fetch` has another
 * thread do it, and on a busy machine each change of threads waits for a processor. Addresses are used again by other
 * sandboxes, so no connection is kept. Root in a sandbox may answer anything in the guest's place: whatever is longer
 * than a guest's answer, or none, is a failure.
 */
import type { Socket, SocketHandler } from "bun";
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

const HEAD_END = "\r\n\r\n";
const STATUS = /^HTTP\/1\.1 ([2-5]\d\d)(?: |\r)/;
const LENGTH = /\r\ncontent-length: *(\d{1,9}) *\r\n/i;
const NO_CONTENT = 204;

/** Rejects with a `TimeoutError` when it takes too long, and with ECONNREFUSED where nobody listens. */
export function askGuest(question: Question, timeoutMs: number): Promise<GuestAnswer> {
  return new Asking(question, timeoutMs).begun();
}

/** Undefined: it is not all there yet. Throws when it is no answer of a guest. */
export function readAnswer(bytes: Buffer): GuestAnswer | undefined {
  const text = bytes.toString("latin1");
  const end = text.indexOf(HEAD_END);
  if (end < 0) return undefined;
  const head = text.slice(0, end + HEAD_END.length);
  const status = Number(STATUS.exec(head)?.[1]);
  const length = status === NO_CONTENT ? 0 : Number(LENGTH.exec(head)?.[1]);
  if (Number.isNaN(status) || Number.isNaN(length)) throw new Error("the guest answered with something else");
  if (length > GUEST_ANSWER_MAX_BYTES) throw new Error(`the guest said more than ${GUEST_ANSWER_MAX_BYTES} bytes`);
  const from = head.length;
  if (bytes.length < from + length) return undefined;
  return { status, text: bytes.toString("utf8", from, from + length) };
}

class Asking {
  readonly #question: Question;
  readonly #answer = Promise.withResolvers<GuestAnswer>();
  readonly #late: ReturnType<typeof setTimeout>;
  #socket: Socket<Asking> | undefined;
  #unsent: Buffer;
  #heard = Buffer.alloc(0);
  #isOver = false;

  constructor(question: Question, timeoutMs: number) {
    this.#question = question;
    this.#unsent = requestOf(question);
    const late = () => this.#fail(new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError"));
    this.#late = setTimeout(late, timeoutMs);
  }

  /** One for all. */
  static readonly #HANDLER: SocketHandler<Asking> = {
    open: (socket) => socket.data.#opened(socket),
    data: (socket, bytes) => socket.data.#received(bytes),
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

  #received(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#heard = Buffer.concat([this.#heard, bytes]);
    try {
      const answer = readAnswer(this.#heard);
      if (answer !== undefined) this.#end(() => this.#answer.resolve(answer));
      else if (this.#heard.length > 2 * GUEST_ANSWER_MAX_BYTES) throw new Error("the guest's answer has no end");
    } catch (error) {
      this.#fail(error);
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
