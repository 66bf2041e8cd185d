import { expect, test } from "bun:test";
import { SLOT_FIRST, SLOT_LAST } from "../../contract/address-plan.ts";
import { Slots } from "./slots.ts";

test("a freed slot rests until all others had their turn", () => {
  const slots = new Slots();
  const first = slots.take();
  slots.free(first);
  const others = Array.from({ length: SLOT_LAST - SLOT_FIRST }, () => slots.take());
  expect(others).not.toContain(first);
  expect(slots.take()).toBe(first);
});

test("the requested slot is given if it is free, else another", () => {
  const slots = new Slots();
  expect(slots.takePreferring(77)).toBe(77);
  expect(slots.takePreferring(77)).toBe(SLOT_FIRST);
  expect(slots.takePreferring(undefined)).toBe(SLOT_FIRST + 1);
});

test("slots of adopted sandboxes are in use, and the error of a full machine has their number", () => {
  const slots = new Slots();
  slots.adopt(SLOT_FIRST);
  const taken = Array.from({ length: SLOT_LAST - SLOT_FIRST }, () => slots.take());
  expect(taken).not.toContain(SLOT_FIRST);
  expect(() => slots.take()).toThrow("all 4093 network slots are in use");
  slots.free(SLOT_FIRST);
  expect(slots.take()).toBe(SLOT_FIRST);
});
