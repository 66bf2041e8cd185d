/**
 * Checks by its first bytes that an upload is a gzip or tar archive. The server reads nothing more of it; unpacking
 * happens inside a sandbox.
 */
import { Fault } from "../../contract/fault.ts";

const BLOCK_BYTES = 512;
const CHECKSUM_AT = 148;
const CHECKSUM_BYTES = 8;

/**
 * Passes the stream on once it begins like an archive. The stream fails at its end if its length differs from the
 * announced one, or with the reason of `stop`. Fault 400 when it is not an archive.
 */
export async function checkedArchive(
  content: ReadableStream<Uint8Array>,
  announcedBytes: number | undefined,
  stop: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const reader = content.getReader();
  // Racing each read with a promise that outlives the upload would keep every chunk in memory.
  stop.addEventListener("abort", () => void reader.cancel().catch(() => undefined), { once: true });
  const read = async () => {
    const piece = await reader.read();
    stop.throwIfAborted();
    return piece;
  };
  const first: Uint8Array[] = [];
  let peeked = 0;
  let isOver = false;
  while (peeked < BLOCK_BYTES && !isOver) {
    const { done, value } = await read();
    isOver = done;
    if (value === undefined) continue;
    first.push(value);
    peeked += value.length;
  }
  const beginning = Buffer.concat(first);
  if (!isGzip(beginning) && !isTar(beginning)) {
    await reader.cancel().catch(() => undefined);
    throw new Fault(400, "the upload is not an archive; send a tar archive, gzipped or not");
  }
  let bytes = 0;
  const counted = (chunk: Uint8Array) => {
    bytes += chunk.length;
    return chunk;
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = first.shift();
        if (next !== undefined) return controller.enqueue(counted(next));
        const { done, value } = isOver ? { done: true, value: undefined } : await read();
        if (!done && value !== undefined) return controller.enqueue(counted(value));
        if (announcedBytes !== undefined && bytes !== announcedBytes) {
          throw new Fault(400, `the upload ended after ${bytes} of ${announcedBytes} bytes; send it again`);
        }
        controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

function isGzip(beginning: Uint8Array): boolean {
  return beginning[0] === 0x1f && beginning[1] === 0x8b;
}

/** The first block is a header whose checksum is right, or the zeros that end an archive without entries. */
function isTar(beginning: Uint8Array): boolean {
  const block = beginning.subarray(0, BLOCK_BYTES);
  if (block.length < BLOCK_BYTES) return false;
  if (block.every((byte) => byte === 0)) return true;
  const field = block.subarray(CHECKSUM_AT, CHECKSUM_AT + CHECKSUM_BYTES);
  const written = /^[ \0]*([0-7]+)[ \0]*$/.exec(Buffer.from(field).toString("latin1"))?.[1];
  // In the checksum the field itself counts as spaces.
  const sum = block.reduce((total, byte) => total + byte, 0) - field.reduce((total, byte) => total + byte, 0);
  return written !== undefined && Number.parseInt(written, 8) === sum + CHECKSUM_BYTES * 0x20;
}
