/** Links in responses lead back to the address the client used, through any proxy. */
import { expect, test } from "bun:test";
import { baseOf } from "./server-address.ts";

test.each([
  ["http://127.0.0.1:3000/a?b", {}, "http://127.0.0.1:3000"],
  ["http://[::1]:3000/", {}, "http://[::1]:3000"],
  ["http://api.test/", { "x-forwarded-proto": "https" }, "https://api.test"],
  ["http://inner/", { "x-forwarded-host": "outer.test:8443", "x-forwarded-proto": "https" }, "https://outer.test:8443"],
  ["http://inner/", { "x-forwarded-host": "first.test, second.test" }, "http://first.test"],
  ["http://api.test/", { "x-forwarded-prefix": "/e2b/v1/" }, "http://api.test/e2b/v1"],
  ["http://api.test/", { "x-forwarded-prefix": "/..//evil?x" }, "http://api.test"],
  ["http://api.test/", { "x-forwarded-host": "a.test/b", "x-forwarded-proto": "javascript" }, "http://api.test"],
] as [string, Record<string, string>, string][])("%s with %j", (url, headers, base) => {
  expect(baseOf(new Request(url, { headers }), { fromTrustedProxy: true })).toBe(base);
});

test.each([
  ["http://api.test:3000/", { "x-forwarded-proto": "https", "x-forwarded-host": "evil.test" }, "http://api.test:3000"],
  ["https://api.test/", { "x-forwarded-prefix": "/evil" }, "https://api.test"],
  ["http://user@evil.test/", {}, "http://localhost"],
] as [string, Record<string, string>, string][])(
  "from any other client than a trusted proxy: %s with %j",
  (url, headers, base) => {
    expect(baseOf({ url, headers: new Headers(headers) } as Request, { fromTrustedProxy: false })).toBe(base);
  },
);

test("a client that used TLS gets links with https", () => {
  expect(baseOf(new Request("http://a.test/x"), { isSecure: true })).toBe("https://a.test");
});
