/** Which bodies of a sandbox the edge hands to the splicer; the splicer's own tests cover what happens there. */
import { afterAll, expect, test } from "bun:test";
import net from "node:net";
import type { Socket } from "bun";
import type { Splice, Spliced, SpliceRequest } from "../../base/splicing.ts";
import { until } from "../../base/testing/until.ts";
import { EDGE_SPLICED_MIN_BYTES } from "../limits.ts";
import { SandboxRun } from "../routing/route-table.ts";
import { EdgeUnderTest, hostOf } from "../testing/edge-under-test.ts";
import { SELF_SIGNED } from "../testing/self-signed.ts";
import { EDGE_SPLICED_AT_ONCE_MAX, SandboxSocket } from "./sandbox-socket.ts";

const accepted: Socket<unknown>[] = [];
const service = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: { open: (socket) => void accepted.push(socket), data: () => undefined },
});
afterAll(() => service.stop(true));

/** Moves nothing until it is ended. */
class Stalled implements Splice {
  readonly #begun: ((spliced: Spliced) => void)[] = [];
  readonly done: string[] = [];

  begin: Splice["begin"] = (_way, over) => {
    this.#begun.push(over);
    return { stop: () => this.done.push("stop"), cut: () => this.done.push("cut") };
  };

  get isAsked(): boolean {
    return this.#begun.length > 0;
  }

  endAll(): void {
    for (const over of this.#begun.splice(0)) over({ taken: 0, given: 0, isWhole: false, couldNot: false });
  }
}

function dial(
  splice: Splice,
  run: SandboxRun,
  { port = service.port, tlsName }: { port?: number; tlsName?: string } = {},
) {
  return new Promise<SandboxSocket>((opened, notOpened) => {
    const [data, drained, closed] = [() => undefined, () => undefined, () => undefined];
    const listener = { opened, notOpened, data, drained, closed };
    new SandboxSocket({ to: { host: "127.0.0.1", port }, tlsName, run, splice }, listener);
  });
}

const handOver = (socket: SandboxSocket) => socket.spliceTo(1, 1, false, () => undefined);

test("transfers are bounded per sandbox, and ended ones free their places", async () => {
  const splice = new Stalled();
  const [one, other] = [new SandboxRun(), new SandboxRun()];
  const sockets = await Promise.all(Array.from({ length: EDGE_SPLICED_AT_ONCE_MAX + 1 }, () => dial(splice, one)));
  expect(sockets.map(handOver)).toEqual([...Array(EDGE_SPLICED_AT_ONCE_MAX).fill(true), false]);
  const elsewhere = await dial(splice, other);
  expect(handOver(elsewhere)).toBe(true);
  splice.endAll();
  expect(sockets.map(handOver)).toEqual([...Array(EDGE_SPLICED_AT_ONCE_MAX).fill(true), false]);
  one.end();
  expect(splice.done).toEqual(Array(EDGE_SPLICED_AT_ONCE_MAX).fill("cut"));
  other.end();
});

test("a transfer without its connection counts until it ends, and ends with its sandbox", async () => {
  const splice = new Stalled();
  const ended = new SandboxRun();
  const gone = await dial(splice, ended);
  expect(handOver(gone)).toBe(true);
  for (const socket of accepted) socket.terminate();
  await until("it is closed", () => gone.isClosed);
  const others = await Promise.all(Array.from({ length: EDGE_SPLICED_AT_ONCE_MAX }, () => dial(splice, ended)));
  expect(others.map(handOver)).toEqual([...Array(EDGE_SPLICED_AT_ONCE_MAX - 1).fill(true), false]);
  ended.end();
  expect(splice.done).toEqual(Array(EDGE_SPLICED_AT_ONCE_MAX).fill("cut"));
});

test("bodies over TLS are not spliced", async () => {
  const secure = Bun.listen({ hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED, socket: { data: () => undefined } });
  const socket = await dial(new Stalled(), new SandboxRun(), { port: secure.port, tlsName: "localhost" });
  expect(handOver(socket)).toBe(false);
  socket.cut();
  secure.stop(true);
});

test("a spliced response reaches the client only through the splicer, also if it is reset", async () => {
  const splice = new Stalled();
  await using edge = new EdgeUnderTest({ splice });
  let answering: net.Socket | undefined;
  const resetting = net.createServer((socket) => {
    answering = socket.on("error", () => undefined);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 * EDGE_SPLICED_MIN_BYTES}\r\n\r\n`);
  });
  await new Promise<void>((listening) => resetting.listen(0, "127.0.0.1", listening));
  const { port } = resetting.address() as net.AddressInfo;
  const got = edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\n\r\n`);
  await until("it is handed over", () => {
    if (!splice.isAsked) answering?.write("before");
    return splice.isAsked;
  });
  answering?.write("behind");
  answering?.resetAndDestroy();
  const answer = await got;
  expect(answer).toContain("before");
  expect(answer).not.toContain("behind");
  resetting.close();
});

test("a long response in chunks is handed over within a chunk, and is whole if it cannot be spliced", async () => {
  const chunk = Buffer.alloc(300_000, "chunk ");
  const requests: SpliceRequest[] = [];
  const begin: Splice["begin"] = (way, over) => {
    requests.push(way);
    setImmediate(() => over({ taken: 0, given: 0, isWhole: false, couldNot: true }));
    return { stop: () => undefined, cut: () => undefined };
  };
  await using edge = new EdgeUnderTest({ splice: { begin } });
  const chunks = (count: number) =>
    new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < count; sent++) controller.enqueue(chunk);
        controller.close();
      },
    });
  const fetch = ({ url }: Request) => new Response(chunks(Number(new URL(url).pathname.slice(1))));
  using sender = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch });
  const carried = async (count: number) => (await edge.fetch(sender.port ?? 0, `/${count}`)).arrayBuffer();
  expect((await carried(2)).byteLength).toBe(2 * chunk.length);
  expect(requests).toEqual([]);
  expect(Buffer.from(await carried(40)).equals(Buffer.concat(Array(40).fill(chunk)))).toBe(true);
  expect(requests.length).toBeWithin(1, (40 * chunk.length) / EDGE_SPLICED_MIN_BYTES);
  for (const way of requests) expect(way).toMatchObject({ inChunks: true, cuts: "from" });
});
