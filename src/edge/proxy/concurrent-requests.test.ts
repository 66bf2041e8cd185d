/** Many concurrent exchanges, and connections whose client or sandbox leaves before they are established. */
import { describe, expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { SandboxRun } from "../routing/route-table.ts";
import { EdgeUnderTest, hostOf, RawService } from "../testing/edge-under-test.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

/** Notes whether the connection was made; all else would be wrong. */
const noting = (failures: unknown[]) => ({
  opened: () => failures.push("opened"),
  notOpened: (failure: unknown) => failures.push(failure),
  data: () => failures.push("data"),
  drained: () => failures.push("drained"),
  closed: () => failures.push("closed"),
});

test("a pending connection is closed when the client disconnects or the sandbox ends", async () => {
  await using service = await RawService.start(() => undefined);
  const to = { host: "127.0.0.1", port: service.port };
  const run = new SandboxRun();
  const failures: unknown[] = [];
  const left = new SandboxSocket({ to }, noting(failures));
  const gone = new SandboxSocket({ to, run }, noting(failures));
  left.cut();
  run.end();
  expect(failures).toEqual([expect.any(Error), expect.any(Error)]);
  await until("both are closed", () => left.isClosed && gone.isClosed);
  expect(failures).toHaveLength(2);
});

test("no connection is made to a sandbox that has ended", () => {
  const failures: unknown[] = [];
  const run = new SandboxRun();
  run.end();
  const dialled = { to: { host: "127.0.0.1", port: 9 }, run };
  expect(new SandboxSocket(dialled, noting(failures)).isClosed).toBe(true);
  expect(failures).toEqual([expect.any(Error)]);
});

describe("64 concurrent requests", () => {
  const AT_ONCE = 64;
  const answerTo = (head: string) => {
    const path = head.split(" ")[1] ?? "";
    return `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\nConnection: close\r\n\r\n${path}`;
  };

  test("each get their own response, over kept and over separate connections", async () => {
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

  test("each get a 502 when their sandbox ends", async () => {
    await using edge = new EdgeUnderTest();
    edge.place();
    await using service = await RawService.start(() => {
      if (service.sockets.length === AT_ONCE) edge.end();
    });
    const request = Array.from({ length: AT_ONCE }, () =>
      edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n\r\n`),
    );
    for (const text of await Promise.all(request)) {
      expect(text).toMatch(/^HTTP\/1\.1 502 .*The sandbox was paused or ended/s);
    }
  });
});
