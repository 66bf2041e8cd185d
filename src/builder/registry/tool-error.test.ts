import { expect, test } from "bun:test";
import { FETCH_REASON_MAX_CHARS, reasonOf } from "./tool-error.ts";

const fatal = (message: string) => `time="2026-01-01T00:00:00Z" level=fatal msg=${JSON.stringify(message)}\n`;

const CASES: [string, RegExp][] = [
  ["reading manifest 9 in x/y: manifest unknown", /^its registry has no such image \(reading/],
  ["requested access to the resource is denied", /does not let it be read/],
  ["unable to retrieve auth token: invalid username/password: unauthorized", /does not let it be read/],
  ["toomanyrequests: You have reached your pull rate limit", /takes no more requests/],
  ["dial tcp 10.0.0.1:443: connect: connection refused", /cannot be reached/],
  ["lookup nowhere.example: no such host", /cannot be reached/],
  ["context deadline exceeded", /did not answer in time/],
  ["x509: certificate signed by unknown authority", /certificate/],
  ["Digest did not match, expected sha256:1, got sha256:2", /not what it promised/],
  ["write /fetch/x: no space left on device", /larger than/],
];

test("known reasons are explained, followed by the tool's own message", () => {
  for (const [output, words] of CASES) {
    const reported = reasonOf(`some progress\n${fatal(output)}`, []);
    expect(reported).toMatch(words);
    expect(reported).toContain(output);
  }
});

test("an unknown message is passed on without control characters, and is bounded", () => {
  expect(reasonOf("   ⨯ create rootfs: unpack layer: \u001b[31mstrange\n", [])).toBe(
    "create rootfs: unpack layer:  [31mstrange",
  );
  expect(reasonOf("", [])).toBe("no reason was given");
  expect(reasonOf("x".repeat(10_000), []).length).toBeLessThan(FETCH_REASON_MAX_CHARS + 10);
});

test("no secret is passed on, in any encoding", () => {
  const secret = 'pass"word/+';
  for (const form of [secret, encodeURIComponent(secret)]) {
    expect(reasonOf(fatal(`GET https://u:${form}@host/`), [secret])).toContain("u:***@host");
  }
});
