/** Output of real processes through real pipes: complete and ordered at every pace, in large pieces while it flows. */
import { expect, test } from "bun:test";
import { closeSync } from "node:fs";
import { openPipe } from "../../base/c-library.ts";
import { until, untilStill } from "../../base/testing/until.ts";
import { OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { OUTPUT_READ_BYTES, readOutput } from "./output-reading.ts";
import { setNonBlocking, waitingInPipe } from "./system-calls.ts";

const WITHIN_MS = 60_000;
const MIB = 1024 ** 2;

type Take = (piece: Uint8Array, pipe: number) => Promise<unknown> | undefined;

/** Reads all that a shell script prints. */
async function readFrom(script: string, take: Take, isShared = () => false): Promise<void> {
  const { readEnd, writeEnd } = openPipe();
  setNonBlocking(readEnd);
  await using child = Bun.spawn(["sh", "-c", script], { stdio: ["ignore", writeEnd, "inherit"] });
  closeSync(writeEnd);
  try {
    await readOutput(readEnd, (piece) => take(piece, readEnd), isShared);
  } finally {
    closeSync(readEnd);
    child.kill();
  }
}

const digestOf = (script: string) =>
  new Bun.CryptoHasher("sha256").update(Bun.spawnSync(["sh", "-c", script]).stdout).digest("hex");

// Guards against stopping Bun where a read does not wait: what Bun has read ahead is lost.
test.each([
  ["without a pause", "seq 1 4000000"],
  ["in bursts", "for to in 300000 300001 300002 300003; do seq 1 $to; sleep 0.01; done"],
  [
    "now and then after a burst",
    "for from in 1 2 3 4; do seq 1 200000; for n in 1 2 3; do echo $n; sleep 0.005; done; done",
  ],
  ["in tiny pieces", "for n in $(seq 1 30000); do echo $n; done"],
])(
  "output printed %s arrives complete and in order, for fast and slow readers",
  async (_, script) => {
    const expected = digestOf(script);
    for (const slowEvery of [0, 3, 50]) {
      const hash = new Bun.CryptoHasher("sha256");
      let pieces = 0;
      await readFrom(script, (piece) => {
        hash.update(piece);
        pieces++;
        return slowEvery > 0 && pieces % slowEvery === 0 ? Bun.sleep(pieces % 4) : undefined;
      });
      expect(hash.digest("hex")).toBe(expected);
    }
  },
  WITHIN_MS,
);

/** Bun's pieces are none. */
const isReadHere = (piece: Uint8Array) => Buffer.isBuffer(piece);

const FLOOD = `head -c ${64 * MIB} /dev/zero`;

test("a flow is read in few large pieces of bounded length", async () => {
  const lengths: number[] = [];
  const sumOf = (some: readonly number[]) => some.reduce((sum, length) => sum + length, 0);
  await readFrom(FLOOD, (piece, pipe) => {
    lengths.push(piece.length);
    // The pipe fills as far as it can, however slowly the machine runs the writer.
    const isFilling = isReadHere(piece) && sumOf(lengths) < 60 * MIB;
    return isFilling ? until("the pipe fills", () => waitingInPipe(pipe) > OUTPUT_READ_BYTES) : Bun.sleep(0);
  });
  expect(sumOf(lengths)).toBe(64 * MIB);
  const large = lengths.filter((length) => length > OUTPUT_READ_BYTES && length <= OUTPUT_TOGETHER_MAX_BYTES);
  expect(sumOf(large)).toBeGreaterThan(32 * MIB);
});

// Guards against a reader that does not wait.
test("at most one piece is in transit while no listener reads", async () => {
  const taken = Promise.withResolvers<void>();
  let bytes = 0;
  const reading = readFrom(FLOOD, (piece) => {
    bytes += piece.length;
    return bytes > MIB ? taken.promise : undefined;
  });
  await until("somebody takes no more", () => bytes > MIB);
  expect(await untilStill(() => bytes)).toBeLessThanOrEqual(MIB + 2 * OUTPUT_TOGETHER_MAX_BYTES);
  taken.resolve();
  await reading;
  expect(bytes).toBe(64 * MIB);
});

// Guards against yielding only where a piece has to wait, and only where it does not.
test.each([
  ["at once", undefined],
  ["a moment later", Promise.resolve()],
])("a flow without pauses, taken %s, does not block the event loop", async (_, taken) => {
  let turns = 0;
  let pieces = 0;
  const timer = setInterval(() => turns++, 1);
  await readFrom("timeout 0.5 cat /dev/zero", (piece) => {
    if (!isReadHere(piece)) return taken;
    pieces++;
    // It fills meanwhile.
    Bun.sleepSync(2);
    return taken;
  });
  clearInterval(timer);
  expect(turns).toBeGreaterThan(pieces / 4);
});

// Guards against reading on: a reader of a shared pipe may wait forever.
test("a pipe with other readers is left to Bun", async () => {
  const readHere = { before: 0, after: 0 };
  let isShared = false;
  await readFrom(
    FLOOD,
    (piece) => {
      if (isReadHere(piece)) readHere[isShared ? "after" : "before"]++;
      isShared ||= readHere.before > 5;
      return undefined;
    },
    () => isShared,
  );
  expect(readHere).toEqual({ before: 6, after: 0 });
});
