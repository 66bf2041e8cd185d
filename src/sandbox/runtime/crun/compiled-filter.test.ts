import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../base/testing/test-folder.ts";
import { CompiledFilter } from "./compiled-filter.ts";

const folder = folderOfTest("filter");

function learnt(...contents: Uint8Array[]): string | undefined {
  const filter = new CompiledFilter();
  for (const content of contents) {
    writeFileSync(join(folder, "seccomp.bpf"), content);
    filter.check(folder, undefined);
  }
  return filter.base64;
}

test("the filter that crun compiled for one sandbox is reused for the next", () => {
  const made = crypto.getRandomValues(new Uint8Array(6000));
  expect(Buffer.from(learnt(made) ?? "", "base64")).toEqual(Buffer.from(made));
  expect(learnt(made, new Uint8Array(8))).toBe(Buffer.from(made).toString("base64"));
});

test("an invalid filter file is not used", () => {
  for (const bytes of [0, 7, 6001, 8 * 4097]) expect(learnt(new Uint8Array(bytes))).toBeUndefined();
  expect(learnt(new Uint8Array(0), new Uint8Array(8))).toBe("AAAAAAAAAAA=");
});

test("without a filter, crun compiles it", () => {
  const filter = new CompiledFilter();
  filter.check(join(folder, "gone"), undefined);
  expect(filter.base64).toBeUndefined();
});

test("a crun that rejects a compiled filter compiles the next ones itself", () => {
  const filter = new CompiledFilter();
  writeFileSync(join(folder, "seccomp.bpf"), new Uint8Array(8));
  filter.check(folder, undefined);
  filter.check(folder, filter.base64);
  expect(() => filter.check(join(folder, "gone"), filter.base64)).toThrow("ignored the compiled");
  expect(filter.base64).toBeUndefined();
});
