/** Chunks begun here and sent by another writer, and what happens to them when that writer sends nothing. */
import { expect, test } from "bun:test";
import { ChunkedBody } from "../../http1/body.ts";
import { HeaderLines } from "../../http1/header-lines.ts";
import { RequestHeadReader } from "../../http1/request-head.ts";
import { Http1Request, type RequestConnection } from "./http1-request.ts";

const DESCRIPTOR = 7;

/** Consumes the buffer it is sent, as a connection does: it is empty afterwards. */
class Taken {
  sent = "";
  hasSentAll = true;
  /** The next that it is sent waits for the client. */
  isFull = false;
  readonly descriptor = DESCRIPTOR;
  isKept: boolean | undefined;

  send(bytes: Buffer<ArrayBuffer>): boolean {
    if (this.isFull) this.hasSentAll = false;
    this.sent += bytes.toString("latin1");
    if (bytes.buffer.byteLength === bytes.length) bytes.buffer.transfer(0);
    return true;
  }

  requestOver(isKept: boolean): void {
    this.isKept = isKept;
  }

  /** As a client reads it. */
  get content(): string {
    const bytes = Buffer.from(this.sent.slice(this.sent.indexOf("\r\n\r\n") + 4), "latin1");
    const framing = new ChunkedBody();
    const content = framing.take(bytes).toString("latin1");
    expect([framing.ended, framing.surplus]).toEqual([true, 0]);
    return content;
  }
}

function begun(minorVersion = 1, length?: string): { request: Http1Request; connection: Taken } {
  const connection = new Taken();
  const read = new RequestHeadReader({ maxBytes: 1000 }).take(
    Buffer.from(`GET / HTTP/1.${minorVersion}\r\nHost: a\r\n\r\n`),
  );
  if (read === undefined) throw new Error("the head is not whole");
  const request = new Http1Request(connection as unknown as RequestConnection, read.head);
  const headers = new HeaderLines();
  if (length !== undefined) headers.append("content-length", length);
  request.answer({ status: 200, statusText: "OK", headers }, "follows");
  return { request, connection };
}

const piece = (text: string) => {
  const bytes = Buffer.allocUnsafeSlow(text.length);
  bytes.write(text, "latin1");
  return bytes;
};

// Seen to fail with code that looks at the buffer after sending it.
test.each([
  ["all at once", ["0123456789abcdef"]],
  ["to its end", ["0123456789", "abcdef"]],
  ["in parts", ["0", "123456789abc", "def"]],
])("one that nobody sent is continued by what is written: %s", (_, pieces) => {
  const { request, connection } = begun();
  request.write(piece("before "));
  expect(request.divertChunk(10)).toBe(DESCRIPTOR);
  for (const text of pieces) request.write(piece(text));
  request.end();
  expect(connection.content).toBe("before 0123456789abcdef");
  expect(connection.isKept).toBe(true);
});

test("behind one that was sent past it, and others with it, the answer goes on", () => {
  const { request, connection } = begun();
  expect(request.divertChunk(5)).toBe(DESCRIPTOR);
  connection.sent += "first\r\n6\r\nsecond";
  request.chunksDiverted();
  request.write(piece("third"));
  expect(request.divertChunk(6)).toBe(DESCRIPTOR);
  connection.sent += "fourth";
  request.chunksDiverted();
  request.end();
  expect(connection.content).toBe("firstsecondthirdfourth");
});

test("none is begun while something waits to be sent, and what began then is written", () => {
  const { request, connection } = begun();
  connection.hasSentAll = false;
  expect(request.divertChunk(5)).toBeUndefined();
  request.write(piece("one"));
  connection.hasSentAll = true;
  connection.isFull = true;
  expect(request.divertChunk(5)).toBeUndefined();
  connection.hasSentAll = true;
  expect(request.divertChunk(5)).toBeUndefined();
  request.write(piece("two, three"));
  request.end();
  expect(connection.content).toBe("onetwo, three");
});

test("an answer that is not in chunks has none", () => {
  expect(begun(0).request.divertChunk(5)).toBeUndefined();
  expect(begun(1, "9").request.divertChunk(5)).toBeUndefined();
});
