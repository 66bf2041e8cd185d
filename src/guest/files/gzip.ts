/**
 * Gzip for downloads. Clients ask for it without thinking, and what they fetch is often packed already: an archive, a
 * picture, a model. That is passed on as it is, in the same format, at the speed of the disk; a look into each chunk
 * tells.
 */
import { once } from "node:events";
import { constants, crc32, createDeflateRaw, deflateRawSync } from "node:zlib";

/**
 * Deflate, no name, no time, an unknown system. The stream around deflate is ours: zlib's own cannot change its level.
 */
const HEAD = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff);
const TAIL_BYTES = 8;
const LOOK_BYTES = 8 * 1024;
/** Of a part that shrinks less than this, the rest is not worth the time. */
const WORTH_IT = 0.9;
const AS_IT_IS = constants.Z_NO_COMPRESSION;
const QUICK = constants.Z_BEST_SPEED;

/** One member, whatever is in the chunks: not every client reads on after the first. */
export async function* gzip(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  const packer = createDeflateRaw({ level: QUICK });
  const packed: Uint8Array<ArrayBuffer>[] = [HEAD];
  packer.on("data", (part: Buffer<ArrayBuffer>) => packed.push(part));
  let [level, sum, bytes] = [QUICK, 0, 0];
  try {
    for await (const chunk of chunks) {
      const wanted = isDense(chunk) ? AS_IT_IS : QUICK;
      if (wanted !== level) await settled((done) => packer.params(wanted, constants.Z_DEFAULT_STRATEGY, done));
      level = wanted;
      sum = crc32(chunk, sum);
      bytes += chunk.length;
      await settled((done) => packer.write(chunk, done));
      yield* packed.splice(0);
    }
    packer.end();
    await once(packer, "end");
    yield* packed.splice(0);
    yield tail(sum, bytes);
  } finally {
    packer.destroy();
  }
}

function isDense(chunk: Uint8Array): boolean {
  const middle = Math.max(0, (chunk.length - LOOK_BYTES) >> 1);
  const part = chunk.subarray(middle, middle + LOOK_BYTES);
  return deflateRawSync(part, { level: QUICK }).length > part.length * WORTH_IT;
}

function tail(sum: number, bytes: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(TAIL_BYTES));
  view.setUint32(0, sum, true);
  // As the format has it: only the lower half of a large size.
  view.setUint32(4, bytes % 2 ** 32, true);
  return new Uint8Array(view.buffer);
}

function settled(act: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => act((error) => (error ? reject(error) : resolve())));
}
