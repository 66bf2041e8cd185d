/**
 * Stricter checks where the protocol library is too lenient or blames the wrong side: text that is not UTF-8, JSON that
 * takes a hundred times its size in memory, envelopes with unknown flags, unreadable binary messages.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { createAsyncIterable, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import { JSON_DEPTH_MAX } from "../../contract/limits.ts";
import { MESSAGE_MAX_CHARS } from "../limits.ts";
import { boundedMessage } from "../system/quote.ts";
import { END_OF_STREAM_FLAG, endOfStream } from "./envelopes.ts";

/** Maximum bytes of a JSON message outside its strings: parsed, they take many times their size in memory. */
export const GUEST_JSON_STRUCTURE_MAX_BYTES = 4 * 1024 * 1024;

const ENVELOPE_HEAD_BYTES = 5;
const COMPRESSED_FLAG = 0x01;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING: readonly (number | undefined)[] = [0x5b, 0x7b];
const CLOSING: readonly (number | undefined)[] = [0x5d, 0x7d];

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Options of the library's JSON reader. Without them, invalid UTF-8 is replaced, and a path is another one. */
export const strictJson = {
  ignoreUnknownFields: true,
  textDecoder: {
    decode(bytes: Uint8Array): string {
      requireModestStructure(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
      return utf8.decode(bytes);
    },
  },
};

/** Limits depth and length of JSON outside its strings, which may be as long as a message. */
function requireModestStructure(json: Buffer): void {
  let depth = 0;
  let outside = 0;
  for (let at = 0; at < json.length; at++) {
    if (++outside > GUEST_JSON_STRUCTURE_MAX_BYTES) {
      const most = `${GUEST_JSON_STRUCTURE_MAX_BYTES} bytes outside of strings`;
      throw new ConnectError(
        `a JSON message has at most ${most}; send it in the binary encoding`,
        Code.ResourceExhausted,
      );
    }
    const byte = json[at];
    if (byte === QUOTE) at = endOfString(json, at);
    else if (CLOSING.includes(byte)) depth--;
    else if (OPENING.includes(byte) && ++depth > JSON_DEPTH_MAX) {
      throw new ConnectError(`JSON is nested more than ${JSON_DEPTH_MAX} levels deep`, Code.InvalidArgument);
    }
  }
}

function endOfString(json: Buffer, start: number): number {
  for (let quote = json.indexOf(QUOTE, start + 1); quote !== -1; quote = json.indexOf(QUOTE, quote + 1)) {
    let escapes = 0;
    while (json[quote - 1 - escapes] === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return quote;
  }
  return json.length;
}

/** Passes a request's envelopes on as they arrive, and stops at unknown flags. */
export async function* knownEnvelopes(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const head = new Uint8Array(ENVELOPE_HEAD_BYTES);
  let headBytes = 0;
  let payloadLeft = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      if (payloadLeft > 0) {
        const taken = Math.min(payloadLeft, chunk.length - at);
        payloadLeft -= taken;
        at += taken;
        continue;
      }
      if (headBytes === 0) requireKnownFlags(chunk[at] ?? 0);
      head[headBytes++] = chunk[at++] ?? 0;
      if (headBytes < ENVELOPE_HEAD_BYTES) continue;
      payloadLeft = new DataView(head.buffer).getUint32(1);
      headBytes = 0;
    }
    yield chunk;
  }
}

function requireKnownFlags(flags: number): void {
  if ((flags & ~(COMPRESSED_FLAG | END_OF_STREAM_FLAG)) === 0) return;
  throw new ConnectError(`an envelope has the unknown flags 0x${flags.toString(16)}`, Code.InvalidArgument);
}

const UNREADABLE = /^parse binary: /;
const MISTAKEN = "the message cannot be read: ";

interface WireError {
  code?: string;
  message?: string;
}

/** Corrects the library's errors: an unreadable binary message is the client's mistake, and texts are bounded. */
export async function correctedErrors(response: UniversalServerResponse): Promise<UniversalServerResponse> {
  if (response.body === undefined) return response;
  if (response.status === 200) return { ...response, body: retoldAtEnd(response.body) };
  const text = Buffer.concat(await Array.fromAsync(response.body)).toString();
  if (!needsCorrection(text)) return { ...response, body: createAsyncIterable([Buffer.from(text)]) };
  const error = corrected(JSON.parse(text));
  const body = Buffer.from(JSON.stringify(error));
  const header = new Headers(response.header);
  header.set("content-length", String(body.length));
  const status = error.code === "invalid_argument" ? 400 : response.status;
  return { ...response, status, header, body: createAsyncIterable([body]) };
}

async function* retoldAtEnd(envelopes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const envelope of envelopes) {
    const ends = envelope[0] === END_OF_STREAM_FLAG;
    const text = ends ? Buffer.from(envelope.subarray(ENVELOPE_HEAD_BYTES)).toString() : "";
    if (!needsCorrection(text)) {
      yield envelope;
      continue;
    }
    const end: { error?: WireError } = JSON.parse(text);
    yield endOfStream(JSON.stringify(end.error === undefined ? end : { ...end, error: corrected(end.error) }));
  }
}

/** Short texts that are not about a binary message pass unchanged. */
function needsCorrection(text: string): boolean {
  return text.length > MESSAGE_MAX_CHARS || text.includes('"parse binary: ');
}

function corrected(error: WireError): WireError {
  const message = error.message ?? "";
  const mistaken = error.code === "internal" && UNREADABLE.test(message);
  const bounded = boundedMessage(mistaken ? message.replace(UNREADABLE, MISTAKEN) : message);
  return mistaken ? { ...error, code: "invalid_argument", message: bounded } : { ...error, message: bounded };
}
