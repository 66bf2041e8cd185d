/** Responses that no guest would send, on a loopback address in place of a sandbox's. */
import { afterEach, expect, test } from "bun:test";
import type { Socket, TCPSocketListener } from "bun";
import { GUEST_ANSWER_MAX_BYTES } from "../limits.ts";
import { boundedText, fetchGuest } from "./guest-request.ts";

const ADDRESS = "127.81.7.3";
let listener: TCPSocketListener | undefined;
afterEach(() => listener?.stop(true));

function saying(text: string): number {
  let rest = Buffer.from(text);
  const send = (socket: Socket) => {
    rest = rest.subarray(Math.max(socket.write(rest), 0));
  };
  listener = Bun.listen({ hostname: ADDRESS, port: 0, socket: { data: send, drain: send } });
  return listener.port;
}

async function ask(port: number, timeoutMs = 2_000): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  return await boundedText(await fetchGuest({ address: ADDRESS, port }, "/x", { signal }));
}

test("a response ends at its length, and a redirect is not followed", async () => {
  expect(await ask(saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more"))).toBe("hello");
  const port = saying("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 4\r\n\r\nelse");
  expect(await ask(port)).toBe("else");
});

const length = GUEST_ANSWER_MAX_BYTES + 1;
test.each([
  ["that is not HTTP", "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7\r\n"],
  ["that is too long", `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${"x".repeat(length)}`],
  ["whose head is too long", `HTTP/1.1 200 OK\r\nA: ${"b".repeat(1024 ** 2)}`],
  ["with too many header lines", `HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(100_000)}`],
])("a response %s is a failure", async (_, output) => {
  await expect(ask(saying(output), 10_000)).rejects.not.toHaveProperty("name", "TimeoutError");
});

test("a guest that does not answer in time differs from a missing one", async () => {
  const port = saying("");
  await expect(ask(port, 50)).rejects.toHaveProperty("name", "TimeoutError");
  listener?.stop(true);
  await expect(ask(port)).rejects.not.toHaveProperty("name", "TimeoutError");
});
