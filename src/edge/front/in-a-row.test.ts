/** What is put off when much is carried, and what becomes of it when somebody leaves before its turn. */
import { afterEach, describe, expect, test } from "bun:test";
import { EDGE_IN_A_ROW_MIN } from "../limits.ts";
import { SandboxSocket } from "../sandbox-socket.ts";
import { EdgeUnderTest, hostOf, RawService } from "../testing/edge-under-test.ts";
import { exchangeBegun, exchangeOver, inARow } from "./in-a-row.ts";

let begun = 0;
function carrying(exchanges: number): void {
  for (; begun < exchanges; begun++) exchangeBegun();
}
afterEach(() => {
  for (; begun > 0; begun--) exchangeOver();
});

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("work", () => {
  test("is done at once where little is carried", () => {
    carrying(EDGE_IN_A_ROW_MIN - 1);
    const done: string[] = [];
    inARow("close", () => done.push("close"));
    expect(done).toEqual(["close"]);
  });

  test("is done by its kind, in the order it came in, where much is", async () => {
    carrying(EDGE_IN_A_ROW_MIN);
    const done: string[] = [];
    for (const name of ["a", "b"]) {
      for (const kind of ["close", "connect", "send"] as const) inARow(kind, () => done.push(`${kind} ${name}`));
    }
    expect(done).toEqual([]);
    await turn();
    expect(done).toEqual(["send a", "send b", "connect a", "connect b", "close a", "close b"]);
  });

  test("that comes while others are done has a turn of its own", async () => {
    carrying(EDGE_IN_A_ROW_MIN);
    const done: string[] = [];
    inARow("send", () => {
      done.push("first");
      inARow("send", () => done.push("second"));
    });
    await turn();
    await turn();
    expect(done).toEqual(["first", "second"]);
  });
});

test("no connection is made for who has left before its turn, whichever side that was", async () => {
  await using service = await RawService.start(() => undefined);
  carrying(EDGE_IN_A_ROW_MIN);
  const to = { host: "127.0.0.1", port: service.port };
  const ended = new AbortController();
  const failures: unknown[] = [];
  const awaiting = { opened: () => failures.push("opened"), notOpened: (failure: unknown) => failures.push(failure) };
  const left = SandboxSocket.begin({ to, tlsName: undefined, until: [] }, awaiting);
  const gone = SandboxSocket.begin({ to, tlsName: undefined, until: [ended.signal] }, awaiting);
  left.cut();
  ended.abort();
  expect(failures).toEqual([expect.any(Error), expect.any(Error)]);
  await turn();
  expect([left.isClosed, gone.isClosed]).toEqual([true, true]);
  const last = await SandboxSocket.dial({ to, tlsName: undefined, until: [] });
  last.terminate();
  expect(failures).toHaveLength(2);
  expect(service.sockets.length).toBeLessThanOrEqual(1);
});

describe("many at once", () => {
  const AT_ONCE = 16 * EDGE_IN_A_ROW_MIN;
  const answerTo = (head: string) => {
    const path = head.split(" ")[1] ?? "";
    return `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\nConnection: close\r\n\r\n${path}`;
  };

  test("have each the answer to what it asked, over connections that are kept and over one for each", async () => {
    await using edge = new EdgeUnderTest();
    edge.place();
    await using service = await RawService.start((socket, head) => socket.end(answerTo(head)));
    const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n`;
    const received = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, nth) =>
        edge.raw(`${head(`/${nth}-first`)}\r\n${head(`/${nth}-last`)}Connection: close\r\n\r\n`),
      ),
    );
    for (const [nth, text] of received.entries()) {
      const bodies = text.split("HTTP/1.1 200 OK").map((answer) => answer.slice(answer.indexOf("\r\n\r\n") + 4));
      expect(bodies.slice(1)).toEqual([`/${nth}-first`, `/${nth}-last`]);
    }
  });

  test("are refused one by one when their sandbox ends", async () => {
    await using edge = new EdgeUnderTest();
    edge.place();
    await using service = await RawService.start(() => {
      if (service.sockets.length === AT_ONCE) edge.end();
    });
    const asked = Array.from({ length: AT_ONCE }, () =>
      edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n\r\n`),
    );
    for (const text of await Promise.all(asked)) {
      expect(text).toMatch(/^HTTP\/1\.1 502 .*The sandbox was not found/s);
    }
  });
});
