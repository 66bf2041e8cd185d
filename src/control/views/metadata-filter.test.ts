import { describe, expect, test } from "bun:test";
import { matchesMetadata, parseMetadataFilter } from "./metadata-filter.ts";

describe("the metadata filter", () => {
  test("reads what the JS SDK sends", () => {
    const query = new URLSearchParams("metadata=a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26k%3Dv");
    expect(parseMetadataFilter(query.get("metadata") ?? "")).toEqual([
      ["a b", "c&d=é"],
      ["k", "v"],
    ]);
  });

  test("reads plain pairs as a person types them", () => {
    expect(parseMetadataFilter("user=ann&note=two+words")).toEqual([
      ["user", "ann"],
      ["note", "two words"],
    ]);
  });

  test("is absent when empty", () => {
    expect(parseMetadataFilter("")).toBeUndefined();
    expect(parseMetadataFilter(undefined)).toBeUndefined();
  });

  test.each(["novalue", "a=b=c", "a=b&", "a=%", "a=%25E0", Array(65).fill("a=b").join("&")])("refuses %p", (text) => {
    expect(() => parseMetadataFilter(text)).toThrow(expect.objectContaining({ status: 400 }));
  });

  test("requires every pair exactly", () => {
    const filter = [
      ["a", "1"],
      ["b", ""],
    ] as const;
    expect(matchesMetadata({ a: "1", b: "", c: "3" }, filter)).toBe(true);
    expect(matchesMetadata({ a: "1" }, filter)).toBe(false);
    expect(matchesMetadata({ a: "1 ", b: "" }, filter)).toBe(false);
    expect(matchesMetadata({}, [["toString", "x"]])).toBe(false);
  });
});
