import { expect, test } from "bun:test";
import { redacted } from "./redaction.ts";

const SECRET = "Xq7planted9Zv";

test.each([
  `{"error":"got e2b_${"0a".repeat(20)}"}`,
  "sk_e2b_0123456789abcdef0123456789abcdef01234567",
  "sk%5fe2b%5f0123456789abcdef",
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
])("%s loses its key", (text) => {
  expect(redacted(text)).not.toMatch(/0a0a0a|01234567|SflKxw|eyJ/);
  expect(redacted(text)).toContain("[removed]");
});

test.each([
  `https://user:${SECRET}@registry.example/v2/`,
  `Authorization: Bearer ${SECRET}`,
  `{"authorization":"Basic ${SECRET}"}`,
  `the header was bearer ${SECRET}`,
  `{"password":"${SECRET}"}`,
  `{\\"registryPassword\\":\\"${SECRET}\\"}`,
  `AWS_SECRET_ACCESS_KEY=${SECRET}`,
  `token=${SECRET}`,
  `login --token ${SECRET} --verbose`,
  `login --registry-password "${SECRET}"`,
  `["login","--token","${SECRET}"]`,
  `{"error":"[\\"login\\",\\"--token\\",\\"${SECRET}\\"]"}`,
  `mysql -p ${SECRET}`,
  `mysql -u root -p${SECRET} db`,
  `["mysql","-p","${SECRET}"]`,
  `curl -u ann:${SECRET} https://example.com/`,
  `webhook_secret: '${SECRET}'`,
  `X-API-Key: ${SECRET}`,
  `/files?path=a&signature=${SECRET}&x=1`,
  `Cookie: session=${SECRET}; other=${SECRET}`,
  `-----BEGIN EC PRIVATE KEY-----\n${SECRET}\n-----END EC PRIVATE KEY-----`,
])("%s loses its secret", (text) => {
  expect(redacted(text)).not.toContain(SECRET);
});

test("a known secret is removed wherever it is", () => {
  expect(redacted(`a ${SECRET} b${SECRET}`, [SECRET, ""])).toBe("a [removed] b[removed]");
});

test("other text stays", () => {
  const text = '{"time":"2027-01-15","event":"request","path":"/sandboxes/i123","status":200,"ms":3,"team":"default"}';
  expect(redacted(text)).toBe(text);
  expect(redacted("the token expired, 3 keys left; i1-p2 -- proxy")).toBe(
    "the token expired, 3 keys left; i1-p2 -- proxy",
  );
  expect(redacted("SANDLOT_LISTEN=127.0.0.1:3000 at http://127.0.0.1:3000/x")).toContain("http://127.0.0.1:3000/x");
});

test("a megabyte of hostile text is read in linear time", () => {
  for (const piece of [
    "token",
    "a://",
    "secret=",
    "e2b_",
    "eyJ.",
    "Bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "--",
    "--token ",
    "-p",
    "-u a",
  ]) {
    // With a quadratic pattern this never ends.
    redacted(piece.repeat(Math.ceil(1_000_000 / piece.length)));
  }
});
