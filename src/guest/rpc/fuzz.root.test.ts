/**
 * Sends thousands of damaged requests to a real daemon. None may stop it, block it, fill its memory or cause an
 * unforeseen error. SANDLOT_TEST_SEED chooses the damage.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import type { JsonValue } from "@bufbuild/protobuf";
import { SeededRandom } from "../../base/testing/fuzz.ts";
import { SEED } from "../../base/testing/seed.ts";
import { describeMethod, ENCODINGS, encode } from "../testing/encodings.ts";
import { rawExchange } from "../testing/raw-exchange.ts";
import { mutate, type PlainRequest } from "../testing/request-mutations.ts";
import { basic, envelopeOf, RunningGuest } from "../testing/running-guest.ts";
import { createWatcher } from "../testing/watching.ts";

const REQUESTS = 2_000;
const AT_ONCE = 16;
const ANSWER_MS = 60;
const MEMORY_MAX_KIB = 256 * 1024;

let guest: RunningGuest;
let watcher: string;
beforeAll(async () => {
  guest = await RunningGuest.startHarmless();
  await guest.configure({ defaultUser: "nobody", defaultWorkdir: guest.folder });
  writeFileSync(`${guest.folder}/file`, "content");
  watcher = await createWatcher(guest, { path: "", recursive: true });
});
afterAll(() => guest[Symbol.asyncDispose]());

const callsOf = (watcherId: string): [method: string, message: JsonValue][] => [
  ["process.Process/List", {}],
  ["process.Process/Start", { process: { cmd: "/bin/sleep", args: ["0.5"], envs: { A: "1" }, cwd: "/" }, tag: "t" }],
  ["process.Process/Start", { process: { cmd: "/bin/cat" }, pty: { size: { cols: 80, rows: 24 } }, stdin: true }],
  ["process.Process/Connect", { process: { pid: 1 } }],
  ["process.Process/Connect", { process: { tag: "t" } }],
  ["process.Process/Update", { process: { tag: "t" }, pty: { size: { cols: 1, rows: 1 } } }],
  ["process.Process/SendInput", { process: { tag: "t" }, input: { stdin: "eHh4" } }],
  ["process.Process/StreamInput", { start: { process: { tag: "t" } } }],
  ["process.Process/StreamInput", { data: { input: { pty: "eHh4" } } }],
  ["process.Process/SendSignal", { process: { tag: "t" }, signal: "SIGNAL_SIGTERM" }],
  ["process.Process/CloseStdin", { process: { tag: "t" } }],
  ["filesystem.Filesystem/Stat", { path: "file" }],
  ["filesystem.Filesystem/ListDir", { path: "", depth: 2 }],
  ["filesystem.Filesystem/MakeDir", { path: "made/here" }],
  ["filesystem.Filesystem/Move", { source: "made/here", destination: "moved" }],
  ["filesystem.Filesystem/Remove", { path: "moved" }],
  ["filesystem.Filesystem/WatchDir", { path: "", recursive: true, includeEntry: true }],
  ["filesystem.Filesystem/WatchDir", { path: "made", allowNetworkMounts: true }],
  ["filesystem.Filesystem/CreateWatcher", { path: "", recursive: true, includeEntry: true }],
  ["filesystem.Filesystem/GetWatcherEvents", { watcherId }],
  ["filesystem.Filesystem/GetWatcherEvents", { watcherId: "w00000000000000000000" }],
  ["filesystem.Filesystem/RemoveWatcher", { watcherId: "w00000000000000000000" }],
];

function corpus(watcherId: string): PlainRequest[] {
  const authorization = Object.entries(basic("nobody"));
  const common: [string, string][] = [
    ...authorization,
    ["Connect-Protocol-Version", "1"],
    ["Connect-Timeout-Ms", "500"],
  ];
  const calls = callsOf(watcherId).flatMap(([name, message]) =>
    ENCODINGS.map((encoding): PlainRequest => {
      const isStream = describeMethod(name).methodKind !== "unary";
      const payload = encode(name, message, encoding);
      const type = `application/${isStream ? "connect+" : ""}${encoding === "json" ? "json" : "proto"}`;
      const headers: [string, string][] = [["Content-Type", type], ["Keepalive-Ping-Interval", "1"], ...common];
      return { method: "POST", path: `/${name}`, headers, body: isStream ? envelopeOf(payload) : payload };
    }),
  );
  const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="up"\r\n\r\ncontent\r\n--b--\r\n';
  const plain = (method: string, path: string, type: string, body: string): PlainRequest => ({
    method,
    path,
    headers: [["Content-Type", type], ["Range", "bytes=0-3"], ["Accept-Encoding", "gzip"], ...authorization],
    body: Buffer.from(body),
  });
  return [
    ...calls,
    plain("GET", "/health", "text/plain", ""),
    plain("GET", "/files?path=file&signature_expiration=1", "text/plain", ""),
    plain("POST", "/files?path=up&username=nobody", "multipart/form-data; boundary=b", form),
    plain("POST", "/files?path=up", "application/octet-stream", "content"),
    plain("POST", "/control/configure", "application/json", "{}"),
  ];
}

// Guards against a guest that ends on an error in a timer (pid), an Update without a size and events of an unknown
// watcher (unforeseen), and half a megabyte kept for each call (memory).
test(`${REQUESTS} damaged requests leave the daemon working (SANDLOT_TEST_SEED=${SEED})`, async () => {
  const random = new SeededRandom(SEED);
  const requests = corpus(watcher);
  const queue = Array.from({ length: REQUESTS }, (_, number) => ({
    number,
    bytes: mutate(random.pick(requests), random),
    halfClose: random.below(2) === 0,
  }));
  const { pid } = guest;
  const unforeseen: string[] = [];
  const statuses = new Map<number, number>();
  const work = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const options = { halfClose: next.halfClose, withinMs: ANSWER_MS, lastly: () => guest.fetch("/health") };
      const response = await rawExchange(guest.port, next.bytes, options);
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
      if (response.body.includes("internal error")) unforeseen.push(`${next.number}: ${next.bytes.toString("latin1")}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));

  expect(unforeseen).toEqual([]);
  // Enough requests get through despite the damage: all kinds of responses were seen.
  for (const status of [200, 400, 404]) expect(statuses.get(status) ?? 0).toBeGreaterThan(10);
  expect(await healthWithinASecond()).toBe(204);
  expect(guest.pid).toBe(pid);
  process.kill(pid, 0);
  expect((await guest.memoryKib()).peak).toBeLessThan(MEMORY_MAX_KIB);
});

/** In one of three tries: other work on the machine may delay one of them. */
async function healthWithinASecond(): Promise<number> {
  for (let more = 2; ; more--) {
    try {
      return (await guest.fetch("/health", { signal: AbortSignal.timeout(1_000) })).status;
    } catch (late) {
      if (more === 0) throw late;
    }
  }
}
