import { describe, expect, test } from "bun:test";
import { addressOf } from "./sandbox-address.ts";

const ID = "i0123456789abcdefghij";

describe("a request is for a sandbox by its host name", () => {
  test.each([
    [`3000-${ID}.example.com`, ID, 3000],
    [`3000-${ID}.example.com:8443`, ID, 3000],
    [`3000-${ID}.localhost:3000`, ID, 3000],
    [`49983-${ID}-6532622b.example.com`, ID, 49983],
    [`1-a.b`, "a", 1],
    [`65535-a0.b`, "a0", 65535],
  ])("%s", (host, sandboxId, port) => {
    expect(addressOf(new Headers({ host }))).toEqual({ sandboxId, port });
  });

  test("and then routing headers are ignored", () => {
    const headers = new Headers({ host: `3000-${ID}.x.com`, "e2b-sandbox-id": "other", "e2b-sandbox-port": "1" });
    expect(addressOf(headers)).toEqual({ sandboxId: ID, port: 3000 });
  });
});

describe("a request is for the management API", () => {
  test.each([
    "localhost:3000",
    "127.0.0.1:3000",
    "[::1]:3000",
    "api.example.com",
    "my-host.example.com",
    "192-168-1-5.example.com",
    "3000.example.com",
    `3000x-${ID}.example.com`,
    `-${ID}.example.com`,
    `3000-${ID}`,
    `3000-${ID}:3000`,
    "",
  ])("%p without routing headers", (host) => {
    expect(addressOf(new Headers({ host }))).toBeUndefined();
  });

  test("without any host", () => {
    expect(addressOf(new Headers())).toBeUndefined();
  });
});

describe("a sandbox address is invalid", () => {
  test.each([
    [`0-${ID}.x.com`, "Invalid sandbox port"],
    [`65536-${ID}.x.com`, "Invalid sandbox port"],
    [`123456789012345678901-${ID}.x.com`, "Invalid sandbox port"],
    ["3000-.x.com", "Invalid sandbox ID"],
    ["3000-UPPER.x.com", "Invalid sandbox ID"],
    ["3000-a_b.x.com", "Invalid sandbox ID"],
    ["3000--a.x.com", "Invalid sandbox ID"],
    [`3000-${ID}.x.com, 4000-other.x.com`, "Invalid host"],
  ])("%s: %s", (host, problem) => {
    expect(addressOf(new Headers({ host }))).toEqual({ problem });
  });

  test.each([
    [{ "e2b-sandbox-id": ID }, "missing header"],
    [{ "e2b-sandbox-port": "3000" }, "missing header"],
    [{ "e2b-sandbox-id": "", "e2b-sandbox-port": "3000" }, "Invalid sandbox ID"],
    [{ "e2b-sandbox-id": "../x", "e2b-sandbox-port": "3000" }, "Invalid sandbox ID"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "" }, "Invalid sandbox port"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "0" }, "Invalid sandbox port"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "65536" }, "Invalid sandbox port"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "-1" }, "Invalid sandbox port"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "80x" }, "Invalid sandbox port"],
    [{ "e2b-sandbox-id": ID, "e2b-sandbox-port": "1e3" }, "Invalid sandbox port"],
  ] as [Record<string, string>, string][])("%o: %s", (headers, problem) => {
    expect(addressOf(new Headers({ host: "sandbox.x.com", ...headers }))).toEqual({ problem });
  });
});

test.each(["localhost:3000", "127.0.0.1", "sandbox.x.com", "my-host.x.com", "api.x.com"])(
  "the routing headers count on %s",
  (host) => {
    const headers = new Headers({ host, "E2b-Sandbox-Id": ID, "E2B-SANDBOX-PORT": "49999" });
    expect(addressOf(headers)).toEqual({ sandboxId: ID, port: 49999 });
  },
);
