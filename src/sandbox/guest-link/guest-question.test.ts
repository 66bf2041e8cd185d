/** One request to a guest and its response on a real connection, on a loopback address in place of a sandbox's. */
import { afterEach, expect, test } from "bun:test";
import type { TCPSocketListener } from "bun";
import { GUEST_ANSWER_MAX_BYTES } from "../limits.ts";
import { askGuest } from "./guest-question.ts";

const ADDRESS = "127.81.7.3";
let listener: TCPSocketListener | undefined;
let server: ReturnType<typeof Bun.serve> | undefined;
afterEach(async () => {
  listener?.stop(true);
  await server?.stop(true);
  listener = server = undefined;
});

function saying(...pieces: string[]) {
  listener = Bun.listen({
    hostname: ADDRESS,
    port: 0,
    socket: {
      data: async (socket) => {
        for (const piece of pieces) {
          socket.write(piece);
          await Bun.sleep(5);
        }
      },
    },
  });
  return { address: ADDRESS, port: listener.port, method: "GET", path: "/x" };
}

test("a guest gets the question as it is, and its answer comes back", async () => {
  server = Bun.serve({
    hostname: ADDRESS,
    port: 0,
    fetch: async (request) => {
      const { method, url, headers } = request;
      return Response.json([method, new URL(url).pathname, headers.get("x-one"), await request.text()], {
        status: 201,
      });
    },
  });
  const asked = {
    address: ADDRESS,
    port: server.port ?? 0,
    method: "POST",
    path: "/some/where",
    headers: { "X-One": "1" },
  };
  const { status, text } = await askGuest({ ...asked, body: '{"a":"é"}' }, 2_000);
  expect([status, JSON.parse(text)]).toEqual([201, ["POST", "/some/where", "1", '{"a":"é"}']]);
});

test("a question of any length is sent to its end", async () => {
  server = Bun.serve({
    hostname: ADDRESS,
    port: 0,
    fetch: async (request) => {
      await Bun.sleep(20);
      return new Response(String((await request.text()).length));
    },
  });
  const body = "x".repeat(8 * 2 ** 20);
  const asked = { address: ADDRESS, port: server.port ?? 0, method: "POST", path: "/" };
  expect(await askGuest({ ...asked, body }, 5_000)).toEqual({ status: 200, text: String(body.length) });
});

test("an answer may come in pieces, and whoever gave it need not hang up", async () => {
  const asked = saying("HTTP/1.1 20", "0 OK\r\nContent-", "Length: 5\r\n\r\nhe", "llo and more");
  expect(await askGuest(asked, 2_000)).toEqual({ status: 200, text: "hello" });
});

test.each([
  ["that is none", ["SSH-2.0\r\n\r\n"], "something else"],
  ["without a length", ["HTTP/1.1 200 OK\r\n\r\nhello"], "something else"],
  ["in chunks", ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], "something else"],
  ["that is too long", [`HTTP/1.1 200 OK\r\nContent-Length: ${GUEST_ANSWER_MAX_BYTES + 1}\r\n\r\n`], "said more than"],
  ["whose head does not end", ["HTTP/1.1 200 OK\r\n", `A: ${"b".repeat(3 * GUEST_ANSWER_MAX_BYTES)}`], "has no end"],
])("an answer %s is a failure", async (_, pieces, reason) => {
  await expect(askGuest(saying(...pieces), 2_000)).rejects.toThrow(reason);
});

test("who does not answer in time, hangs up, or is not there is told apart", async () => {
  await expect(askGuest(saying(), 50)).rejects.toHaveProperty("name", "TimeoutError");
  listener?.stop(true);
  listener = Bun.listen({ hostname: ADDRESS, port: 0, socket: { data: (socket) => void socket.end() } });
  const asked = { address: ADDRESS, port: listener.port, method: "GET", path: "/" };
  await expect(askGuest(asked, 2_000)).rejects.toThrow("the guest hung up");
  listener.stop(true);
  await expect(askGuest(asked, 2_000)).rejects.toHaveProperty("code", "ECONNREFUSED");
});
