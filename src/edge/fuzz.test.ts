/** Parsers of the edge: of what clients write about whom they mean, and of what a sandbox answers. */
import { expect } from "bun:test";
import { isIP } from "node:net";
import { fuzzBytes, fuzzText, type Lot } from "../work/testing/fuzz.ts";
import { type AnswerHead, AnswerHeadReader } from "./answer-head.ts";
import { clientAddress, TrustedProxies } from "./client-address.ts";
import { internalPath } from "./control-path.ts";
import { ChunkedBody } from "./front/body-framing.ts";
import { addressOf } from "./sandbox-address.ts";
import { signedLinkOf } from "./signed-link.ts";

const ID = "i0123456789abcdefghij";

/** Undefined: no header can hold that. */
function headersOf(fields: Record<string, string>): Headers | undefined {
  try {
    return new Headers(fields);
  } catch {
    return undefined;
  }
}

fuzzText("a host name or a pair of headers means a sandbox's id and a port, or nothing", {
  seeds: [
    `3000-${ID}.example.com`,
    `49983-${ID}-client.x.y:8080`,
    "192-168-1-5.example.com",
    `0-${ID}.x`,
    `65536-${ID}.x`,
  ],
  check(host) {
    const [id = "", port = ""] = host.split("-");
    for (const fields of [{ host }, { "e2b-sandbox-id": id, "e2b-sandbox-port": port }]) {
      const address = addressOf(headersOf(fields as Record<string, string>) ?? new Headers());
      if (address === undefined || "problem" in address) continue;
      expect(address.sandboxId).toMatch(/^[a-z0-9]+$/);
      expect(Number.isInteger(address.port) && address.port > 0 && address.port < 65_536).toBe(true);
      if ("host" in fields)
        expect(host.trimStart().startsWith(`${String(address.port)}-${address.sandboxId}`) || /^0+/.test(host)).toBe(
          true,
        );
    }
  },
});

/** What a receiver that decodes so often, and tidies up, would take the path for. */
function decoded(path: string, times: number): string {
  let text = path.split("?")[0] ?? "";
  for (let more = times; more > 0; more--)
    text = text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  const kept: string[] = [];
  for (const part of text.replaceAll("\\", "/").split("/")) {
    if (part === "..") kept.pop();
    else if (part !== "" && part !== ".") kept.push(part);
  }
  return `/${kept.join("/")}`;
}

fuzzText("no spelling of a path leads to the control channel", {
  seeds: [
    "/control/ping",
    "/%63ontrol/configure",
    "/x/../control//journal?after=1",
    "/%2e%2e/%2563ontrol/renew",
    "/files",
  ],
  check(path) {
    // What is no path is refused before.
    if (!path.startsWith("/") || internalPath(path) !== undefined) return;
    for (let times = 0; times < 3; times++) {
      expect(`${decoded(path, times).toLowerCase()}/`).not.toStartWith("/control/");
    }
  },
});

fuzzText("who asks is the peer, or an address that a trusted proxy has written", {
  seeds: [
    "1.2.3.4, 10.0.0.1",
    "for=1.2.3.4;proto=https, for=10.0.0.1",
    'for="[2001:db8::1]:80";by=x, For=10.0.0.2',
    "unknown, 1.2.3.4:99",
    'for="_hidden\\"", for=5.6.7.8',
  ],
  check(text) {
    for (const name of ["x-forwarded-for", "forwarded"]) {
      const headers = headersOf({ [name]: text });
      if (headers === undefined) continue;
      expect(clientAddress("9.9.9.9", headers, new TrustedProxies(["10.0.0.0/8"]))).toBe("9.9.9.9");
      expect(isIP(clientAddress("::ffff:10.0.0.9", headers, new TrustedProxies(["10.0.0.0/8"])))).toBeGreaterThan(0);
    }
  },
});

