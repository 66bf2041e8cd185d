/** The order of messages and requests to an edge process. */
import { expect, test } from "bun:test";
import type { ServerCalls } from "./calls.ts";
import { ProcessHold, type StartedProcess } from "./process-hold.ts";

async function* silence(): AsyncGenerator<string> {
  await new Promise(() => undefined);
}

function held() {
  const sent: string[] = [];
  const exited = new Promise<string>(() => undefined);
  const started: StartedProcess = {
    lines: silence(),
    send: (lines) => void sent.push(lines),
    kill: () => undefined,
    exited,
  };
  return { sent, hold: new ProcessHold(started, {} as ServerCalls) };
}

test("what may wait is sent at the end of the turn, all of it at once", async () => {
  const { sent, hold } = held();
  hold.tellSoon("one\n");
  await Promise.resolve();
  hold.tellSoon("two\n");
  expect(sent).toEqual([]);
  await new Promise(setImmediate);
  expect(sent).toEqual(["one\ntwo\n"]);
  hold.tellSoon("three\n");
  await new Promise(setImmediate);
  expect(sent).toEqual(["one\ntwo\n", "three\n"]);
});

test("nothing that is told or asked later comes before it", async () => {
  const { sent, hold } = held();
  hold.tellSoon("open\n");
  hold.tell("over\n");
  hold.tellSoon("open again\n");
  void hold.ask("leave", "10.0.0.1").catch(() => undefined);
  expect(sent).toEqual(["open\nover\n", 'open again\n{"id":1,"call":"leave","args":["10.0.0.1"]}\n']);
  await new Promise(setImmediate);
  expect(sent).toHaveLength(2);
});
