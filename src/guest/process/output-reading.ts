/**
 * Reads the output of one process from its pipe. Occasional output is read by Bun's stream, at once. A process that
 * prints without a pause is read here: everything in the pipe by one call, after the pipe had a moment to fill.
 *
 * Kept because the benchmark row `output` misses its bound (at least 0.2 ×) with Bun's stream alone, which is woken for
 * every few kilobytes: 0.03 ×, 26 MiB/s, where this reader had 116 MiB/s in the same busy minutes and 0.42 × on a
 * quieter machine.
 */
import { readSync } from "node:fs";
import { OUTPUT_GATHER_MS, OUTPUT_READ_BYTES, OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { systemCode } from "../system/rpc-fault.ts";
import { ReadingPace } from "./reading-pace.ts";
import { waitingInPipe } from "./system-calls.ts";

/** Gets each piece. Nothing is read before the promise settles that it may answer. */
type Take = (piece: Uint8Array) => Promise<unknown> | undefined;

/** Resolves at the end of the output. Where somebody else reads, too, which `isShared` tells, nothing here may wait. */
export async function readOutput(fd: number, take: Take, isShared: () => boolean): Promise<void> {
  using pace = new ReadingPace(fd);
  while (await readByBun(fd, take, pace, isShared)) {
    if (pace.enlarge()) await readFlow(fd, take, pace, isShared);
  }
}

/** False: it has ended. True: it flows. */
async function readByBun(fd: number, take: Take, pace: ReadingPace, isShared: () => boolean): Promise<boolean> {
  const reader = Bun.file(fd).stream().getReader();
  // Only after something has come: it may have ended.
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
 * Bun reads ahead, and what it holds would be lost with the stream. A read that waits is the one moment in which it
 * holds nothing; a turn of its own is for what is on its way from Bun to that read.
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

/** Until nothing has come for a moment. */
async function readFlow(fd: number, take: Take, pace: ReadingPace, isShared: () => boolean): Promise<void> {
  for (;;) {
    if (waitingInPipe(fd) < OUTPUT_READ_BYTES) await Bun.sleep(OUTPUT_GATHER_MS);
    const bytes = Math.min(waitingInPipe(fd), OUTPUT_TOGETHER_MAX_BYTES);
    pace.noteAsked();
    const piece = bytes === 0 || isShared() ? undefined : readNow(fd, bytes);
    if (piece === undefined) return;
    pace.noteRead();
    // Others have their turn, whoever listens or does not, and whether or not the next piece is there.
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
