/** HTTP/2 heads that are rejected because they would mean something else as HTTP/1.1. */
import { describe, expect, test } from "bun:test";
import { headOf } from "./http2-head.ts";

const GET = [":method", "GET", ":scheme", "https", ":path", "/a?b"];
const HOST = [":authority", "a.test"];

describe("a head of HTTP/2 is refused", () => {
  test.each([
    ["without a method", [":path", "/", ...HOST]],
    ["without a path", [":method", "GET", ...HOST]],
    ["with an empty path", [":method", "GET", ":path", "", ...HOST]],
    ["with a space in the path", [":method", "GET", ":path", "/a b", ...HOST]],
    ["with a line end in the path", [":method", "GET", ":path", "/a\r\nX: y", ...HOST]],
    ["with an invalid method", [":method", "GET /x HTTP/1.1", ":path", "/", ...HOST]],
    ["for a tunnel", [":method", "CONNECT", ":path", "/", ...HOST]],
    ["with two paths", [...GET, ":path", "/c", ...HOST]],
    ["with a path behind a header", [":method", "GET", ...HOST, "a", "b", ":path", "/"]],
    ["with no host", GET],
    ["with two hosts that differ", [...GET, ...HOST, "host", "b.test"]],
    ["with two host headers", [...GET, "host", "a.test", "host", "a.test"]],
    ["with a large letter in a name", [...GET, ...HOST, "A", "b"]],
    ["with an invalid name", [...GET, ...HOST, "a:b", "c"]],
    ["with a line end in a value", [...GET, ...HOST, "a", "b\r\ncontent-length: 5"]],
    ["with a bare CR in a value", [...GET, ...HOST, "a", "b\rc"]],
    ["with a zero byte in a value", [...GET, ...HOST, "a", "b\0"]],
    ["with a letter beyond a byte in a value", [...GET, ...HOST, "a", "\u010a"]],
    ["with Connection", [...GET, ...HOST, "connection", "close"]],
    ["with Transfer-Encoding", [...GET, ...HOST, "transfer-encoding", "chunked"]],
    ["with Upgrade", [...GET, ...HOST, "upgrade", "websocket"]],
    ["with TE of more than trailers", [...GET, ...HOST, "te", "gzip"]],
    ["with two lengths", [...GET, ...HOST, "content-length", "1", "content-length", "1"]],
    ["with a length that is none", [...GET, ...HOST, "content-length", "+1"]],
  ])("%s", (_name, raw) => expect(headOf(raw, false)).toBeUndefined());

  test("with a length and no body", () => {
    expect(headOf([...GET, ...HOST, "content-length", "1"], true)).toBeUndefined();
  });
});

describe("a head of HTTP/2 is read", () => {
  test.each([
    ["that has ended", [], true, 0],
    ["that has not ended", [], false, undefined],
    ["with a length", ["content-length", "5"], false, 5],
    ["with a length of 0", ["content-length", "0"], true, 0],
  ])("%s", (_name, lines, hasEnded, bodyBytes) => {
    const head = headOf([...GET, ...HOST, ...lines], hasEnded);
    expect(head).toMatchObject({ method: "GET", target: "/a?b" });
    expect([head?.bodyBytes, head?.headers.get("host")]).toEqual([bodyBytes, "a.test"]);
  });

  test("with the host in both places, if it is the same", () => {
    expect(headOf([...GET, ...HOST, "host", "a.test"], true)?.headers.count("host")).toBe(1);
  });

  test("with cookies in pieces", () => {
    expect(headOf([...GET, ...HOST, "cookie", "a=1", "cookie", "b=2"], true)?.headers.get("cookie")).toBe("a=1; b=2");
  });
});
