import { expect, test } from "bun:test";
import { join } from "node:path";
import { withPlainDescription } from "./plain-descriptors.ts";

const WIRE = join(import.meta.dir, "../contract/runtime/wire");

// A generator that writes another form would make the guest slow, and no other test would show it.
test.each([`${WIRE}/process/process_pb.ts`, `${WIRE}/filesystem/filesystem_pb.ts`])(
  "%s has its description as data",
  async (path) => {
    const source = await withPlainDescription(path);
    expect(source).toContain("plainFile(");
    expect(source).not.toMatch(/fileDesc\(/);
  },
);

test("a file without a description is unchanged", async () => {
  expect(await withPlainDescription(import.meta.path)).toBe(await Bun.file(import.meta.path).text());
});
