/** The tests' wire carries only faults and plain data. */
import { describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { CheckpointOptions, CreateSandbox, Host, HostEvent } from "../../contract/internal/host.ts";
import { FakeHost } from "./fake-host.ts";
import { serialised } from "./serialised-host.ts";

const kind = { templateId: "t", image: "base", cpuCount: 1, memoryMB: 128, diskSizeMB: 1024 };
const request: CreateSandbox = {
  kind: { ...kind, defaultUser: "user", defaultWorkdir: "/" },
  envVars: {},
  accessTokens: [],
  egress: "open",
};

test("a fault arrives as a Fault, with all but its stack; its cause as text", async () => {
  const host = new FakeHost();
  host.beforeCreate = () => {
    const options = { errorCode: "no_room", headers: { "Retry-After": "3" }, cause: new Error("the disk is full") };
    throw new Fault(507, "no room for i1", options);
  };
  const thrown = await serialised(host)
    .create(request)
    .catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(Fault);
  const { status, message, errorCode, headers, cause } = Fault.from(thrown);
  expect({ status, message, errorCode, headers }).toEqual({
    status: 507,
    message: "no room for i1",
    errorCode: "no_room",
    headers: { "Retry-After": "3" },
  });
  expect(cause).toStartWith("Error: the disk is full");
});

test("any other error becomes a Fault", async () => {
  const host = new FakeHost();
  host.beforeCreate = () => Promise.reject(new TypeError("x is not a function"));
  await expect(serialised(host).create(request)).rejects.toMatchObject({ name: "Fault", status: 500 });
});

test("arguments, results and events are copies", async () => {
  const host = new FakeHost();
  const events: HostEvent[] = [];
  const wired = serialised(host);
  wired.events((event) => void events.push(event));
  const { id } = await wired.create(request);
  expect(host.requestOf(id)).toEqual(request);
  expect(host.requestOf(id)).not.toBe(request);
  expect(events.map((event) => event.kind)).toEqual(["inventory", "reachable"]);
});

describe("values that JSON cannot carry are rejected", () => {
  test.each([
    ["a closure", { memory: true, done: () => undefined }],
    ["a signal", { memory: true, signal: new AbortController().signal }],
    ["a map", { memory: true, owner: new Map([["a", 1]]) }],
    ["a set", { memory: true, owner: new Set(["a"]) }],
    ["a date", { memory: true, owner: new Date(0) }],
    ["a number without end", { memory: true, owner: Number.POSITIVE_INFINITY }],
  ])("%s among the arguments", async (_what, options) => {
    const call = serialised(new FakeHost()).pause("i1", "c", options as unknown as CheckpointOptions);
    await expect(call).rejects.toThrow("what pause is given is not what JSON carries");
  });

  test("a map as a result, or in an event", async () => {
    const host = new FakeHost();
    const sly: Partial<Host> = {
      measure: async () => new Map([["i1", 1]]) as never,
      events: (listener) => listener({ kind: "inventory", reachable: new Set() as never }),
    };
    const wired = serialised(Object.assign(host, sly));
    await expect(wired.measure([])).rejects.toThrow("what measure answers is not what JSON carries");
    expect(() => wired.events(() => undefined)).toThrow("an event is not what JSON carries");
  });
});
