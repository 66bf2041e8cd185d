import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { laidOut, layOutForHugePages } from "./huge-page-layout.ts";

const HUGE = 2n * 1024n * 1024n;
const HEADER = 64;
const PROGRAM_HEADER = 56;
const SECTION_HEADER = 64;

interface Part {
  type: number;
  offset: bigint;
  address: bigint;
  bytes: bigint;
}

function partsOf(elf: Buffer): Part[] {
  return Array.from({ length: elf.readUInt16LE(56) }, (_, nth) => {
    const at = Number(elf.readBigUInt64LE(32)) + nth * PROGRAM_HEADER;
    const number = (offset: number) => elf.readBigUInt64LE(at + offset);
    return { type: elf.readUInt32LE(at), offset: number(8), address: number(16), bytes: number(32) };
  });
}

const loadedOf = (elf: Buffer) => partsOf(elf).filter(({ type }) => type === 1);
const contentOf = (elf: Buffer, { offset, bytes }: Part) => elf.subarray(Number(offset), Number(offset + bytes));

/** Three parts that are loaded, a note in the second, and a section behind them all. */
function program(first = 0x200000n): Buffer {
  const elf = Buffer.alloc(0x5000);
  elf.write("\x7fELF", 0, "latin1");
  const parts = [
    { type: 1, offset: 0n, address: first, bytes: 0x900n },
    { type: 1, offset: 0x1000n, address: first + 0x11000n, bytes: 0x800n },
    { type: 4, offset: 0x1100n, address: first + 0x11100n, bytes: 0x20n },
    { type: 1, offset: 0x2000n, address: first + 0x222000n, bytes: 0x1000n },
  ];
  elf.writeBigUInt64LE(BigInt(HEADER), 32);
  elf.writeUInt16LE(PROGRAM_HEADER, 54);
  elf.writeUInt16LE(parts.length, 56);
  for (const [nth, { type, offset, address, bytes }] of parts.entries()) {
    const at = HEADER + nth * PROGRAM_HEADER;
    elf.writeUInt32LE(type, at);
    elf.writeBigUInt64LE(offset, at + 8);
    elf.writeBigUInt64LE(address, at + 16);
    elf.writeBigUInt64LE(bytes, at + 32);
    elf.fill(`part ${nth} `, nth === 0 ? 0x800 : Number(offset), Number(offset + bytes));
  }
  elf.write("behind all", 0x4000);
  elf.writeBigUInt64LE(0x4800n, 40);
  elf.writeUInt16LE(SECTION_HEADER, 58);
  elf.writeUInt16LE(1, 60);
  elf.writeBigUInt64LE(0x4000n, 0x4800 + 24);
  return elf;
}

test("each part begins as far into a huge page of the file as into one of memory, and is what it was", () => {
  const before = program();
  const after = laidOut(before) ?? Buffer.alloc(0);
  expect(loadedOf(after).map(({ offset, address }) => (address - offset) % HUGE)).toEqual([0n, 0n, 0n]);
  expect(
    partsOf(after)
      .slice(1)
      .map((part) => contentOf(after, part).toString()),
  ).toEqual(
    partsOf(before)
      .slice(1)
      .map((part) => contentOf(before, part).toString()),
  );
  const section = Number(after.readBigUInt64LE(40));
  const at = Number(after.readBigUInt64LE(section + 24));
  expect(after.toString("latin1", at, at + 10)).toBe("behind all");
});

test("the kernel is told of it, so that it finds a place in memory that fits", () => {
  const after = laidOut(program()) ?? Buffer.alloc(0);
  const alignments = partsOf(after).map((_, nth) => after.readBigUInt64LE(HEADER + nth * PROGRAM_HEADER + 48));
  expect(alignments).toEqual([HUGE, HUGE, 0n, HUGE]);
});

test("what is not such a program, or has its headers elsewhere, is left alone", () => {
  expect(laidOut(Buffer.from("#!/bin/sh\n"))).toBeUndefined();
  expect(laidOut(program(0x201000n))).toBeUndefined();
  const overlapping = program();
  overlapping.writeBigUInt64LE(0x2000n, HEADER + PROGRAM_HEADER + 32);
  expect(laidOut(overlapping)).toBeUndefined();
});

test("Bun itself can be laid out like this, and runs", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-layout-"));
  try {
    const bun = join(folder, "bun");
    await copyFile(process.execPath, bun);
    await layOutForHugePages(bun);
    const apart = loadedOf(readFileSync(bun)).map(({ offset, address }) => (address - offset) % HUGE);
    expect(new Set(apart)).toEqual(new Set([0n]));
    const { stdout } = Bun.spawnSync([bun, "-e", "console.log(6 * 7)"]);
    expect(stdout.toString()).toBe("42\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
