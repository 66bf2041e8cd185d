/** HTTP/2 requests that would mean something else, or two requests, when written as HTTP/1.1 for a service. */
import { afterAll, afterEach, expect, test } from "bun:test";
import { connect } from "node:http2";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService } from "../testing/edge-under-test.ts";

const HIDDEN = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";

const edge = edgeOfFile();
const service = await RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
afterEach(() => {
  service.received.length = 0;
});
afterAll(() => service[Symbol.asyncDispose]());

/** Status and body, or "refused". */
function ask(headers: Record<string, string>, body: string): Promise<string> {
  const client = connect(`https://127.0.0.1:${edge.tlsPort}`, { rejectUnauthorized: false });
  client.on("error", () => undefined);
  const answered = new Promise<string>((resolve) => {
    let text = "";
    const stream = client.request(headers, { endStream: false });
    stream.on("response", ({ ":status": status }) => {
      text = `${status} `;
    });
    stream.on("data", (piece: Buffer) => {
      text += piece;
    });
    stream.on("error", () => resolve("refused"));
    stream.on("close", () => resolve(text === "" ? "refused" : text));
    stream.end(body);
  });
  return answered.finally(() => client.destroy());
}

const own = () => ({ ":path": "/odd", ":method": "POST", ":authority": hostOf(service.port) });

test.each<[string, () => Record<string, string>]>([
  ["a body that is longer than it says", () => ({ ...own(), "content-length": "3" })],
  ["a body although it says none", () => ({ ...own(), "content-length": "0" })],
  ["a body that is shorter than it says", () => ({ ...own(), "content-length": "9999" })],
  ["a coding of HTTP/1.1", () => ({ ...own(), "transfer-encoding": "chunked" })],
  ["two hosts", () => ({ ...own(), host: "x" })],
  ["a host besides an empty authority", () => ({ ...own(), ":authority": "", host: hostOf(service.port) })],
  ["a user in the authority", () => ({ ...own(), ":authority": `x@${hostOf(service.port)}` })],
  ["a path in the authority", () => ({ ...own(), ":authority": `${hostOf(service.port)}/x` })],
  ["an address as its path", () => ({ ...own(), ":path": "http://x/odd" })],
  ["a space in its path", () => ({ ...own(), ":path": "/odd HTTP/1.1" })],
  ["a space in its method", () => ({ ...own(), ":method": "POST /hidden" })],
])("%s is refused, and no service sees a second request", async (_name, headers) => {
  expect(await ask(headers(), HIDDEN)).toBe("refused");
  expect(service.received.filter((text) => text.includes("hidden"))).toEqual([]);
});

test("a body is forwarded in chunks, whatever its content", async () => {
  expect(await ask(own(), HIDDEN)).toBe("200 ok");
  const [received = ""] = service.received.filter((text) => text !== "");
  expect(received).toStartWith("POST /odd HTTP/1.1\r\n");
  expect(received).toContain(
    `transfer-encoding: chunked\r\n\r\n${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
  );
});
