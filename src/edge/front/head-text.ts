/** A head as text, which has one letter for each byte, and what it is sent with. */
import type { AnswerLines } from "./client-request.ts";

/** Status and headers, without the empty line behind them. */
export function headText({ status, statusText, headers }: AnswerLines): string {
  return `HTTP/1.1 ${status} ${statusText}\r\n${headers.text}`;
}

/** Text and the bytes behind it, in one buffer. The text has one letter for each byte. */
export function joined(text: string, bytes: Buffer): Buffer<ArrayBuffer> {
  const both = Buffer.allocUnsafe(text.length + bytes.length);
  both.write(text, "latin1");
  both.set(bytes, text.length);
  return both;
}
