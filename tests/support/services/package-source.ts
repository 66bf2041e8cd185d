/**
 * A package source on the tests' internet: one package each for apt, pip and npm, all of which say hello, and newer
 * versions of two that Debian has: pip, which many users upgrade first, and xlrd.
 */
import { afterAll, beforeAll } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { run } from "../../../src/system/command.ts";
import { startFileServer } from "./registry.ts";

/** A separate source for each file: files run side by side in one network. */
export function packageSourceOfFile(port: number) {
  const url = `http://${OUTSIDE}:${port}`;
  const folder = mkdtempSync(join(tmpdir(), "sandlot-packages-"));
  let source: AsyncDisposable | undefined;
  beforeAll(async () => {
    await writePackages(folder, url);
    source = await startFileServer(folder, OUTSIDE, port);
  });
  afterAll(async () => {
    await source?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  /** Variables that lead pip and npm to this source. */
  const variables = {
    PIP_INDEX_URL: `${url}/pip`,
    PIP_TRUSTED_HOST: OUTSIDE,
    npm_config_registry: `${url}/npm/`,
    npm_config_audit: "false",
    npm_config_fund: "false",
  };
  return { url, folder, variables };
}

/** Fills a folder that is served at `url`. */
async function writePackages(folder: string, url: string): Promise<void> {
  for (const name of ["apt", "npm"]) mkdirSync(join(folder, name), { recursive: true });
  await writeDebian(folder);
  await writeWheel(join(folder, "pip/hello-pip"), "hello-pip", "1.0");
  await writeWheel(join(folder, "pip/pip"), "pip", "99.0");
  await writeWheel(join(folder, "pip/xlrd"), "xlrd", "99.0");
  await writeNpm(join(folder, "npm"), url);
}

async function writeDebian(folder: string): Promise<void> {
  const root = join(folder, "deb");
  mkdirSync(join(root, "DEBIAN"), { recursive: true });
  mkdirSync(join(root, "usr/bin"), { recursive: true });
  const control = "Package: hello-apt\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: says hello\n";
  writeFileSync(join(root, "DEBIAN/control"), control);
  writeFileSync(join(root, "usr/bin/hello-apt"), "#!/bin/sh\necho hello of apt\n", { mode: 0o755 });
  const file = join(folder, "apt/hello-apt.deb");
  await run(["dpkg-deb", "--root-owner-group", "--build", root, file]);
  const bytes = readFileSync(file);
  const listed = `Filename: ./hello-apt.deb\nSize: ${bytes.length}\nSHA256: ${hashOf("sha256", bytes)}\n`;
  writeFileSync(join(folder, "apt/Packages"), control + listed);
}

async function writeWheel(folder: string, name: string, version: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const stem = `${name.replace("-", "_")}-${version}`;
  const code = `
import sys, zipfile
stem, name, version = sys.argv[2:]
files = {
    "hello_pip.py": "def main(): print('hello of pip')\\n",
    f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
    f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    f"{stem}.dist-info/entry_points.txt": "[console_scripts]\\nhello-pip = hello_pip:main\\n",
}
files[f"{stem}.dist-info/RECORD"] = "".join(f"{file},,\\n" for file in [*files, f"{stem}.dist-info/RECORD"])
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for file, text in files.items(): wheel.writestr(file, text)
`;
  const file = `${stem}-py3-none-any.whl`;
  await run(["python3", "-c", code, join(folder, file), stem, name, version]);
  writeFileSync(join(folder, "index.html"), `<a href="${file}">${file}</a>\n`);
}

async function writeNpm(folder: string, url: string): Promise<void> {
  const about = { name: "hello-npm", version: "1.0.0", bin: { "hello-npm": "hello.js" } };
  mkdirSync(join(folder, "package"), { recursive: true });
  writeFileSync(join(folder, "package/package.json"), JSON.stringify(about));
  writeFileSync(join(folder, "package/hello.js"), '#!/usr/bin/env node\nconsole.log("hello of npm");\n');
  await run(["tar", "--directory", folder, "-czf", join(folder, "hello.tgz"), "package"]);
  const dist = { tarball: `${url}/npm/hello.tgz`, shasum: hashOf("sha1", readFileSync(join(folder, "hello.tgz"))) };
  const versions = { "1.0.0": { ...about, dist } };
  writeFileSync(
    join(folder, "hello-npm"),
    JSON.stringify({ name: about.name, "dist-tags": { latest: "1.0.0" }, versions }),
  );
}

function hashOf(algorithm: "sha1" | "sha256", bytes: Uint8Array): string {
  return createHash(algorithm).update(bytes).digest("hex");
}
