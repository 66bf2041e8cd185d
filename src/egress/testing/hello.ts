/** First messages of TLS connections, valid and invalid. */

interface HelloParts {
  /** Instead of the one extension with the name. */
  extensions?: Buffer;
  recordBytes?: number;
}

export function extension(type: number, content: Buffer): Buffer {
  return Buffer.concat([u16(type), u16(content.length), content]);
}

/** As many entries as are given, each of its type. */
export function serverNames(...entries: (string | [type: number, name: string])[]): Buffer {
  const list = entries.map((entry) => {
    const [type, name] = typeof entry === "string" ? [0, entry] : entry;
    return Buffer.concat([Buffer.from([type]), u16(name.length), Buffer.from(name, "latin1")]);
  });
  return extension(0, vector16(Buffer.concat(list)));
}

/** Of the message, without records. */
export function helloMessage(extensions: Buffer | undefined): Buffer {
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    Buffer.from([32]),
    Buffer.alloc(32, 9),
    vector16(Buffer.from([0x1a, 0x1a, 0x13, 0x01])),
    Buffer.from([1, 0]),
    extensions === undefined ? Buffer.alloc(0) : vector16(extensions),
  ]);
  return Buffer.concat([Buffer.from([1, 0]), u16(body.length), body]);
}

export function records(message: Buffer, recordBytes = 16_384): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < message.length; at += recordBytes) {
    const piece = message.subarray(at, at + recordBytes);
    pieces.push(Buffer.from([22, 3, 1]), u16(piece.length), piece);
  }
  return Buffer.concat(pieces);
}

export function hello(name: string, { extensions, recordBytes }: HelloParts = {}): Buffer {
  return records(helloMessage(extensions ?? serverNames(name)), recordBytes);
}

function vector16(content: Buffer): Buffer {
  return Buffer.concat([u16(content.length), content]);
}

function u16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 255]);
}
