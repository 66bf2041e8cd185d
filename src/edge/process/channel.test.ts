import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { Channel, callLine } from "./channel.ts";

interface Calls {
  add(one: number, other: number): number;
  nothing(): Promise<undefined>;
  refuse(): never;
  fail(): never;
  wait(): Promise<string>;
}

function pair(calls: object) {
  const lines: string[] = [];
  const theirs = new Channel<Calls>((line) => queueMicrotask(() => ours.received(line)), calls);
  const ours = new Channel<Calls>((line) => {
    lines.push(line);
    queueMicrotask(() => theirs.received(line));
  }, {});
  return { ours, lines };
}

const { promise, resolve } = Promise.withResolvers<string>();
const calls: Calls = {
  add: (one, other) => one + other,
  nothing: async () => undefined,
  refuse: () => {
    throw new Fault(429, "too often", { errorCode: "often", headers: { "retry-after": "1" } });
  },
  fail: () => {
    throw new TypeError("broken");
  },
  wait: () => promise,
};

test("calls are answered in any order, each with its own result", async () => {
  const { ours, lines } = pair(calls);
  const waits = ours.call("wait");
  expect(await ours.call("add", 2, 3)).toBe(5);
  expect(await ours.call("nothing")).toBeUndefined();
  resolve("at last");
  expect(await waits).toBe("at last");
  expect(lines).toHaveLength(3);
});

test("one-way messages run in order and get no reply, even if they fail", async () => {
  const done: string[] = [];
  const answers: string[] = [];
  const take = (what: string) => {
    done.push(what);
    if (what === "second") throw new Error("no");
  };
  const theirs = new Channel<object>((line) => answers.push(line), { take });
  const tell = (what: string) => theirs.received(callLine<{ take(what: string): void }>("take", what));
  tell("first");
  tell("second");
  theirs.received('{"id":7,"call":"take","args":["third"]}');
  await Bun.sleep(0);
  expect(done).toEqual(["first", "second", "third"]);
  expect(answers).toEqual(['{"id":7}\n']);
});

test("a Fault arrives as a Fault, and other errors with their message", async () => {
  const { ours } = pair(calls);
  const fault = await ours.call("refuse").catch((thrown: unknown) => thrown as Fault);
  expect(fault).toMatchObject({ status: 429, message: "too often", errorCode: "often" });
  expect(fault).toHaveProperty("headers.retry-after", "1");
  await expect(ours.call("fail")).rejects.toThrow("TypeError: broken");
});

test("only offered methods can be called", async () => {
  const { ours } = pair(calls);
  for (const name of ["constructor", "toString", "__proto__", "absent"]) {
    await expect(ours.call(name as "fail")).rejects.toThrow(`unknown call "${name}"`);
  }
});

test("when the other side is gone, pending and later calls fail", async () => {
  const { ours } = pair({ wait: () => new Promise(() => undefined) });
  const waits = ours.call("wait");
  ours.close();
  await expect(waits).rejects.toThrow("an edge process ended");
  await expect(ours.call("nothing")).rejects.toThrow("an edge process ended");
});
