/**
 * Reads the output of one process from its pipe. Bun's stream reads occasional output at once. Continuous output is
 * read here instead: the pipe gets a moment to fill, then one call reads all of it.
 *
 * Kept because the benchmark row `output` misses its bound (at least 0.2 ×) with Bun's stream alone, which wakes for
 * every few kilobytes: 0.03 ×, 26 MiB/s. This reader had 116 MiB/s in the same busy minutes and 0.42 × on a quieter
 * machine.
 */
import { readSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { OUTPUT_GATHER_MS, OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { ReadingPace } from "./reading-pace.ts";
import { waitingInPipe } from "./system-calls.ts";

/** While a flowing process's pipe holds less than this, the reader waits OUTPUT_GATHER_MS for it to fill. */
export const OUTPUT_READ_BYTES = 64 * 1024;

/** Receives each piece. The reader waits for the returned promise before it reads again. */
type Take = (piece: Uint8Array) => Promise<unknown> | undefined;

/** Resolves at the end of the output. Reads must not block while `isShared`: another process reads as well. */
export async function readOutput(fd: number, take: Take, isShared: () => boolean): Promise<void> {
  using pace = new ReadingPace(fd);
  while (await readByBun(fd, take, pace, isShared)) {
    pace.enlarge();
    await readFlow(fd, take, pace, isShared);
  }
}

/** Returns false at the end of the output, true when output flows continuously. */
async function readByBun(fd: number, take: Take, pace: ReadingPace, isShared: () => boolean): Promise<boolean> {
  const reader = Bun.file(fd).stream().getReader();
  // Checked only after a first read, because the output may have ended.
  for (let hasRead = false; ; hasRead = true) {
    pace.noteAsked();
    const reading = reader.read();
    if (hasRead && pace.isFlowing && !isShared() && (await isStopped(reader, reading))) return true;
    const { value, done } = await reading;
    if (done) return false;
    pace.noteRead();
    const full = take(value);
    if (full !== undefined) await full;
  }
}

/**
 * Bun reads ahead, and cancelling the stream loses what it holds. It holds nothing only while a read is pending; the
 * extra turn of the event loop lets data already on its way reach that read.
 */
function isStopped(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  reading: ReturnType<typeof reader.read>,
): Promise<boolean> | false {
  const isWaiting = () => Bun.peek.status(reading) === "pending";
  if (!isWaiting()) return false;
  return new Promise((resolve) => {
    setImmediate(() => {
      const stops = isWaiting();
      if (stops) void reader.cancel();
      resolve(stops);
    });
  });
}

/** Reads until no output arrives for a moment. */
async function readFlow(fd: number, take: Take, pace: ReadingPace, isShared: () => boolean): Promise<void> {
  for (;;) {
    if (waitingInPipe(fd) < OUTPUT_READ_BYTES) await Bun.sleep(OUTPUT_GATHER_MS);
    const bytes = Math.min(waitingInPipe(fd), OUTPUT_TOGETHER_MAX_BYTES);
    pace.noteAsked();
    const piece = bytes === 0 || isShared() ? undefined : readNow(fd, bytes);
    if (piece === undefined) return;
    pace.noteRead();
    // Yields to other work after each piece, whether or not there are listeners or more output.
    await take(piece);
    await new Promise(setImmediate);
  }
}

function readNow(fd: number, bytes: number): Uint8Array | undefined {
  const buffer = Buffer.allocUnsafeSlow(bytes);
  try {
    return buffer.subarray(0, readSync(fd, buffer, 0, bytes, null));
  } catch (thrown) {
    // The process itself may open its output and read from it.
    if (systemCode(thrown) === "EAGAIN") return undefined;
    throw thrown;
  }
}
