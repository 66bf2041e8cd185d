/** Connections are read in turns: fake connections on the real event loop. */
import { expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { EDGE_SHORT_BODY_MAX_BYTES, EDGE_TURN_MS, Reading } from "./reading.ts";

type Bytes = Buffer<ArrayBuffer>;

/** Each piece takes it longer than one turn has. */
class Busy {
  readonly reading = new Reading(this);
  readonly taken: string[] = [];
  isStopped = false;
  onTake: (bytes: Bytes) => void = () => undefined;

  take(bytes: Bytes): void {
    for (const beganMs = performance.now(); performance.now() < beganMs + EDGE_TURN_MS; );
    this.taken.push(bytes.length < 100 ? bytes.toString() : "long");
    this.onTake(bytes);
  }

  pauseReading(): void {
    this.isStopped = true;
  }

  resumeReading(): void {
    this.isStopped = false;
  }

  get takenText(): string {
    return this.taken.join(" ");
  }
}

const LONG = () => Buffer.alloc(EDGE_SHORT_BODY_MAX_BYTES) as Bytes;
const TEXT = (text: string) => Buffer.from(text) as Bytes;

test("a long body waits for the next turn when its share is used, and a short one does not", async () => {
  const [first, second, short] = [new Busy(), new Busy(), new Busy()];
  for (const one of [first, second]) one.reading.data(LONG());
  first.reading.data(TEXT("1"));
  second.reading.data(TEXT("2"));
  second.reading.data(TEXT("3"));
  short.reading.data(TEXT("at once"));
  expect([first.takenText, second.takenText, short.takenText]).toEqual(["long", "long", "at once"]);
  expect([first.isStopped, second.isStopped, short.isStopped]).toEqual([true, true, false]);
  await until("both had a turn", () => !first.isStopped && !second.isStopped);
  expect([first.takenText, second.takenText]).toEqual(["long 1", "long 23"]);
  second.reading.beginAnew();
  first.reading.data(TEXT("4"));
  second.reading.data(TEXT("another request"));
  expect(second.takenText).toBe("long 23 another request");
});

test("turns rotate: a connection with more than one share lets others go first", async () => {
  const order: string[] = [];
  const all = ["a", "b", "c"].map((name) => {
    const one = new Busy();
    let left = 3;
    one.onTake = (bytes) => {
      order.push(name);
      if (--left > 0) one.reading.later(bytes);
    };
    return one;
  });
  for (const one of all) one.reading.data(TEXT("x"));
  await until("all is taken", () => order.length === 9);
  expect(order.join("")).toBe("abcabcabc");
});

test("waiting data is not delivered while its owner pauses it, and before the connection's end", async () => {
  const one = new Busy();
  one.onTake = (bytes) => {
    if (bytes.toString() === "twice") {
      one.reading.later(TEXT("second"));
      one.reading.hold();
    }
  };
  one.reading.data(TEXT("twice"));
  one.reading.end(() => one.taken.push("end"));
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect(one.takenText).toBe("twice");
  one.reading.release();
  await until("its end is told", () => one.taken.length === 3);
  expect(one.takenText).toBe("twice second end");
});

test("waiting data is dropped if its owner discards it", async () => {
  const one = new Busy();
  one.reading.later(TEXT("unwanted"));
  one.reading.drop();
  one.reading.end(() => one.taken.push("end"));
  await new Promise(setImmediate);
  expect(one.takenText).toBe("end");
});
