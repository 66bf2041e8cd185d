import { describe, expect, test } from "bun:test";
import { cpuFeatures } from "../../cpu-features.ts";
import { type CriuFacts, isOlder, mismatch } from "./image-facts.ts";

const here: CriuFacts = {
  criu: "4.2.1",
  kernel: "6.12.3-cloud-amd64",
  architecture: "x64",
  cpuFeatures: ["avx", "avx2", "sse2"],
  cgroupLayout: "v2",
};

describe("an image", () => {
  test("fits its own machine, and any with newer versions or more features", () => {
    expect(mismatch(here, here)).toBeUndefined();
    const older = { ...here, criu: "4.1", kernel: "6.1.0-9", cpuFeatures: ["sse2"] };
    expect(mismatch(older, here)).toBeUndefined();
  });

  const cases: [what: string, facts: Partial<CriuFacts>, says: string][] = [
    ["another architecture", { architecture: "arm64" }, "it was written on arm64, this is x64"],
    ["a newer CRIU", { criu: "4.10" }, "it was written by CRIU 4.10, here is 4.2.1"],
    ["a newer kernel", { kernel: "6.13" }, "it was written on Linux 6.13, here is 6.12.3-cloud-amd64"],
    ["other cgroups", { cgroupLayout: "v1" }, "it was written with cgroups v1, here they are v2"],
    ["a processor that can do more", { cpuFeatures: ["avx512f", "sse2"] }, "this processor lacks avx512f"],
  ];
  test.each(cases)("of %s does not fit", (_what, facts, says) => {
    expect(mismatch({ ...here, ...facts }, here)).toBe(says);
  });

  test("of another runtime does not fit, whatever its facts", () => {
    expect(mismatch({ runsc: "20260101", architecture: "x64" }, here)).toBe("it was not written by CRIU");
    expect(mismatch({}, here)).toBe("it was not written by CRIU");
  });
});

test("features are read for x64 and arm64", () => {
  expect(cpuFeatures("processor\t: 0\nflags\t\t: sse2 avx\nbugs\t\t:\nflags\t: other\n")).toEqual(["avx", "sse2"]);
  expect(cpuFeatures("processor\t: 0\nFeatures\t: fp asimd\n")).toEqual(["asimd", "fp"]);
  expect(cpuFeatures("")).toEqual([]);
});

test("versions are compared by number", () => {
  expect(isOlder("6.9.1", "6.12")).toBe(true);
  expect(isOlder("6.12", "6.12.0-13-amd64")).toBe(false);
  expect(isOlder("7", "6.99")).toBe(false);
});