fuzzText("a signed link is one, or a request like any other", {
  seeds: [
    "/files?path=a&signature=v1_x&signature_expiration=5",
    "/files?signature=",
    "/files?username=u&path=%2Fetc&signature=v1_%ff",
  ],
  check(target) {
    const link = signedLinkOf({ target, method: "GET", headers: new Headers() });
    if (link !== undefined) expect([typeof link.path, typeof link.signature]).toEqual(["string", "string"]);
  },
});

function answerOf(pieces: readonly Buffer[]): string {
  try {
    const reader = new AnswerHeadReader();
    let head: AnswerHead | undefined;
    for (const piece of pieces) head ??= reader.take(piece as Buffer<ArrayBuffer>);
    if (head === undefined) return "refused";
    const { status, headers, rest } = head;
    const lines: [string, string][] = [];
    headers.forEach((value, name) => {
      lines.push([name, value]);
    });
    return JSON.stringify([status, lines, rest.length === 0 ? "" : "rest"]);
  } catch (refused) {
    expect((refused as Error).message).toContain("the service");
    return "refused";
  }
}

fuzzBytes("the head of a service's answer is read the same, however it arrives, and has no line within", {
  seeds: [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nok",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.0 404\nA: b\n\nbody",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
  ].map((text) => Buffer.from(text)),
  check(bytes, lot) {
    const whole = answerOf([bytes]);
    // What follows the head may come with it or not.
    const heads = [whole, answerOf(lot.split(bytes))].map((answer) => answer.replace('"rest"', '""'));
    expect(heads[0]).toBe(heads[1] ?? "");
    if (whole === "refused") return;
    const [status, headers] = JSON.parse(whole) as [number, [string, string][]];
    expect(status >= 200 || status === 101).toBe(true);
    for (const [name, value] of headers) {
      expect(name).toMatch(/^[!#$%&'*+.^_`|~0-9a-z-]+$/);
      expect(value).not.toMatch(/[\r\n\0]/);
    }
  },
});

/** All content up to the end of the body, or undefined where it is not framed as it must be. */
function contentOf(pieces: readonly Buffer[]): { content: string; ended: boolean } | undefined {
  const framing = new ChunkedBody();
  let content = "";
  try {
    for (const piece of pieces) {
      for (let rest = piece as Buffer<ArrayBuffer>; rest.length > 0 && !framing.ended; ) {
        content += framing.take(rest).toString("latin1");
        rest = rest.subarray(rest.length - framing.untaken);
      }
    }
  } catch {
    return undefined;
  }
  return { content, ended: framing.ended };
}

/** The plainest reader of chunks there is; undefined when they are not whole and in order. */
function plainChunks(text: string): string | undefined {
  let content = "";
  for (let rest = text; ; ) {
    const [line, digits] = /^([0-9a-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n/i.exec(rest) ?? [];
    if (line === undefined || digits === undefined) return undefined;
    const size = Number.parseInt(digits, 16);
    rest = rest.slice(line.length);
    if (size === 0) return /^(?:[^\r\n]+\r\n)*?\r\n/.test(rest) ? content : undefined;
    if (rest.slice(size, size + 2) !== "\r\n") return undefined;
    content += rest.slice(0, size);
    rest = rest.slice(size + 2);
  }
}

fuzzBytes("a body in chunks is what the plainest reader makes of it", {
  seeds: [
    "5\r\nhello\r\n0\r\n\r\n",
    "1;a=b\r\nx\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nmore",
    "fffffff\r\nx",
  ].map((text) => Buffer.from(text)),
  check(bytes, lot: Lot) {
    const whole = contentOf([Buffer.from(bytes)]);
    expect(contentOf(lot.split(bytes))).toEqual(whole as never);
    const expected = plainChunks(bytes.toString("latin1"));
    if (whole?.ended) expect(whole.content).toBe(expected ?? "nothing");
    else if (expected !== undefined) expect(whole).toBeUndefined();
  },
});
