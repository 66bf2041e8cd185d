/**
 * Gzip for downloads. Many clients accept gzip by default, but files such as archives, images and models are often
 * compressed already. Such chunks are stored uncompressed within the gzip format, at disk speed; a sample of each chunk
 * decides.
 */
import { once } from "node:events";
import { constants, crc32, createDeflateRaw, deflateRawSync } from "node:zlib";

/** Deflate, no name, no time, unknown system. Written here, because zlib's gzip stream cannot change its level. */
const HEAD = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff);
const TAIL_BYTES = 8;
const SAMPLE_BYTES = 8 * 1024;
/** A chunk is compressed only if its sample shrinks below this ratio. */
const WORTH_IT = 0.9;
const AS_IT_IS = constants.Z_NO_COMPRESSION;
const QUICK = constants.Z_BEST_SPEED;

/** Writes a single gzip member, because some clients stop after the first. */
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
  const middle = Math.max(0, (chunk.length - SAMPLE_BYTES) >> 1);
  const part = chunk.subarray(middle, middle + SAMPLE_BYTES);
  return deflateRawSync(part, { level: QUICK }).length > part.length * WORTH_IT;
}

function tail(sum: number, bytes: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(TAIL_BYTES));
  view.setUint32(0, sum, true);
  // The gzip format keeps the size modulo 2^32.
  view.setUint32(4, bytes % 2 ** 32, true);
  return new Uint8Array(view.buffer);
}

function settled(act: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => act((error) => (error ? reject(error) : resolve())));
}
