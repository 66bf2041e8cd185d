import { expect, test } from "bun:test";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KEPT_FILES } from "../../backup/contents.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { SecretsKeyFile } from "./secrets-key-file.ts";

const folder = folderOfFile("secrets-key");
const [ONE, TWO] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];

test("the server's own file is for root only, and is replaced as a whole", () => {
  const file = new SecretsKeyFile({ dataFolder: folder, secretsKeyFile: undefined });
  expect([file.isOwn, file.name, file.read()]).toEqual([true, join(folder, "secrets-key"), undefined]);
  file.write([TWO, ONE]);
  expect(file.read()).toEqual([TWO, ONE]);
  expect(statSync(file.name).mode & 0o777).toBe(0o600);
  expect(readFileSync(file.name, "utf8")).toBe(`${"02".repeat(32)}\n${"01".repeat(32)}\n`);
  file.write([TWO]);
  expect([file.read(), readdirSync(folder)]).toEqual([[TWO], ["secrets-key"]]);
});

test("another file must hold keys, and only its owner may read it", () => {
  const name = join(folder, "own");
  const file = new SecretsKeyFile({ dataFolder: folder, secretsKeyFile: name });
  expect([file.isOwn, file.read()]).toEqual([false, undefined]);
  writeFileSync(name, `\n ${"ab".repeat(32)} \r\n`, { mode: 0o600 });
  expect(file.read()).toEqual([new Uint8Array(32).fill(0xab)]);
  for (const text of ["", "ab", `${"ab".repeat(33)}\n`, `${"zz".repeat(32)}\n`, `${"ab".repeat(32)}\n`.repeat(9)]) {
    writeFileSync(name, text);
    expect(() => file.read()).toThrow("must have 1 to 8 lines of 64 hex characters");
  }
  writeFileSync(name, `${"ab".repeat(32)}\n`);
  chmodSync(name, 0o644);
  expect(() => file.read()).toThrow("may be read by every user");
});

test("a file that cannot be read or written says so", () => {
  const file = new SecretsKeyFile({ dataFolder: folder, secretsKeyFile: join(folder, "missing", "key") });
  expect(() => file.write([ONE])).toThrow("cannot be written");
  expect(() => new SecretsKeyFile({ dataFolder: folder, secretsKeyFile: folder }).read()).toThrow("cannot be read");
  expect(existsSync(join(folder, "missing"))).toBe(false);
});

test("no backup has the server's own file, so a stolen one opens no secret", () => {
  expect(KEPT_FILES).not.toContain("secrets-key" as never);
});
