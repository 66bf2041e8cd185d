/** `process.stdout` and `process.stderr` of cells: each write is delivered at once and in one piece. */
import { Buffer } from "node:buffer";

import { Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { say } from "./messages.ts";

/** Longer writes are split to limit memory. */
const PIECE_MAX_CHARS = 1024 * 1024;

export function replaceStreams(): void {
  for (const [kind, fd] of [
    ["stdout", 1],
    ["stderr", 2],
  ] as const) {
    const stream = outputStream(kind, fd);
    Object.defineProperty(process, kind, { configurable: true, enumerable: true, get: () => stream });
  }
}

type Written = string | Uint8Array;
type Over = (error?: Error | null) => void;

/** Has no internal state of a normal stream: an interrupt in the middle of a write could leave that blocked forever. */
function outputStream(kind: "stdout" | "stderr", fd: number): Writable {
  const decoder = new StringDecoder("utf8");
  const stream = new Writable();
  const write = (chunk: Written, encoding?: BufferEncoding | Over, over?: Over): boolean => {
    const text = typeof chunk === "string" ? chunk : decoder.write(Buffer.from(chunk));
    for (let at = 0; at < text.length; at += PIECE_MAX_CHARS) {
      say({ kind, text: text.slice(at, at + PIECE_MAX_CHARS) });
    }
    const then = typeof encoding === "function" ? encoding : over;
    if (then !== undefined) process.nextTick(then);
    return true;
  };
  // Programs end the stream when they are done, but later cells still write to it.
  const end = (...args: unknown[]) => {
    const [first] = args;
    if (typeof first === "string" || first instanceof Uint8Array) write(first);
    const over = args.findLast((arg) => typeof arg === "function");
    if (over !== undefined) process.nextTick(over as Over);
    return stream;
  };
  return Object.assign(stream, { fd, write, end, destroy: () => stream, isTTY: false });
}
