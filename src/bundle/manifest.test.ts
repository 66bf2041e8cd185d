import { expect, test } from "bun:test";
import {
  type BundleTarget,
  manifestOf,
  parseManifest,
  releaseOf,
  requireArchitecture,
  requireFolders,
  requireRelease,
} from "./manifest.ts";

const HERE: BundleTarget = { sandlot: "1.2.3", architecture: "x64", system: "debian 13" };
const FILES = { "packages/Packages": "0".repeat(64) };

test("a manifest is read as it was written", () => {
  expect(parseManifest("f", manifestOf(HERE, FILES))).toEqual({ format: 1, ...HERE, files: FILES });
});

test.each(["", "null", "{", '{"format":1}', manifestOf(HERE, { "packages/Packages": "short" })])(
  "the damaged manifest %j is refused",
  (text) => {
    expect(() => parseManifest("f", text)).toThrow("the bundle f is damaged");
  },
);

test.each(["/etc/passwd", "cache/../../etc/passwd", "cache/..", "cache", "cache//x"])(
  "a manifest with the path %s is refused",
  (path) => {
    expect(() => parseManifest("f", manifestOf(HERE, { [path]: "0".repeat(64) }))).toThrow("damaged");
  },
);

test("a bundle of a later format is refused", () => {
  expect(() => parseManifest("f", '{"format":2}')).toThrow("has format 2; this version reads format 1");
});

test("a bundle for another architecture, and packages of another release, are refused", () => {
  const manifest = parseManifest("f", manifestOf(HERE, FILES));
  requireArchitecture("f", manifest, HERE);
  requireRelease("f", manifest, HERE, ["nftables"]);
  expect(() => requireArchitecture("f", manifest, { ...HERE, architecture: "arm64" })).toThrow(
    "the bundle f is for x64; this machine is arm64",
  );
  expect(() => requireRelease("f", manifest, { ...HERE, system: "debian 12" }, ["nftables"])).toThrow(
    "has packages of debian 13; this machine is debian 12. FIX: make a bundle on debian 12, or install them with your package manager: nftables",
  );
});

test("a bundle that lacks folders names them and both versions", () => {
  const manifest = parseManifest("f", manifestOf(HERE, FILES));
  requireFolders("f", manifest, HERE, []);
  expect(() => requireFolders("f", manifest, { ...HERE, sandlot: "1.3.0" }, ["images/base-4"])).toThrow(
    "the bundle f lacks images/base-4; Sandlot 1.2.3 made it, and this is 1.3.0",
  );
});

test("the release of a system is its name and number", () => {
  expect(releaseOf('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nID=debian\n')).toBe("debian 13");
  expect(releaseOf("ID=debian\n")).toBe("debian unknown");
});
