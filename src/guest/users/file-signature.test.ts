import { describe, expect, test } from "bun:test";
import { fileSignature } from "../../contract/runtime/file-signature.ts";
import { requireFileAccess } from "./file-signature.ts";

const TOKEN = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
const VECTOR = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
const NOW = 1_700_000_000;

function access(query: Record<string, string>, headers: Record<string, string> = {}, tokens = ["older", TOKEN]) {
  return () => requireFileAccess(new Headers(headers), new URLSearchParams(query), "read", tokens, NOW);
}

test("the signature matches the test vector", () => {
  expect(fileSignature({ path: "hello.txt", operation: "read", username: "user", expiration: undefined }, TOKEN)).toBe(
    VECTOR,
  );
});

describe("a signed link", () => {
  const link = { path: "hello.txt", username: "user", signature: VECTOR };

  test("gives access to its file with any valid token", () => {
    expect(access(link)).not.toThrow();
    expect(access(link, {}, [TOKEN, "newer"])).not.toThrow();
  });

  test("gives access to nothing else", () => {
    expect(access({ ...link, path: "other.txt" })).toThrow("invalid signature");
    expect(access({ ...link, username: "root" })).toThrow("invalid signature");
    expect(access({ ...link, signature_expiration: String(NOW + 60) })).toThrow("invalid signature");
    expect(access(link, {}, ["another"])).toThrow("invalid signature");
    expect(access({ path: "hello.txt", username: "user" })).toThrow("signature parameter");
    const write = () => requireFileAccess(new Headers(), new URLSearchParams(link), "write", [TOKEN], NOW);
    expect(write).toThrow("invalid signature");
  });

  test("is valid to the end of its last second", () => {
    const until = (second: number) => ({
      path: "a",
      signature: fileSignature({ path: "a", operation: "read", username: "", expiration: second }, TOKEN),
      signature_expiration: String(second),
    });
    expect(access(until(NOW))).not.toThrow();
    expect(access(until(NOW - 1))).toThrow("signature is already expired");
  });

  test("is not checked if there is a token header", () => {
    expect(access({ path: "x" }, { "X-Access-Token": TOKEN })).not.toThrow();
    expect(access(link, { "X-Access-Token": "wrong" })).toThrow("not valid");
    expect(access({ path: "x" }, {}, [])).not.toThrow();
  });

  test("with an expiration that is not a number is malformed", () => {
    expect(access({ ...link, signature_expiration: "soon" })).toThrow("signature_expiration");
  });
});
