/** Answers are counted when they are whole, and only good ones. */
import { describe, expect, test } from "bun:test";
import { ResponseCounter } from "./response-counter.ts";

const answer = (body: string) =>
  `HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 2026 00:00:00 GMT\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const bytes = (text: string) => new TextEncoder().encode(text);

describe("responses of a connection", () => {
  const stream = bytes([answer("hello\r\n\r\n"), answer(""), answer("again")].join(""));

  test.each([1, 2, 7, 64, stream.length])("are counted alike in pieces of %d", (size) => {
    const counter = new ResponseCounter();
    let whole = 0;
    for (let at = 0; at < stream.length; at += size) {
      // Whoever reads a connection may use the memory of a piece again.
      const piece = stream.slice(at, at + size);
      whole += counter.take(piece);
      piece.fill(0);
    }
    expect(whole).toBe(3);
  });

  test("do not count before their last byte", () => {
    const counter = new ResponseCounter();
    const one = bytes(answer("hello"));
    expect(counter.take(one.subarray(0, -1))).toBe(0);
    expect(counter.take(one.subarray(-1))).toBe(1);
  });

  test.each([
    ["another status", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"],
    ["no length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["a head without an end", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(70_000)}`],
  ])("with %s are not counted", (_what, text) => {
    expect(() => new ResponseCounter().take(bytes(text))).toThrow();
  });
});
