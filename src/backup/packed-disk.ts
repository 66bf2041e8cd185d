/**
 * Packs disk images without their holes. restic reads holes as zeros, ten gibibytes for each disk. The parts that hold
 * data are put one after the other into a file, which shares their blocks where the filesystem can. A list beside it
 * says where they belong.
 */
import { closeSync, fstatSync, ftruncateSync, futimesSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { Fault } from "../contract/fault.ts";
import { copyRange, dataIn } from "../system/syscalls.ts";

const size = z.number().int().nonnegative();

const packedSchema = z.object({
  bytes: size,
  /** Offset and length of each part. */
  parts: z.array(z.tuple([size, size])),
});

/** Writes `target` and `target.parts`. */
export function packDisk(source: string, target: string): void {
  using stack = new DisposableStack();
  const from = opened(stack, source, "r");
  const to = opened(stack, target, "w");
  const { size: bytes, atime, mtime } = fstatSync(from);
  const parts = [...dataIn(from)];
  let end = 0;
  for (const [offset, length] of parts) {
    copyRange(from, offset, to, end, length);
    end += length;
  }
  futimesSync(to, atime, mtime);
  const packed: z.infer<typeof packedSchema> = { bytes, parts };
  writeFileSync(`${target}.parts`, JSON.stringify(packed), { mode: 0o600 });
}

/** The reverse, into a new file. Throws Fault 422 for a damaged list. */
export function unpackDisk(source: string, target: string): void {
  const { bytes, parts } = readParts(`${source}.parts`);
  using stack = new DisposableStack();
  const from = opened(stack, source, "r");
  const to = opened(stack, target, "w");
  ftruncateSync(to, bytes);
  let at = 0;
  for (const [offset, length] of parts) {
    copyRange(from, at, to, offset, length);
    at += length;
  }
  const { atime, mtime } = fstatSync(from);
  futimesSync(to, atime, mtime);
}

function readParts(path: string): z.infer<typeof packedSchema> {
  try {
    return packedSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new Fault(422, `this backup is damaged: ${path} is invalid. FIX: use another backup`, { cause });
  }
}

function opened(stack: DisposableStack, path: string, flags: "r" | "w"): number {
  const fd = openSync(path, flags, 0o600);
  stack.defer(() => closeSync(fd));
  return fd;
}
