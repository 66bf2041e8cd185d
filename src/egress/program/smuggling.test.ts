/**
 * Randomly damaged requests to a real server behind the relay: however the server reads them, no other host is asked.
 */
import { expect, test } from "bun:test";
import { createServer, type Server } from "node:http";
import { SEED } from "../../base/testing/seed.ts";
import { allowing, RelayFixture, SANDBOX } from "../testing/relay-fixture.ts";
import { Seeded } from "../testing/seeded.ts";

const ROUNDS = 400;
const A = "127.0.0.2";

const FORBIDDEN = "GET /x HTTP/1.1\r\nHost: c.test\r\n\r\n";
const REQUESTS = [
  "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
  `POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${FORBIDDEN.length}\r\n\r\n${FORBIDDEN}`,
  `POST /3 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n${FORBIDDEN.length.toString(16)}\r\n${FORBIDDEN}\r\n0\r\n\r\n`,
  `GET http://a.test/4 HTTP/1.1\r\nHost: a.test\r\nX: y\r\n\r\n`,
];
/** Known tricks of request smuggling. */
const TRICKS = [
  "\r\n",
  "\n",
  "\r",
  " ",
  "\t",
  ":",
  "\0",
  "\r\n ",
  "0\r\n\r\n",
  "\r\nHost: c.test",
  "\r\nContent-Length: 0",
  "\r\nContent-Length: 5",
  "\r\nTransfer-Encoding: chunked",
  "\r\nTransfer-Encoding: identity",
  "\r\nTransfer-Encoding : chunked",
  "\r\nConnection: keep-alive, Content-Length",
  "\r\nExpect: 100-continue",
  FORBIDDEN,
];

/** A real server that records its requests. */
async function openServer(): Promise<{ server: Server; port: number; requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.headers.host} ${request.url}`);
    request.on("error", () => undefined).resume();
    response.end("answer");
  });
  server.on("clientError", (_, socket) => socket.destroy());
  const listening = Promise.withResolvers<void>();
  server.listen(0, A, listening.resolve);
  await listening.promise;
  const address = server.address();
  return { server, port: typeof address === "object" && address !== null ? address.port : 0, requests };
}

function damaged(chance: Seeded): Buffer {
  let text = Array.from({ length: 1 + chance.below(3) }, () => REQUESTS[chance.below(REQUESTS.length)]).join("");
  for (let count = chance.below(4); count > 0; count--) {
    const at = chance.below(text.length);
    text = text.slice(0, at) + TRICKS[chance.below(TRICKS.length)] + text.slice(at + chance.below(3));
  }
  return Buffer.from(text, "latin1");
}

test("no request for a denied host gets through", async () => {
  const chance = new Seeded(SEED + 10);
  const { server, port, requests } = await openServer();
  using fixture = await RelayFixture.open(port);
  fixture.table.names.set("a.test", [A]).set("c.test", [A]);
  fixture.relay.set(SANDBOX, allowing("a.test"));
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const bytes = damaged(chance);
      using client = await fixture.http();
      for (const piece of chance.below(2) === 0 ? [bytes] : chance.split(bytes)) client.write(piece);
      client.finish();
      await client.until(({ ending }) => ending !== undefined);
      const others = requests.filter((request) => !/^a\.test(?::\d*)?\.? /i.test(request));
      if (others.length > 0) throw new Error(`${others} after ${JSON.stringify(bytes.toString("latin1"))}`);
    }
    expect(requests.length).toBeGreaterThan(ROUNDS / 4);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
