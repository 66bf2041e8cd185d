import { describe, expect, test } from "bun:test";
import { readPageToken, writePageToken } from "./page-token.ts";

const position = { startedAt: 1_800_000_000_123, id: "iabc" };

describe("a page token", () => {
  test.each(["asc", "desc"] as const)("comes back as it was, in order %s", (order) => {
    const token = writePageToken(position, order);
    expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(readPageToken(token, order)).toEqual(position);
  });

  test("belongs to its order", () => {
    expect(() => readPageToken(writePageToken(position, "asc"), "desc")).toThrow("other order");
    expect(() => readPageToken(writePageToken(position, "desc"), "asc")).toThrow("other order");
  });

  test.each(["x", "", "!!!!", btoa("2027-01-01T00:00:00Z"), btoa("2027-01-01T00:00:00Z__a__b"), btoa("soon__iabc")])(
    "%p is none",
    (token) => {
      expect(() => readPageToken(token, "desc")).toThrow(expect.objectContaining({ status: 400 }));
    },
  );
});
