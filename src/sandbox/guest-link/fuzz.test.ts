/** Fuzzes responses of a guest that root in a sandbox has replaced. */
import { expect } from "bun:test";
import { fuzzBytes, fuzzText, orRefusedLater } from "../../base/testing/fuzz.ts";
import { LOG_LEVELS } from "../../contract/sandbox-log.ts";
import { envelope, messagesOf } from "./connect-stream.ts";
import { forwardedPort } from "./guest-client.ts";
import { readJournalLine } from "./journal-line.ts";

const NOW = Date.parse("2027-01-15T08:00:00Z");
const entry = { seq: 1, at: NOW - 5, level: "info", logger: "process", message: "hi", fields: { pid: "1" } };

fuzzText("a journal line is valid, or ignored", {
  seeds: [
    entry,
    { journal: "0f8fad5b-d9cb-469f-a165-70867728950e" },
    { seq: 9, dropped: 3 },
    { ...entry, fields: { __proto__: null, constructor: "x" } },
  ].map((each) => JSON.stringify(each)),
  check(text) {
    const read = readJournalLine(text, NOW);
    if (read?.kind !== "entry") return;
    const { line } = read;
    expect(line.at).toBeLessThanOrEqual(NOW);
    expect(LOG_LEVELS).toContain(line.level);
    expect(["process", "filesystem", "runtime"]).toContain(line.fields.logger ?? "");
    expect(Object.values(line.fields).every((value) => typeof value === "string")).toBe(true);
    expect(JSON.stringify(line).length).toBeLessThan(2 ** 20);
  },
});

fuzzText("a forwarded port is valid, or absent", {
  seeds: ['{"port":40000}', "null", "[]", '{"port":"1"}', '{"port":65536}'],
  check(text) {
    const port = forwardedPort(text);
    if (port !== undefined) expect(Number.isInteger(port) && port > 0 && port < 65_536).toBe(true);
  },
});

const messages = [{ event: { start: { pid: 5 } } }, { event: { data: { stdout: "aGk=" } } }, { event: { end: {} } }];
const end = (message: unknown) => {
  const bytes = Buffer.from(envelope(message));
  bytes[0] = 2;
  return bytes;
};

fuzzBytes("a stream of messages is parsed alike for every split, and ends with a printable error", {
  seeds: [
    Buffer.concat([...messages.map(envelope), end({})]),
    Buffer.concat([envelope({}), end({ error: { code: "not_found", message: "no such file" } })]),
    end({ error: { code: { toString: 1, valueOf: 1 } } }),
    end({ error: { code: 5, message: 7 } }),
  ],
  async check(bytes, random) {
    const read = async (pieces: readonly Uint8Array[]) => {
      const seen: string[] = [];
      const all = async () => {
        for await (const message of messagesOf(arriving(pieces))) seen.push(JSON.stringify(message));
        return "ended";
      };
      return [...seen, (await orRefusedLater(all, [422, 502])) ?? "refused"];
    };
    expect(await read(random.split(bytes))).toEqual(await read([bytes]));
  },
});

async function* arriving(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}
