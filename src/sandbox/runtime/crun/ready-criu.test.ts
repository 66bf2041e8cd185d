/** One CRIU process is started ahead of demand. */
import { expect, test } from "bun:test";
import { ManualClock } from "../../../base/testing/manual-clock.ts";
import type { CriuProcess } from "./criu-process.ts";
import { ReadyCriu } from "./ready-criu.ts";

/** Longer than it takes until the next one is started. */
const RENEWED_MS = 300;

const passing = (clock: ManualClock) => () => clock.advance(RENEWED_MS, async () => undefined);

function readyOf() {
  const ends: (() => void)[] = [];
  const clock = new ManualClock(0);
  const ready = new ReadyCriu(async (ahead) => {
    const ended = Promise.withResolvers<void>();
    ends.push(ended.resolve);
    return {
      criu: { ended: ended.promise } as unknown as CriuProcess,
      pid: ends.length,
      cgroup: `no ${ends.length}`,
      entered: undefined,
      ahead,
    };
  }, clock);
  return { ready, ends, pass: passing(clock) };
}

test("the first CRIU starts on demand, and the next when that is done", async () => {
  const { ready, ends, pass } = readyOf();
  expect(await ready.take()).toMatchObject({ cgroup: "no 1", ahead: false });
  await pass();
  expect(ends.length).toBe(1);
  ready.renewSoon();
  expect(ends.length).toBe(1);
  await pass();
  expect(ends.length).toBe(2);
  expect(await ready.take()).toMatchObject({ cgroup: "no 2", ahead: true });
  expect(ends.length).toBe(2);
});

test("CRIUs are started ahead one at a time, and not beside needed ones", async () => {
  const { ready, ends, pass } = readyOf();
  await ready.take();
  ready.renewSoon();
  await ready.take();
  await pass();
  expect(ends.length).toBe(2);
  for (let times = 0; times < 3; times++) {
    ready.renewSoon();
    await pass();
  }
  expect(ends.length).toBe(3);
});

test("an ended CRIU is not handed out", async () => {
  const { ready, ends, pass } = readyOf();
  await ready.take();
  ready.renewSoon();
  await pass();
  ends[1]?.();
  await Bun.sleep(0);
  expect(await ready.take()).toMatchObject({ cgroup: "no 3", ahead: false });
});

test("no CRIU is left or started after a close", async () => {
  let isOver = false;
  const end = async () => {
    isOver = true;
  };
  const criu = { ended: new Promise(() => undefined), [Symbol.asyncDispose]: end } as unknown as CriuProcess;
  let starts = 0;
  const clock = new ManualClock(0);
  const started = async (ahead: boolean) => ({ criu, pid: 1, cgroup: `no ${++starts}`, entered: undefined, ahead });
  const ready = new ReadyCriu(started, clock);
  ready.renewSoon();
  await passing(clock)();
  await ready.close();
  expect(isOver).toBe(true);
  ready.renewSoon();
  await passing(clock)();
  expect(starts).toBe(1);
});

test("a failed start ahead of demand is ignored", async () => {
  let starts = 0;
  const clock = new ManualClock(0);
  const ready = new ReadyCriu(async (ahead) => {
    if (++starts === 1) throw new Error("not now");
    return {
      criu: { ended: new Promise(() => undefined) } as unknown as CriuProcess,
      pid: 1,
      cgroup: "it",
      entered: undefined,
      ahead,
    };
  }, clock);
  ready.renewSoon();
  await passing(clock)();
  expect(starts).toBe(1);
  expect((await ready.take()).cgroup).toBe("it");
});
