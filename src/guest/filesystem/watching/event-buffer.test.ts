/** The buffer of events that wait for their client. */
import { expect, test } from "bun:test";
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { refuse } from "../../system/rpc-fault.ts";
import { BufferBudget, EventBuffer } from "./event-buffer.ts";

const QUIET_MS = 10_000;
const created = (name: string) => ({ name, type: EventType.CREATE });
const written = (name: string) => ({ name, type: EventType.WRITE });
const filled = (buffer: EventBuffer, events: number) => () => {
  for (let at = 0; at < events; at++) buffer.add(created(`f${at}`));
};

test("events come in order, then silence, then the end", async () => {
  const buffer = new EventBuffer(new BufferBudget());
  buffer.add(created("a"));
  buffer.add(written("a"));
  expect(await buffer.take(QUIET_MS)).toEqual([created("a"), written("a")]);
  expect(await buffer.take(5)).toBe("idle");
  const waiting = buffer.take(QUIET_MS);
  buffer.close();
  expect(await waiting).toBe("closed");
});

test("only what merely repeats the last event is merged with it", () => {
  const buffer = new EventBuffer(new BufferBudget());
  for (const event of [created("a"), created("a"), written("a"), written("a"), written("b"), written("a")]) {
    buffer.add(event);
  }
  const expected = [created("a"), created("a"), written("a"), written("b"), written("a")];
  expect(buffer.takeAll()).toEqual(expected);
});

test("a full buffer throws and holds nothing, and gives its share of the budget back", () => {
  const budget = new BufferBudget(30_000);
  const full = new EventBuffer(budget, 10_000);
  expect(filled(full, 100)).toThrow("take events faster");
  expect(full.takeAll()).toEqual([]);
  const other = new EventBuffer(budget, 1_000_000);
  expect(filled(other, 100)).not.toThrow();
  expect(filled(new EventBuffer(budget, 1_000_000), 100)).toThrow("take events faster");
  other.close();
  expect(filled(new EventBuffer(budget, 1_000_000), 100)).not.toThrow();
});

test("a stream gets what was waiting before a failure; who polls gets the failure, every time", async () => {
  const buffer = new EventBuffer(new BufferBudget());
  buffer.add(created("a"));
  buffer.fail(refuse("internal", "lost"));
  expect(await buffer.take(QUIET_MS)).toEqual([created("a")]);
  expect(await buffer.take(QUIET_MS).catch((thrown: Error) => thrown.message)).toBe("lost");
  expect(() => buffer.takeAll()).toThrow("lost");
  expect(() => buffer.takeAll()).toThrow("lost");
});
