/** Fuzzes descriptions of images from registries: each yields the image, another one, or a refusal. */
import { expect } from "bun:test";
import { fuzzText, orRefused } from "../../base/testing/fuzz.ts";
import { FETCH_LAYERS_MAX, FETCH_MAX_BYTES, imageArchitecture, readConfig, readManifest } from "./manifest.ts";
import { reasonOf } from "./tool-error.ts";

const blob = (letter: string) => ({ digest: `sha256:${letter.repeat(64)}`, size: 100 });
const platform = { os: "linux", architecture: imageArchitecture(), variant: "v8" };
const image = { schemaVersion: 2, config: blob("a"), layers: [blob("b"), blob("c")] };
const index = {
  manifests: [
    { ...blob("d"), platform },
    { ...blob("e"), platform: { os: "unknown" } },
  ],
};
const config = { ...platform, config: { Env: ["PATH=/bin", "A=b=c", "EMPTY="] } };

fuzzText("a manifest is an image of bounded size, refers to another, or is rejected", {
  seeds: [image, index, { schemaVersion: 1 }, { ...index, manifests: [{ platform: { os: { toString: 1 } } }] }].map(
    toJson,
  ),
  check(text) {
    const found = orRefused(() => readManifest(text, "debian"), [422]);
    if (found === undefined) return;
    const digests =
      found.kind === "other" ? [found.digest] : [found.config, ...found.layers].map(({ digest }) => digest);
    for (const digest of digests) expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    if (found.kind === "other") return;
    expect(found.layers.length).toBeLessThanOrEqual(FETCH_LAYERS_MAX);
    expect(found.layers.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(FETCH_MAX_BYTES);
  },
});

fuzzText("a configuration has valid variables, or is rejected", {
  seeds: [config, { ...config, config: { Env: [5, null, { toString: 1, valueOf: 1 }, "__proto__=x"] } }].map(toJson),
  check(text) {
    const read = orRefused(() => readConfig(text, "debian"), [422]);
    for (const [name, value] of Object.entries(read?.envVars ?? {})) {
      expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
      expect(value).not.toContain("\0");
    }
  },
});

const SECRET = "open-sesame-0123456789";

fuzzText("a tool's error message is short, one line, and without the secret", {
  seeds: [
    `time="2026" level=fatal msg="reading manifest: unauthorized: ${SECRET}"`,
    "Error: open /x: no such file",
    `a\u001b[31m${SECRET}\n${SECRET}`,
  ],
  check(text) {
    const complaint = reasonOf(text, [SECRET]);
    expect(complaint).not.toContain(SECRET);
    expect(complaint.length).toBeLessThan(4_096);
  },
});

function toJson(value: unknown): string {
  return JSON.stringify(value);
}
