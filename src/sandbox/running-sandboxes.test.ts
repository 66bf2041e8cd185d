import { expect, test } from "bun:test";
import { startTicks } from "../system/start-ticks.ts";
import { RunningSandboxes } from "./running-sandboxes.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

function record(id: string, pid: number): SandboxRecord {
  return { id, pid, pidStartTicks: startTicks(pid), slot: 7, controlSecret: "secret" } as SandboxRecord;
}

function table(): RunningSandboxes {
  return new RunningSandboxes("/run/sandboxes", { address: (slot) => `198.18.0.${slot}` });
}

function lostOf(running: RunningSandboxes): string[] {
  return running.lost().map(({ record: { id } }) => id);
}

test("a running sandbox is found with its address, any other is a 404 with its id", () => {
  const running = table();
  running.add(record("i1", process.pid));
  expect(running.require("i1").guest.address).toBe("198.18.0.7");
  expect(() => running.require("i2")).toThrow("sandbox i2 does not run on this machine");
  expect(running.hide("i1")).toBeDefined();
  expect(running.get("i1")).toBeUndefined();
});

// The ready pool checks before it hands one out; the regular check of all is up to half a second old.
test("a sandbox is lost as soon as its first process ends", async () => {
  const running = table();
  const child = Bun.spawn(["sleep", "60"]);
  running.add(record("i1", child.pid));
  running.add(record("i2", process.pid));
  expect([running.isAlive("i1"), lostOf(running)]).toEqual([true, []]);
  child.kill("SIGKILL");
  await child.exited;
  expect([running.isAlive("i1"), lostOf(running)]).toEqual([false, ["i1"]]);
  expect(running.isAlive("unknown")).toBe(false);
});

test("keepOnly drops all others", () => {
  const running = table();
  for (const id of ["i1", "i2", "i3"]) running.add(record(id, process.pid));
  running.keepOnly(new Set(["i2"]));
  expect(["i1", "i2", "i3"].filter((id) => running.has(id))).toEqual(["i2"]);
});

test("a listener gets only sandboxes that have an owner", () => {
  const running = table();
  running.add(record("i1", process.pid));
  running.add(record("i2", process.pid));
  running.announce("i1");
  const received: string[] = [];
  running.listen((event) => received.push(JSON.stringify(event)));
  running.hide("i2");
  running.hide("i1");
  expect(received).toHaveLength(2);
  expect(received[0]).toContain('"inventory"');
  expect(received[0]).toContain('"i1"');
  expect(received[0]).not.toContain('"i2"');
  expect(received[1]).toBe('{"kind":"unreachable","id":"i1"}');
});
