/** A source of packages on the internet of the tests: one package each for apt, pip and npm, all of which say hello. */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../src/host/system/command.ts";

/** Fills a folder that is served at `url`. */
export async function writePackages(folder: string, url: string): Promise<void> {
  for (const name of ["apt", "pip/hello-pip", "npm"]) mkdirSync(join(folder, name), { recursive: true });
  await writeDebian(folder);
  await writeWheel(join(folder, "pip/hello-pip"));
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

async function writeWheel(folder: string): Promise<void> {
  const name = "hello_pip-1.0-py3-none-any.whl";
  const code = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("hello_pip.py", "print('hello of pip')\\n")
    wheel.writestr("hello_pip-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: hello-pip\\nVersion: 1.0\\n")
    wheel.writestr("hello_pip-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("hello_pip-1.0.dist-info/RECORD", "")
`;
  await run(["python3", "-c", code, join(folder, name)]);
  writeFileSync(join(folder, "index.html"), `<a href="${name}">${name}</a>\n`);
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
