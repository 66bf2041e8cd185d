/**
 * Lays out a 64-bit ELF program so that the kernel can map it in huge pages: the file offset of each segment differs
 * from its address by a multiple of the huge page size. Every sandbox starts this program, and its first access to each
 * 64 KiB causes a page fault; on a file system with large folios, a huge page needs only one.
 */
import { open, readFile } from "node:fs/promises";
import { dropFromMemory } from "../system/syscalls.ts";

/** For processors with pages of 4 KiB. */
const HUGE_PAGE_BYTES = 2 * 1024 * 1024;
const PT_LOAD = 1;
/** Offsets in the ELF header: position, size and number of both kinds of headers. */
const PROGRAM_HEADERS = { at: 32, bytes: 54, count: 56 };
const SECTION_HEADERS = { at: 40, bytes: 58, count: 60 };
/** Each header begins with its type. */
const IN_PROGRAM_HEADER = { offset: 8, address: 16, bytes: 32, alignment: 48 };
const IN_SECTION_HEADER = { offset: 24 };

/** From one loaded segment to the next, or to the end of the file. */
interface Stretch {
  from: number;
  to: number;
  /** Its new offset. */
  at: number;
}

/** An unknown layout stays unchanged: such a program still runs, but starts slightly slower. */
export async function layOutForHugePages(program: string): Promise<void> {
  const made = laidOut(await readFile(program));
  if (made === undefined) return;
  await using file = await open(program, "w");
  await file.writeFile(made);
  // The page cache may hold the written file in small pieces. Drop it, so that the next read uses large folios.
  await file.sync();
  dropFromMemory(file.fd);
}

export function laidOut(elf: Buffer): Buffer | undefined {
  if (elf.toString("latin1", 0, 4) !== "\x7fELF") return undefined;
  const stretches = newPlaces(elf);
  const last = stretches?.at(-1);
  if (stretches === undefined || last === undefined) return undefined;
  const made = Buffer.alloc(last.at + last.to - last.from);
  for (const { from, to, at } of stretches) elf.copy(made, at, from, to);
  const move = (at: number) => {
    const offset = numberAt(made, at);
    const stretch = stretches.find(({ from, to }) => from <= offset && offset < to);
    if (stretch !== undefined) made.writeBigUInt64LE(BigInt(offset - stretch.from + stretch.at), at);
  };
  for (const header of headersOf(made, PROGRAM_HEADERS)) {
    move(header + IN_PROGRAM_HEADER.offset);
    if (made.readUInt32LE(header) === PT_LOAD)
      made.writeBigUInt64LE(BigInt(HUGE_PAGE_BYTES), header + IN_PROGRAM_HEADER.alignment);
  }
  move(SECTION_HEADERS.at);
  for (const header of headersOf(made, SECTION_HEADERS)) move(header + IN_SECTION_HEADER.offset);
  return made;
}

/** Undefined: the segments are not laid out as expected. */
function newPlaces(elf: Buffer): Stretch[] | undefined {
  const loaded = headersOf(elf, PROGRAM_HEADERS).filter((header) => elf.readUInt32LE(header) === PT_LOAD);
  const parts = loaded.map((header) => ({
    from: numberAt(elf, header + IN_PROGRAM_HEADER.offset),
    bytes: numberAt(elf, header + IN_PROGRAM_HEADER.bytes),
    address: numberAt(elf, header + IN_PROGRAM_HEADER.address),
  }));
  const stretches: Stretch[] = [];
  let end = 0;
  for (const [nth, { from, bytes, address }] of parts.entries()) {
    const to = parts[nth + 1]?.from ?? elf.length;
    if (from + bytes > to) return undefined;
    const inSamePage = end - (end % HUGE_PAGE_BYTES) + (address % HUGE_PAGE_BYTES);
    const at = inSamePage >= end ? inSamePage : inSamePage + HUGE_PAGE_BYTES;
    stretches.push({ from, to, at });
    end = at + to - from;
  }
  // The first segment contains the headers, which must not move.
  return stretches[0]?.from === 0 && stretches[0].at === 0 ? stretches : undefined;
}

/** Offsets of all headers of one kind. */
function headersOf(elf: Buffer, { at, bytes, count }: typeof PROGRAM_HEADERS): number[] {
  const first = numberAt(elf, at);
  const each = elf.readUInt16LE(bytes);
  return Array.from({ length: elf.readUInt16LE(count) }, (_, nth) => first + nth * each);
}

function numberAt(elf: Buffer, at: number): number {
  return Number(elf.readBigUInt64LE(at));
}
