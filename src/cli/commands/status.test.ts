import { expect, test } from "bun:test";
import { statusText } from "./status.ts";

const GIB = 1024 ** 3;
const FOUND = {
  version: "1.2.3",
  pid: 42,
  startedAt: "2026-01-01T00:00:00.000Z",
  dataFolder: "/var/lib/sandlot",
  listen: "127.0.0.1:3000",
  tls: null,
  publicUrl: null,
  postgres: null,
  metrics: null,
  sandboxes: { running: 3, paused: 2 },
  ready: 4,
  slots: { total: 4096, free: 4089 },
  memory: {
    totalBytes: 16 * GIB,
    availableBytes: 10.5 * GIB,
    usedBytes: 0.25 * GIB,
    promisedBytes: 3 * GIB,
    savedBytes: 0,
  },
  disk: { totalBytes: 200 * GIB, freeBytes: 150 * GIB },
  dataDisk: { totalBytes: 100 * GIB, freeBytes: 2 * GIB },
};

function shown(found: Partial<typeof FOUND>, afterMs: number, isService = false): string[] {
  return statusText({ ...FOUND, ...found }, { isService, nowMs: Date.parse(FOUND.startedAt) + afterMs }).split("\n");
}

test("the status shows the server, its sandboxes and the machine's resources", () => {
  expect(shown({}, 3 * 3_600_000 + 4 * 60_000)).toEqual([
    "server     Sandlot 1.2.3, pid 42, started by hand",
    "uptime     3 h 4 min",
    "address    http://127.0.0.1:3000",
    "sandboxes  3 running, 2 paused; 4 ready for the next creates",
    "memory     256 MiB used by sandboxes, 3.0 GiB promised to them; 10.5 GiB of 16.0 GiB free",
    "disk       150.0 GiB of 200.0 GiB free",
    "slots      4089 of 4096 free",
    "data       /var/lib/sandlot, 2.0 GiB of 100.0 GiB free",
  ]);
});

test("the status has the database, unless it is SQLite", () => {
  const postgres = { database: "db.example.com:5432/sandlot", node: "one" };
  expect(shown({ postgres } as never, 0).at(-1)).toBe("store      Postgres at db.example.com:5432/sandlot, as one");
});

test("the status of the service names it", () => {
  expect(shown({}, 0, true)[0]).toBe("server     Sandlot 1.2.3, pid 42, service sandlot");
});

test.each([
  [59_000, "less than a minute"],
  [60_000, "1 min"],
  [24 * 3_600_000, "1 d 0 h"],
  [50 * 3_600_000, "2 d 2 h"],
])("a server that has run for %d ms has run for %s", (ms, text) => {
  expect(shown({}, ms)[1]).toBe(`uptime     ${text}`);
});

test("a server without sandboxes has none", () => {
  expect(shown({ sandboxes: {}, ready: 0 } as never, 0)).toContain("sandboxes  none; 0 ready for the next creates");
});
