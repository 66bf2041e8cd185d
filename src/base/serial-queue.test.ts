import { describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";
import { KeyedQueue, SerialQueue } from "./serial-queue.ts";

/** Work that the test holds open; records its start in `begun`. */
function gated(begun: string[], name: string) {
  const gate = Promise.withResolvers<string>();
  const work = () => {
    begun.push(name);
    return gate.promise;
  };
  return { work, end: () => gate.resolve(name), fail: () => gate.reject(new Error(name)) };
}

describe("one at a time", () => {
  test("calls run in order: the first at once, each next when the previous has ended", async () => {
    const begun: string[] = [];
    const line = new SerialQueue();
    const [a, b, c] = [gated(begun, "a"), gated(begun, "b"), gated(begun, "c")];
    const answers = [line.run(a.work), line.run(b.work), line.run(c.work)];
    expect(begun).toEqual(["a"]);
    c.end();
    b.end();
    await setImmediate();
    expect(begun).toEqual(["a"]);
    a.end();
    expect(await Promise.all(answers)).toEqual(["a", "b", "c"]);
    expect(begun).toEqual(["a", "b", "c"]);
  });

  test("a failure reaches its own caller only, and the next call runs", async () => {
    const begun: string[] = [];
    const line = new SerialQueue();
    const a = gated(begun, "a");
    const failed = line.run(a.work);
    const next = line.run(async () => "next");
    a.fail();
    await expect(failed).rejects.toThrow("a");
    expect(await next).toBe("next");
    const thrown = line.run((): Promise<void> => {
      throw new Error("at once");
    });
    await expect(thrown).rejects.toThrow("at once");
    expect(line.isIdle).toBe(true);
  });

  test("settled waits for running calls, and for those that arrive meanwhile", async () => {
    const begun: string[] = [];
    const line = new SerialQueue();
    const [a, b] = [gated(begun, "a"), gated(begun, "b")];
    await line.settled();
    let later: Promise<string> | undefined;
    const first = line.run(a.work).then(() => {
      later = line.run(b.work);
    });
    let isSettled = false;
    const settled = line.settled().then(() => {
      isSettled = true;
    });
    a.end();
    await first;
    await setImmediate();
    expect(isSettled).toBe(false);
    b.end();
    await settled;
    expect(await later).toBe("b");
  });
});

describe("one at a time by key", () => {
  test("keys do not wait for each other", async () => {
    const begun: string[] = [];
    const lines = new KeyedQueue();
    const [a, b, c] = [gated(begun, "a"), gated(begun, "b"), gated(begun, "c")];
    const answers = [lines.run("x", a.work), lines.run("x", b.work), lines.run("y", c.work)];
    expect(begun).toEqual(["a", "c"]);
    a.end();
    b.end();
    c.end();
    expect(await Promise.all(answers)).toEqual(["a", "b", "c"]);
  });

  test("a new call waits behind the waiting ones", async () => {
    const lines = new KeyedQueue();
    let inside = 0;
    let most = 0;
    const step = async () => {
      most = Math.max(most, ++inside);
      await Promise.resolve();
      inside--;
    };
    const chain = async () => {
      for (let nth = 0; nth < 50; nth++) await lines.run("x", step);
    };
    await Promise.all([chain(), chain(), chain()]);
    expect(most).toBe(1);
    await lines.settled();
  });

  test("settled waits for all keys", async () => {
    const begun: string[] = [];
    const lines = new KeyedQueue();
    const [a, b] = [gated(begun, "a"), gated(begun, "b")];
    const answers = [lines.run("x", a.work), lines.run("y", b.work)];
    let isSettled = false;
    const settled = lines.settled().then(() => {
      isSettled = true;
    });
    a.end();
    await setImmediate();
    expect(isSettled).toBe(false);
    b.end();
    await settled;
    await Promise.all(answers);
  });
});
