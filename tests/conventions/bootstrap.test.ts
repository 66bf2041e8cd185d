/** When commands in a clone install npm packages. npm is a script here that says what it was told. */
import { afterAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT } from "./source-files.ts";

const COMMANDS = 4;
const [SERVER, TESTS] = ["sandlot", "sandlot-test"];
const LOCK = {
  packages: {
    "": { version: "0.1.0" },
    "node_modules/of-server": { version: "1.0.0", integrity: "sha512-1" },
    "node_modules/of-tests": { version: "1.0.0", integrity: "sha512-2", dev: true },
    "node_modules/of-other-machines": { version: "1.0.0", integrity: "sha512-3", optional: true },
  },
};
const { "node_modules/of-server": ofServer, "node_modules/of-tests": ofTests } = LOCK.packages;
const OLD = { ...ofServer, version: "0.9.0", integrity: "sha512-0" };
const WITHOUT_TESTS = "ci --omit=dev --ignore-scripts --no-audit --no-fund\n";

const root = mkdtempSync(join(tmpdir(), "sandlot-bootstrap-"));
afterAll(() => rmSync(root, { recursive: true }));
let clones = 0;

/** A clone with a lock file, in which npm has installed these packages. */
class Clone {
  readonly #folder = join(root, String(++clones));
  readonly #bin = join(this.#folder, "npm");

  constructor(installed?: object) {
    cpSync(join(PROJECT, "bin"), join(this.#folder, "bin"), { recursive: true });
    writeFileSync(join(this.#folder, "package-lock.json"), JSON.stringify(LOCK));
    mkdirSync(join(this.#folder, "node_modules"));
    if (installed !== undefined) this.#write("node_modules/.package-lock.json", installed);
    this.#write("all.json", { "node_modules/of-server": ofServer });
    mkdirSync(this.#bin);
    const npm = `#!/bin/sh\necho "$@" >> said\nsleep 0.3\ncp all.json node_modules/.package-lock.json\n`;
    writeFileSync(join(this.#bin, "npm"), npm, { mode: 0o755 });
  }

  #write(path: string, packages: object): void {
    writeFileSync(join(this.#folder, path), JSON.stringify({ packages }));
  }

  /** The clone has no Bun, so each command ends with an error that comes after the installation. */
  async start(program: string): Promise<void> {
    const env = { PATH: `${this.#bin}:${process.env.PATH}` };
    const argv = ["node", join(this.#folder, "bin", program), "--version"];
    const command = Bun.spawn(argv, { env, stdout: "ignore", stderr: "pipe" });
    expect(await new Response(command.stderr).text()).toContain("is not installed for");
  }

  /** All that npm was told. */
  get said(): string {
    const path = join(this.#folder, "said");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }
}

test("commands that start at once install packages once, and all go on", async () => {
  const clone = new Clone();
  await Promise.all(Array.from({ length: COMMANDS }, () => clone.start(SERVER)));
  expect(clone.said).toBe(WITHOUT_TESTS);
});

test("packages that npm has installed are not installed again, however it was started", async () => {
  const clone = new Clone({ "node_modules/of-server": ofServer, "node_modules/of-tests": ofTests });
  await clone.start(SERVER);
  await clone.start(TESTS);
  expect(clone.said).toBe("");
});

test("packages of another version are replaced", async () => {
  const clone = new Clone({ "node_modules/of-server": OLD });
  await clone.start(SERVER);
  expect(clone.said).toBe(WITHOUT_TESTS);
});

test("the packages of tests are added to those of a server, which may be running, without removing any", async () => {
  const clone = new Clone({ "node_modules/of-server": ofServer });
  await clone.start(SERVER);
  expect(clone.said).toBe("");
  await clone.start(TESTS);
  expect(clone.said).toBe("install --no-save --ignore-scripts --no-audit --no-fund\n");
});
