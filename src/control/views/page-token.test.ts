import { describe, expect, test } from "bun:test";
import { PAGE_TOKEN_MAX_CHARS } from "../../contract/management/limits.ts";
import { readPageToken, writePageToken } from "./page-token.ts";

const FORM = /^(\d+)__([a-z]+)(?:__(asc))?$/;
const refused = (token: string) =>
  expect(() => readPageToken(token, FORM)).toThrow(
    expect.objectContaining({ status: 400, message: expect.stringContaining("is not a token of this list") }),
  );

describe("a page token", () => {
  test("needs no encoding in a query, and is parsed into its parts", () => {
    const token = writePageToken("17__abc__asc");
    expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(readPageToken(token, FORM)).toEqual(["17", "abc", "asc"]);
    expect(readPageToken(writePageToken("17__abc"), FORM)).toEqual(["17", "abc", ""]);
  });

  test.each(["", "x", "!!!!", writePageToken("17"), writePageToken("17__abc__desc"), writePageToken("17__ABC")])(
    "%p is not a page token",
    (token) => refused(token),
  );

  test("is rejected if it was changed", () => {
    const token = writePageToken("17__abc");
    for (const changed of [`${token}==`, `${token} `, ` ${token}`, `${token}\n`, `!${token}`]) refused(changed);
  });

  test("is bounded, and errors quote only the beginning of an invalid one", () => {
    const long = writePageToken(`17__${"a".repeat(PAGE_TOKEN_MAX_CHARS)}`);
    refused(long);
    try {
      readPageToken(long, FORM);
    } catch (thrown) {
      expect(String(thrown).length).toBeLessThan(300);
    }
  });
});
