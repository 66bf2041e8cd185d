/** The buffer of events that wait for their client. */
import { expect, test } from "bun:test";
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { refuse } from "../../system/rpc-fault.ts";
import { EventBuffer } from "./event-buffer.ts";

const QUIET_MS = 10_000;
const created = (name: string) => ({ name, type: EventType.CREATE });
const written = (name: string) => ({ name, type: EventType.WRITE });
/** Adds events that cost a mebibyte each. */
const filled = (buffer: EventBuffer, mebibytes: number) => () => {
  for (let at = 0; at < mebibytes; at++) buffer.add(created(`${at}`.padEnd(512 * 1024 - 128)));
};

test("events are delivered in order, then nothing, then the end", async () => {
  const buffer = new EventBuffer();
  buffer.add(created("a"));
  buffer.add(written("a"));
  expect(await buffer.take(QUIET_MS)).toEqual([created("a"), written("a")]);
  expect(await buffer.take(5)).toBe("idle");
  const waiting = buffer.take(QUIET_MS);
  buffer.close();
  expect(await waiting).toBe("closed");
});

test("only an event equal to the last one is merged with it", () => {
  const buffer = new EventBuffer();
  for (const event of [created("a"), created("a"), written("a"), written("a"), written("b"), written("a")]) {
    buffer.add(event);
  }
  const expected = [created("a"), created("a"), written("a"), written("b"), written("a")];
  expect(buffer.takeAll()).toEqual(expected);
});

test("a full buffer throws, is emptied, and returns its share of the total bytes", () => {
  const full = new EventBuffer();
  expect(filled(full, 17)).toThrow("take events faster");
  expect(full.takeAll()).toEqual([]);
  const others = Array.from({ length: 4 }, () => new EventBuffer());
  for (const other of others) expect(filled(other, 15)).not.toThrow();
  expect(filled(new EventBuffer(), 15)).toThrow("take events faster");
  for (const other of others) other.close();
  const last = new EventBuffer();
  expect(filled(last, 15)).not.toThrow();
  last.close();
});

test("a stream gets waiting events before a failure; a poll gets the failure every time", async () => {
  const buffer = new EventBuffer();
  buffer.add(created("a"));
  buffer.fail(refuse("internal", "lost"));
  expect(await buffer.take(QUIET_MS)).toEqual([created("a")]);
  expect(await buffer.take(QUIET_MS).catch((thrown: Error) => thrown.message)).toBe("lost");
  expect(() => buffer.takeAll()).toThrow("lost");
  expect(() => buffer.takeAll()).toThrow("lost");
});
