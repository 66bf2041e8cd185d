/**
 * The body of a client's request on its way to a sandbox. It streams as it comes, one piece at a time, no faster than
 * the sandbox takes it. Nothing is lost when a connection is refused: the piece that was read ahead goes to the next.
 */
import { EDGE_JOINED_PIECE_MAX_BYTES } from "./limits.ts";
import { releasePiece } from "./release-piece.ts";
import type { SandboxSocket } from "./sandbox-socket.ts";

type Piece = Uint8Array<ArrayBuffer>;
type Read = Awaited<ReturnType<ReadableStreamDefaultReader<Piece>["read"]>>;

const LAST_CHUNK = Buffer.from("0\r\n\r\n");
const LAST_CHUNK_AFTER_ANOTHER = Buffer.from("\r\n0\r\n\r\n");

export class RequestBody {
  readonly #reader: ReadableStreamDefaultReader<Piece>;
  #coming: Promise<Read>;
  /** What has come already, so that it can go with the head. */
  #here: Read | undefined;

  constructor(body: ReadableStream<Piece>) {
    this.#reader = body.getReader();
    this.#coming = this.#reader.read();
    this.#coming.then(
      (read) => {
        this.#here = read;
      },
      () => undefined,
    );
  }

  /** Undefined: it has not come yet. True: there is no body at all. */
  get isEmpty(): boolean | undefined {
    return this.#here?.done;
  }

  /**
   * `head` is what stands before the body. Resolves when all is sent, or the connection is over; cuts it when the rest
   * will never come.
   */
  async sendCounted(socket: SandboxSocket, head: Buffer, length: number): Promise<void> {
    await this.#orCut(socket, this.#sendCounted(socket, head, length));
  }

  /** The same for a body of unknown length. */
  async sendChunked(socket: SandboxSocket, head: Buffer): Promise<void> {
    await this.#orCut(socket, this.#sendChunked(socket, head));
  }

  async #orCut(socket: SandboxSocket, sending: Promise<void>): Promise<void> {
    try {
      await sending;
    } catch {
      // The client left, or did not send what it had announced.
      socket.terminate();
    }
    if (socket.isClosed) await this.#reader.cancel().catch(() => undefined);
  }

  async #sendCounted(socket: SandboxSocket, head: Buffer, length: number): Promise<void> {
    let left = length;
    let before = head;
    if (this.#here === undefined) before = await flushed(socket, before);
    while (left > 0 && !socket.isClosed) {
      const piece = await this.#next();
      if (piece === undefined || piece.length > left) throw new Error("the body is not as long as announced");
      left -= piece.length;
      await sendPiece(socket, before, piece);
      before = NOTHING;
    }
    await flushed(socket, before);
  }

  async #sendChunked(socket: SandboxSocket, head: Buffer): Promise<void> {
    let before = head;
    let isFirst = true;
    if (this.#here === undefined) before = await flushed(socket, before);
    while (!socket.isClosed) {
      const piece = await this.#next();
      if (piece === undefined) {
        await flushed(socket, Buffer.concat([before, isFirst ? LAST_CHUNK : LAST_CHUNK_AFTER_ANOTHER]));
        return;
      }
      if (piece.length === 0) continue;
      const size = Buffer.from(`${isFirst ? "" : "\r\n"}${piece.length.toString(16)}\r\n`);
      await sendPiece(socket, before.length === 0 ? size : Buffer.concat([before, size]), piece);
      before = NOTHING;
      isFirst = false;
    }
  }

  async #next(): Promise<Piece | undefined> {
    const { done, value } = await this.#coming;
    if (done) return undefined;
    this.#coming = this.#reader.read();
    // Whoever waits for it hears of it.
    this.#coming.catch(() => undefined);
    return value;
  }
}

const NOTHING = Buffer.alloc(0);

async function sendPiece(socket: SandboxSocket, before: Buffer, piece: Piece): Promise<void> {
  const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  if (before.length === 0) socket.write(bytes);
  else if (bytes.length <= EDGE_JOINED_PIECE_MAX_BYTES) socket.write(Buffer.concat([before, bytes]));
  else {
    socket.write(before);
    socket.write(bytes);
  }
  await socket.allSent();
  releasePiece(piece);
}

async function flushed(socket: SandboxSocket, bytes: Buffer): Promise<Buffer> {
  if (bytes.length > 0) socket.write(bytes);
  await socket.allSent();
  return NOTHING;
}
