/** Splits a TCP connection into DNS messages, each prefixed by its length (RFC 7766). */
import type { Socket } from "node:net";

const LENGTH_BYTES = 2;

/** Ends at a message that is empty or longer than `most` bytes. Later bytes stay unread meanwhile. */
export async function* dnsMessages(socket: Socket, maxBytes: number): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  for await (const piece of socket) {
    rest = Buffer.concat([rest, piece as Buffer]);
    for (;;) {
      if (rest.length < LENGTH_BYTES) break;
      const length = rest.readUInt16BE(0);
      if (length === 0 || length > maxBytes) return;
      if (rest.length < LENGTH_BYTES + length) break;
      yield rest.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
      rest = rest.subarray(LENGTH_BYTES + length);
    }
  }
}

export function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(message.length, 0);
  return Buffer.concat([length, message]);
}
