/** Fuzzes the reader of archives, which any caller with upload rights can send. */
import { expect } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fuzzBytes, orRefusedLater } from "../../base/testing/fuzz.ts";
import { file, folder, gnuLongName, pax, symlink, tar } from "../../base/testing/raw-tar.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { Archive } from "./archive.ts";

const place = folderOfFile("fuzz");

const ROOM = 256 * 1024;
const BLOCK = 512;
const CHECKSUM_AT = 148;
const MAGIC_AT = 257;

/** Headers as an attacker writes them: with a correct checksum. */
function withChecksums(bytes: Buffer): Buffer {
  const whole = Buffer.from(bytes);
  for (let at = 0; at + BLOCK <= whole.length; at += BLOCK) {
    const block = whole.subarray(at, at + BLOCK);
    if (block.toString("latin1", MAGIC_AT, MAGIC_AT + 5) !== "ustar") continue;
    block.fill(" ", CHECKSUM_AT, CHECKSUM_AT + 8);
    const sum = block.reduce((total, byte) => total + byte, 0);
    block.write(`${sum.toString(8).padStart(6, "0")}\0 `, CHECKSUM_AT, "latin1");
  }
  return whole;
}

const plain = tar([folder("a"), file("a/b", "x".repeat(1000)), symlink("l", "/etc/passwd")]);

fuzzBytes("an archive is read within its bounds, or rejected", {
  seeds: [
    plain,
    tar([pax({ path: "p".repeat(300), size: "99999999999", mtime: "-1e309" }), file("f"), gnuLongName("g"), file("h")]),
    tar([pax({ "GNU.sparse.size": "-5", linkpath: "\0" }, "g"), file("s", "y", { size: 2 ** 33 })]),
    Buffer.from(Bun.gzipSync(new Uint8Array(plain))),
  ],
  async check(bytes, random) {
    const path = join(place, "archive");
    writeFileSync(path, random.below(4) === 0 ? bytes : withChecksums(bytes));
    let content = 0;
    await orRefusedLater(async () => {
      await using archive = await Archive.open(path);
      await archive.each(ROOM, async (entry) => {
        expect(typeof entry.header.name).toBe("string");
        for await (const piece of entry.content) content += piece.length;
      });
    });
    expect(content).toBeLessThanOrEqual(ROOM);
  },
  cases: 400,
});
