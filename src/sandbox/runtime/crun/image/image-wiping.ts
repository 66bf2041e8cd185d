/**
 * Wipes memory marked MADV_WIPEONFORK in an image from which copies are made. For a program, a copy is like a fork.
 * Libraries mark a page in this way to detect a fork, and then draw new values that must not repeat: BoringSSL its
 * random seeds. Without wiping, every copy would generate the same keys.
 *
 * `mm-PID.img` has the mappings of a process; `pagemap-PID.img` lists which of its pages are in `pages-N.img`, in
 * order. CRIU does not write the kernel's own per-process random state (MAP_DROPPABLE, since Linux 6.11).
 */
import { type FileHandle, open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { pageSize } from "../../../../system/page-size.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

const WIPED_AT_ONCE_MAX_BYTES = 1024 * 1024;

export const MAPPINGS = /^mm-(\d+)\.img$/;
/** The bit of MADV_WIPEONFORK in a mapping's advice. */
const WIPE_ON_FORK = 2 ** 18;

/** Field numbers in the entries of a process, a mapping, and a run of pages. */
export const MAPPING = 14;
const START = 1;
const END = 2;
export const ADVICE = 9;
const PAGES_ID = 1;
const ADDRESS = 1;
/** CRIU before 4.2 has only the first; later versions leave it zero. */
const PAGE_COUNT_BEFORE = 2;
const FLAGS = 4;
const PAGE_COUNT = 5;
/** Flag of a run of pages that is stored in this image. */
const PRESENT = 4;

interface Range {
  start: number;
  end: number;
}

export async function wipeForCopies(images: string, pageBytes = pageSize()): Promise<void> {
  for (const name of await readdir(images)) {
    const process = MAPPINGS.exec(name)?.[1];
    if (process === undefined) continue;
    const wiped = mappingsToWipe(await readFile(join(images, name)));
    if (wiped.length === 0) continue;
    const [head, ...runs] = messagesIn(await readFile(join(images, `pagemap-${process}.img`)));
    const id = head === undefined ? undefined : numberIn(fieldsOf(head), PAGES_ID);
    if (id === undefined) throw new Error(`pagemap-${process}.img does not say where its pages are`);
    await using pages = await open(join(images, `pages-${id}.img`), "r+");
    for (const { start, end } of placesOf(wiped, runs, pageBytes)) await zero(pages, start, end);
  }
}

/** Ordered by address, as CRIU stores them. */
function mappingsToWipe(content: Buffer): Range[] {
  const mappings = messagesIn(content).flatMap(fieldsOf);
  return mappings.flatMap(({ number, bytes }) => {
    if (number !== MAPPING || bytes === undefined) return [];
    const fields = fieldsOf(bytes);
    if (Math.floor((numberIn(fields, ADVICE) ?? 0) / WIPE_ON_FORK) % 2 === 0) return [];
    return { start: numberIn(fields, START) ?? 0, end: numberIn(fields, END) ?? 0 };
  });
}

/** The offsets of these addresses in the pages file. A run of pages may cross mapping boundaries. */
function* placesOf(wiped: readonly Range[], runs: readonly Buffer[], pageBytes: number): Generator<Range> {
  let offset = 0;
  let next = 0;
  for (const run of runs) {
    const fields = fieldsOf(run);
    if (((numberIn(fields, FLAGS) ?? PRESENT) & PRESENT) === 0) continue;
    const from = numberIn(fields, ADDRESS) ?? 0;
    const bytes = (numberIn(fields, PAGE_COUNT) || (numberIn(fields, PAGE_COUNT_BEFORE) ?? 0)) * pageBytes;
    while ((wiped[next]?.end ?? Number.POSITIVE_INFINITY) <= from) next++;
    for (let at = next; (wiped[at]?.start ?? Number.POSITIVE_INFINITY) < from + bytes; at++) {
      const { start, end } = wiped[at] as Range;
      yield { start: offset + Math.max(start - from, 0), end: offset + Math.min(end - from, bytes) };
    }
    offset += bytes;
  }
}

async function zero(file: FileHandle, start: number, end: number): Promise<void> {
  const zeros = Buffer.alloc(Math.min(end - start, WIPED_AT_ONCE_MAX_BYTES));
  for (let at = start; at < end; ) {
    const { bytesWritten } = await file.write(zeros, 0, Math.min(end - at, zeros.length), at);
    at += bytesWritten;
  }
}
