/** `sandlot keys` on its own store, without a server. */
import { expect, test } from "bun:test";
import { commandOnStore } from "../testing/command-on-store.ts";

const sandlot = commandOnStore();
const keys = (...args: string[]) => sandlot("keys", ...args);

const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;
const UUID = /^[0-9a-f-]{36}/;
const idOf = (line: string | undefined) => UUID.exec(line ?? "")?.[0] ?? "";

test("creates keys and tokens, shows each once, lists them masked, and revokes them by id", async () => {
  const [key = ""] = (await keys("create", "build server")).out;
  const [token = ""] = (await keys("token", "laptop")).out;
  expect(key).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect(token).toMatch(/^sk_e2b_[0-9a-f]{40}$/);

  const { out: listed } = await keys("list");
  const first = /^[0-9a-f-]{36} {2}e2b_[0-9a-f]{2}…[0-9a-f]{4} {2}TIME {2}never used {2}first key$/;
  expect(listed.map((line) => line.replaceAll(TIME, "TIME"))).toEqual([
    expect.stringMatching(first),
    `${idOf(listed[1])}  e2b_${key.slice(4, 6)}…${key.slice(-4)}  TIME  never used  build server`,
    `${idOf(listed[2])}  sk_e2b_${token.slice(7, 9)}…${token.slice(-4)}  TIME  laptop`,
  ]);
  expect(listed.join("\n")).not.toContain(key.slice(4));

  for (const line of listed.slice(1)) {
    expect(await keys("revoke", idOf(line))).toEqual({ code: 0, out: [`revoked ${idOf(line)}`], error: "" });
  }
  expect((await keys("list")).out).toEqual(listed.slice(0, 1));
  const again = await keys("revoke", idOf(listed[2]));
  expect([again.code, again.error]).toEqual([
    1,
    expect.stringContaining(`no API key with the id "${idOf(listed[2])}"`),
  ]);
});

test("rejects invalid arguments and creates nothing", async () => {
  const { out: before } = await keys("list");
  for (const [args, message] of [
    [["create", "\u001b[2Jgone"], "control characters"],
    [["create", "x".repeat(129)], "1 to 128 characters"],
    [["token", " "], "not be blank"],
    [["create", "two", "words"], 'keys create: unexpected argument "words"'],
    [["revoke"], "keys revoke: ID is missing"],
    [["revoke", "first"], "it is a UUID"],
    [["list", "all"], 'keys list: unexpected argument "all"'],
    [[], "`sandlot keys` is not a command. Usage:\n  sandlot keys create [NAME]"],
  ] as const) {
    const { code, error } = await keys(...args);
    expect([code, error]).toEqual([1, expect.stringContaining(message)]);
  }
  expect((await keys("list")).out).toEqual(before);
});
