/** For tests: an HTTP/2 client that sends and sees raw frames, without a library's interpretation. */
import { once } from "node:events";
import tls from "node:tls";

export const [DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE] = [0, 1, 3, 4, 7, 8] as const;
export const END_STREAM = 1;
const END_HEADERS = 4;
const HEAD_BYTES = 9;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const ACKNOWLEDGED = 1;
/** RFC 9113, 6.9.2. */
export const INITIAL_WINDOW = 65_535;

export interface Frame {
  kind: number;
  flags: number;
  stream: number;
  content: Buffer;
}

export function frame(kind: number, flags: number, stream: number, content: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(content.length, 0, 3);
  head[3] = kind;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, content]);
}

function number(value: number): Buffer {
  const content = Buffer.alloc(4);
  content.writeUInt32BE(value);
  return content;
}

/** Headers in HPACK without its tables. */
function headerBlock(headers: Record<string, string>): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value, "latin1");
    const length = bytes.length < 127 ? [bytes.length] : [127, bytes.length - 127];
    return Buffer.concat([Buffer.from(length), bytes]);
  };
  const lines = Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]);
  return Buffer.concat(lines);
}

export class FrameClient implements Disposable {
  readonly frames: Frame[] = [];
  readonly socket: tls.TLSSocket;
  readonly #windows = new Map<number, number>();
  #rest: Buffer = Buffer.alloc(0);

  private constructor(socket: tls.TLSSocket) {
    this.socket = socket;
    socket.on("data", (bytes: Buffer) => this.#received(bytes));
  }

  static async connect(port: number): Promise<FrameClient> {
    const options = { port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] };
    const socket = tls.connect(options).on("error", () => undefined);
    await once(socket, "secureConnect");
    const client = new FrameClient(socket);
    client.send(Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0)]));
    return client;
  }

  send(bytes: Buffer): void {
    this.socket.write(bytes);
  }

  request(stream: number, headers: Record<string, string>, flags = END_STREAM): void {
    this.send(frame(HEADERS, flags | END_HEADERS, stream, headerBlock({ ":scheme": "https", ...headers })));
  }

  reset(stream: number, code: number): void {
    this.send(frame(RST_STREAM, 0, stream, number(code)));
  }

  /** Opens the windows of this stream and of the connection by this many bytes. */
  open(stream: number, bytes: number): void {
    for (const one of [0, stream]) this.send(frame(WINDOW_UPDATE, 0, one, number(bytes)));
  }

  /** Bytes of DATA allowed so far, for the connection (0) or for one stream. */
  windowOf(stream: number): number {
    return this.#windows.get(stream) ?? INITIAL_WINDOW;
  }

  of(stream: number): Frame[] {
    return this.frames.filter((one) => one.stream === stream);
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  #received(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#rest.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) return;
      const [kind = 0, flags = 0] = [this.#rest[3], this.#rest[4]];
      const content = this.#rest.subarray(HEAD_BYTES, end);
      const stream = this.#rest.readUInt32BE(5) & 0x7fffffff;
      this.#rest = this.#rest.subarray(end);
      this.frames.push({ kind, flags, stream, content });
      if (kind === WINDOW_UPDATE) this.#windows.set(stream, this.windowOf(stream) + content.readUInt32BE(0));
      if (kind === SETTINGS && (flags & ACKNOWLEDGED) === 0) this.send(frame(SETTINGS, ACKNOWLEDGED, 0));
    }
  }
}
