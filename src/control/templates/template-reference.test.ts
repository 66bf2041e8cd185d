import { describe, expect, test } from "bun:test";
import { parseTemplateReference } from "./template-reference.ts";

describe("a template reference", () => {
  test.each([
    ["base", { namespace: undefined, name: "base", tag: undefined }],
    ["  Base:V1.0 ", { namespace: undefined, name: "base", tag: "v1.0" }],
    ["My-Team/x_y", { namespace: "my-team", name: "x_y", tag: undefined }],
    ["t/n:default", { namespace: "t", name: "n", tag: "default" }],
  ])("%p is parsed", (written, parts) => {
    expect(parseTemplateReference(written)).toEqual(parts);
  });

  test.each(["", " ", "a/b/c", "a:b:c", "/a", "a/", "a:", ":a", "a b", "ä", "a.b", "../base", "a\nb"])(
    "%p is refused",
    (written) => {
      expect(() => parseTemplateReference(written)).toThrow(expect.objectContaining({ status: 400 }));
    },
  );
});
