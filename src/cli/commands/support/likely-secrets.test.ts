import { expect, test } from "bun:test";
import { likelySecrets } from "./likely-secrets.ts";

test("values of names that look secret, and long values of many characters, are secrets", () => {
  const given = { DB_PASSWORD: "hunter2", API_KEY: "correcthorsebattery", OTHER: "Xq7planted9Zv", TOKEN: 'a"b\\c12' };
  const nested = { servers: [{ github: { accessToken: "ghp-1234" } }] };
  expect(likelySecrets([given, nested])).toEqual([
    "hunter2",
    "correcthorsebattery",
    "Xq7planted9Zv",
    'a\\"b\\\\c12',
    "ghp-1234",
  ]);
});

test("ordinary values are no secrets, also of names that look secret", () => {
  const ordinary = ["request", '"level"', "sandbox", "production", "/usr/local/bin:/usr/bin", "1", "aaaaaaaaaaaa1"];
  expect(likelySecrets([Object.fromEntries(ordinary.map((value, nth) => [`V${nth}`, value]))])).toEqual([]);
  expect(likelySecrets([{ TOKEN: "status", SECRET: "event", KEY: "1" }])).toEqual([]);
});

test("the number of secrets is bounded", () => {
  const many = Array.from({ length: 5_000 }, (_, nth) => ({ TOKEN: `secret-number-${nth}` }));
  expect(likelySecrets(many)).toHaveLength(2_000);
});
