import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig, parseListen } from "./config.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-config-"));
let files = 0;
afterAll(() => rmSync(folder, { recursive: true }));

/** A config file with this content, named by the variable that names it. */
function file(content: string): Record<string, string> {
  const path = join(folder, `${++files}.json`);
  writeFileSync(path, content);
  return { SANDLOT_CONFIG: path };
}

const none = file("{}");

test("without a setting the documented defaults hold", () => {
  expect(loadConfig(none)).toEqual({
    dataFolder: "/var/lib/sandlot",
    cacheFolder: "/var/cache/sandlot",
    listen: { hostname: "127.0.0.1", port: 3000 },
    readyPerKind: 2,
    resolver: undefined,
    debianMirror: undefined,
    allowWebhooksInside: false,
  });
});

test("a variable wins over the file, and an empty one counts as unset", () => {
  const env = file('{"listen": "0.0.0.0:80", "ready": 5, "data": "/srv/a/"}');
  expect(loadConfig({ ...env, SANDLOT_LISTEN: "127.0.0.1:8080", SANDLOT_READY: "" })).toMatchObject({
    listen: { hostname: "127.0.0.1", port: 8080 },
    readyPerKind: 5,
    dataFolder: "/srv/a",
  });
});

describe("what is wrong is refused, with the value and what would be right", () => {
  test.each([
    [{ SANDLOT_PORT: "1" }, "unknown setting SANDLOT_PORT"],
    [file('{"prot": 1}'), 'unknown setting "prot"'],
    [file("{"), "not valid JSON"],
    [file("[]"), "one JSON object"],
    [file('{"ready": true}'), '"ready" must be a string or a number'],
    [{ SANDLOT_CONFIG: "/no/such/file" }, "/no/such/file, which does not exist"],
    [{ SANDLOT_DATA: "relative" }, 'not "relative"'],
    [{ SANDLOT_DATA: "/a,b" }, "without spaces, commas"],
    [{ SANDLOT_LISTEN: "3000" }, 'not "3000"'],
    [{ SANDLOT_LISTEN: "127.0.0.1:0" }, 'not "127.0.0.1:0"'],
    [{ SANDLOT_LISTEN: "127.0.0.1:65536" }, 'not "127.0.0.1:65536"'],
    [{ SANDLOT_READY: "-1" }, 'not "-1"'],
    [{ SANDLOT_READY: "65" }, "from 0 to 64"],
    [{ SANDLOT_READY: "two" }, 'not "two"'],
    [{ SANDLOT_RESOLVER: "dns.example" }, "IPv4 address"],
    [{ SANDLOT_RESOLVER: "1.2.3.400" }, "IPv4 address"],
  ] as [Record<string, string>, string][])("%j", (env, message) => {
    expect(() => loadConfig({ ...none, ...env })).toThrow(message);
  });
});

test("addresses of both families can be listened on", () => {
  expect(parseListen("[::1]:3000")).toEqual({ hostname: "::1", port: 3000 });
  expect(parseListen("sandlot.example:443")).toEqual({ hostname: "sandlot.example", port: 443 });
});
