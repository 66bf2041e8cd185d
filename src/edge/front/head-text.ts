/** Writes HTTP/1.1 heads as latin1 text, with one character per byte. */
import type { ResponseLines } from "./client-request.ts";

/** Status line and headers, without the final empty line. */
export function headText({ status, statusText, headers }: ResponseLines): string {
  return `HTTP/1.1 ${status} ${statusText}\r\n${headers.text}`;
}

/** Joins latin1 text and the bytes after it in one buffer. */
export function joined(text: string, bytes: Buffer): Buffer<ArrayBuffer> {
  const both = Buffer.allocUnsafe(text.length + bytes.length);
  both.write(text, "latin1");
  both.set(bytes, text.length);
  return both;
}
