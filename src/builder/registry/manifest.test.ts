import { expect, test } from "bun:test";
import { BUILD_VALUE_MAX_BYTES } from "../limits.ts";
import { FETCH_LAYERS_MAX, FETCH_MAX_BYTES, imageArchitecture, readConfig, readManifest } from "./manifest.ts";

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const layer = { digest: digest("a"), size: 5 };
const config = { digest: digest("c"), size: 7 };
const here = imageArchitecture();
const platform = (architecture: string, letter: string, more = {}) => ({
  digest: digest(letter),
  platform: { os: "linux", architecture, ...more },
});
const read = (answer: unknown) => readManifest(JSON.stringify(answer), "debian");

test("an image is its configuration and its layers", () => {
  expect(read({ schemaVersion: 2, config, layers: [layer] })).toEqual({
    kind: "image",
    config: { digest: digest("c"), bytes: 7 },
    layers: [{ digest: digest("a"), bytes: 5 }],
  });
});

test("of several images, the one for this architecture is chosen", () => {
  const others = [platform("s390x", "0"), platform("unknown", "1", { os: "unknown" })];
  const mine = platform(here, "2");
  expect(read({ manifests: [...others, mine] })).toEqual({ kind: "other", digest: digest("2") });
  // A plain one before one for newer processors.
  const newer = platform(here, "3", { variant: "v9" });
  expect(read({ manifests: [newer, mine] })).toEqual({ kind: "other", digest: digest("2") });
  expect(() => read({ manifests: [...others, platform("riscv64", "4")] })).toThrow(
    `it has no variant for linux/${here}, this machine's platform; it has linux/s390x, linux/riscv64`,
  );
  expect(() => read({ manifests: [] })).toThrow("it has none");
});

const BAD: [unknown, string][] = [
  ["<html>", "does not describe an image"],
  [null, "does not describe an image"],
  [{ schemaVersion: 1, fsLayers: [] }, "format of 2015"],
  [{ config, layers: [{ ...layer, digest: "sha256:../../etc/passwd" }] }, "no digest"],
  [{ config, layers: [{ ...layer, digest: `sha512:${"a".repeat(128)}` }] }, "no digest"],
  [{ config: {}, layers: [layer] }, "no digest"],
  [{ config, layers: [{ ...layer, size: -1 }] }, "no size"],
  [{ config, layers: [{ ...layer, size: "5" }] }, "no size"],
  [{ config, layers: Array.from({ length: FETCH_LAYERS_MAX + 1 }, () => layer) }, "200 are allowed"],
  [{ config, layers: [{ ...layer, size: FETCH_MAX_BYTES + 1 }] }, "8192 are allowed"],
  [{ manifests: [{ ...platform(here, "2"), digest: "sha256:x" }] }, "it has no variant for"],
];

test("an invalid or too large image is rejected with the reason", () => {
  for (const [answer, reason] of BAD) expect(() => read(answer)).toThrow(reason);
});

test("valid variables of a configuration are used, others are ignored", () => {
  const env = ["PATH=/bin", "A=b=c", "EMPTY=", "=x", "no name=1", "nothing", 5];
  const text = JSON.stringify({ os: "linux", architecture: here, config: { Env: env } });
  expect(readConfig(text, "debian")).toEqual({ envVars: { PATH: "/bin", A: "b=c", EMPTY: "" } });
  expect(readConfig(JSON.stringify({ os: "linux", architecture: here }), "debian")).toEqual({ envVars: {} });
});

test.each([
  ["a NUL", ["A=b\0c"], "NUL"],
  ["a value too long for any process", [`A=${"x".repeat(BUILD_VALUE_MAX_BYTES)}`], "too long"],
  ["more than a command has room for", Array.from({ length: 20 }, (_, n) => `A${n}=${"x".repeat(60_000)}`), "too long"],
])("variables with %s are refused", (_, env, reason) => {
  const text = JSON.stringify({ os: "linux", architecture: here, config: { Env: env } });
  expect(() => readConfig(text, "debian")).toThrow(reason);
});

test("an image for another architecture is rejected, and the error names it", () => {
  const refused = () => readConfig(JSON.stringify({ os: "linux", architecture: "s390x" }), "debian");
  expect(refused).toThrow(`it is for linux/s390x, this machine is linux/${here}`);
  expect(() => readConfig("nonsense", "debian")).toThrow("it is for another platform");
});
