/** A test's name server, with a table that the test may change. */
import { questionOf } from "../dns-message.ts";

export interface NameTable extends Disposable {
  address: string;
  port: number;
  /** The addresses of each name. A name that leads to none does not exist; one with null is never answered. */
  readonly names: Map<string, readonly string[] | null>;
  readonly queries: string[];
  ttlSeconds: number;
}

/** `port` zero: any. */
export async function openNameTable(address: string, port = 0): Promise<NameTable> {
  const table = { names: new Map<string, readonly string[] | null>(), queries: [] as string[], ttlSeconds: 60 };
  const socket = await Bun.udpSocket({
    hostname: address,
    port,
    socket: {
      data: (from, query, port, sender) => {
        const question = questionOf(query) ?? Buffer.alloc(0);
        const name = nameIn(question);
        table.queries.push(name);
        const addresses = table.names.get(name);
        if (addresses !== null) from.send(answer(query, question, addresses ?? [], table.ttlSeconds), port, sender);
      },
      error: () => undefined,
    },
  });
  return Object.assign(table, { address, port: socket.port, [Symbol.dispose]: () => socket.close() });
}

function nameIn(question: Buffer): string {
  const labels: string[] = [];
  for (let at = 0; (question[at] ?? 0) > 0; at += 1 + (question[at] ?? 0)) {
    labels.push(question.toString("latin1", at + 1, at + 1 + (question[at] ?? 0)));
  }
  return labels.join(".");
}

function answer(query: Buffer, question: Buffer, addresses: readonly string[], ttlSeconds: number): Buffer {
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  const records = addresses.map((address) =>
    Buffer.from([
      0xc0,
      12,
      0,
      1,
      0,
      1,
      0,
      0,
      ttlSeconds >> 8,
      ttlSeconds & 255,
      0,
      4,
      ...address.split(".").map(Number),
    ]),
  );
  return Buffer.concat([header, question, ...records]);
}
