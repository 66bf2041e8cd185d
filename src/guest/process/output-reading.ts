/**
 * Reads the output of one process from its pipe. What comes now and then is read by Bun, at once. What flows is read
 * here: as much as there is by one call, and the pipe is left to fill for a moment once it is nearly empty. Bun would
 * be woken for every few kilobytes, which costs more than all that is done with them.
 */
import { readSync } from "node:fs";
import {
  OUTPUT_FILLED_BYTES,
  OUTPUT_GATHER_MS,
  OUTPUT_READ_BYTES,
  OUTPUT_TOGETHER_MAX_BYTES,
  OUTPUT_VAIN_YIELDS_MAX,
} from "../limits.ts";
import { giveBack, lendMemory } from "../system/lent-memory.ts";
import { systemCode } from "../system/rpc-fault.ts";
import { ReadingPace } from "./reading-pace.ts";
import { waitingInPipe, yieldProcessor } from "./system-calls.ts";

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
  for (let last = 0; ; ) {
    const waiting = last < OUTPUT_FILLED_BYTES ? waitingInPipe(fd) : filled(fd);
    if (waiting < OUTPUT_READ_BYTES) await Bun.sleep(OUTPUT_GATHER_MS);
    const bytes = Math.min(waitingInPipe(fd), OUTPUT_TOGETHER_MAX_BYTES);
    pace.noteAsked();
    const piece = bytes === 0 || isShared() ? undefined : readNow(fd, bytes);
    if (piece === undefined) return;
    last = piece.length;
    pace.noteRead();
    // Others have their turn, whoever listens or does not, and whether or not the next piece is there.
    await take(piece);
    await new Promise(setImmediate);
  }
}

/**
 * How much waits, once a process that prints without a pause has had a chance to. The kernel wakes it where the guest
 * runs, behind the guest; let run, it fills the pipe in less time than any timer takes.
 */
function filled(fd: number): number {
  const untilMs = performance.now() + OUTPUT_GATHER_MS;
  let waiting = waitingInPipe(fd);
  for (let vain = 0; waiting < OUTPUT_FILLED_BYTES && vain < OUTPUT_VAIN_YIELDS_MAX; ) {
    if (performance.now() > untilMs) break;
    yieldProcessor();
    const before = waiting;
    waiting = waitingInPipe(fd);
    vain = waiting > before ? 0 : vain + 1;
  }
  return waiting;
}

function readNow(fd: number, bytes: number): Uint8Array | undefined {
  const buffer = lendMemory(bytes);
  try {
    return buffer.subarray(0, readSync(fd, buffer, 0, bytes, null));
  } catch (thrown) {
    giveBack(buffer);
    // The process itself may open its output and read from it.
    if (systemCode(thrown) === "EAGAIN") return undefined;
    throw thrown;
  }
}
