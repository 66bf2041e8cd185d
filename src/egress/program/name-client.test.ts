import { expect, test } from "bun:test";
import { openNameTable } from "../testing/name-table.ts";
import { NameClient } from "./name-client.ts";

test("a name is asked for again when its time to live is over", async () => {
  using table = await openNameTable("127.0.0.1");
  const client = new NameClient(table);
  table.names.set("a.test", ["1.2.3.4", "1.2.3.5"]);
  expect(await client.resolve("A.test.")).toEqual(["1.2.3.4", "1.2.3.5"]);
  expect(await client.resolve("a.test")).toEqual(["1.2.3.4", "1.2.3.5"]);
  expect(table.queries).toEqual(["a.test"]);
  table.ttlSeconds = 0;
  table.names.set("b.test", ["1.2.3.6"]);
  for (let round = 0; round < 3; round++) expect(await client.resolve("b.test")).toEqual(["1.2.3.6"]);
  expect(table.queries).toEqual(["a.test", "b.test", "b.test", "b.test"]);
});

test("calls for the same name at once share one query; clients share nothing", async () => {
  using table = await openNameTable("127.0.0.1");
  const clients = [new NameClient(table), new NameClient(table)];
  table.names.set("a.test", ["1.2.3.4"]);
  await Promise.all(clients.flatMap((client) => [client.resolve("a.test"), client.resolve("a.test")]));
  expect(table.queries).toEqual(["a.test", "a.test"]);
});

test("a name without addresses is not remembered", async () => {
  using table = await openNameTable("127.0.0.1");
  const client = new NameClient(table);
  expect(await client.resolve("a.test")).toEqual([]);
  table.names.set("a.test", ["1.2.3.4"]);
  expect(await client.resolve("a.test")).toEqual(["1.2.3.4"]);
});

const UNUSABLE: [string, (query: Buffer) => Buffer | undefined][] = [
  ["none", () => undefined],
  ["one with another id", (query) => answerTo(query, { id: query.readUInt16BE(0) ^ 1 })],
  ["one for another name", (query) => answerTo(query, { question: Buffer.from("\x01b\x04test\0\0\x01\0\x01") })],
  ["one that is cut off", (query) => answerTo(query).subarray(0, 30)],
];

test("without a usable answer, a name is asked for twice and has no address", async () => {
  const found = UNUSABLE.map(async ([what, answer]) => {
    using server = await openAnswering(answer);
    return [what, await new NameClient(server).resolve("a.test"), server.calls];
  });
  expect(await Promise.all(found)).toEqual(UNUSABLE.map(([what]) => [what, [], 2]));
}, 20_000);

function answerTo(
  query: Buffer,
  { id = query.readUInt16BE(0), flags = 0x8180, question = query.subarray(12, 24) } = {},
) {
  const header = Buffer.alloc(12);
  [id, flags, 1, 1].forEach((value, at) => void header.writeUInt16BE(value, at * 2));
  return Buffer.concat([header, question, Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 6, 6, 6, 6])]);
}

async function openAnswering(answer: (query: Buffer) => Buffer | undefined) {
  const server = { address: "127.0.0.1", port: 0, calls: 0, [Symbol.dispose]: () => socket.close() };
  const socket = await Bun.udpSocket({
    hostname: server.address,
    socket: {
      data: (from, query, port, sender) => {
        server.calls++;
        const given = answer(query);
        if (given !== undefined) from.send(given, port, sender);
      },
    },
  });
  server.port = socket.port;
  return server;
}
