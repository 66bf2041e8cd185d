import { expect, test } from "bun:test";
import { mismatch } from "./image-facts.ts";

const here = { runsc: "20240729.0", architecture: "x64", cpuFeatures: ["avx", "sse2"] };

test.each([
  ["fits where it was written", here, undefined],
  ["fits where there is more", { ...here, cpuFeatures: ["sse2"] }, undefined],
  ["of another version", { ...here, runsc: "20250101.0" }, "by runsc 20250101.0, here is 20240729.0"],
  ["of another architecture", { ...here, architecture: "arm64" }, "written on arm64, this is x64"],
  ["of a better processor", { ...here, cpuFeatures: ["avx512f"] }, "lacks avx512f"],
  ["of another runtime", { criu: "4.2", cpuFeatures: [] }, "not written by runsc"],
])("an image %s", (_what, written, reason) => {
  if (reason === undefined) expect(mismatch(written, here)).toBeUndefined();
  else expect(mismatch(written, here)).toContain(reason);
});
