/** Starts a process like a client and reads its event stream as fast as it comes: messages are counted, not decoded. */
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Fault } from "../../src/contract/fault.ts";
import { StartRequestSchema } from "../../src/contract/runtime/wire/process/process_pb.ts";
import type { BenchSandbox } from "../sandboxes/bench-sandbox.ts";

const HEAD_BYTES = 5;
const END_FLAG = 2;
/** The end message of a successful stream. */
const GOOD_END = "{}";

interface StartOptions {
  /** The SDKs use "json". */
  codec?: "json" | "proto";
  keepaliveSeconds?: number;
  signal?: AbortSignal;
}

export async function startStream(
  { context, headers }: BenchSandbox,
  [cmd = "", ...args]: string[],
  { codec = "json", keepaliveSeconds, signal }: StartOptions = {},
): Promise<ReadableStream<Uint8Array>> {
  const request = create(StartRequestSchema, { process: { cmd, args } });
  const message =
    codec === "json"
      ? new TextEncoder().encode(toJsonString(StartRequestSchema, request))
      : toBinary(StartRequestSchema, request);
  const response = await fetch(`${context.sdk.sandboxUrl}/process.Process/Start`, {
    method: "POST",
    headers: {
      ...headers,
      "Content-Type": `application/connect+${codec}`,
      "Connect-Protocol-Version": "1",
      ...(keepaliveSeconds === undefined ? {} : { "Keepalive-Ping-Interval": String(keepaliveSeconds) }),
    },
    body: enveloped(message),
    ...(signal === undefined ? {} : { signal }),
  });
  if (!response.ok || response.body === null) throw new Fault(500, `Start was answered with ${response.status}`);
  return response.body;
}

function enveloped(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const envelope = new Uint8Array(HEAD_BYTES + message.length);
  new DataView(envelope.buffer).setUint32(1, message.length);
  envelope.set(message, HEAD_BYTES);
  return envelope;
}

/** Counts the envelopes of a stream, in whatever pieces they come. */
export class EnvelopeCounter {
  messages = 0;
  bytes = 0;
  #ending = false;
  #endText = "";
  readonly #head = new Uint8Array(HEAD_BYTES);
  #headLength = 0;
  #left = 0;

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) at += this.#left > 0 ? this.#payload(chunk, at) : this.#headPiece(chunk, at);
  }

  /** True after a stream has ended without an error. */
  get endedWell(): boolean {
    return this.#ending && this.#endText === GOOD_END;
  }

  #headPiece(chunk: Uint8Array, at: number): number {
    const piece = chunk.subarray(at, at + HEAD_BYTES - this.#headLength);
    this.#head.set(piece, this.#headLength);
    this.#headLength += piece.length;
    if (this.#headLength < HEAD_BYTES) return piece.length;
    this.#headLength = 0;
    this.#left = new DataView(this.#head.buffer).getUint32(1);
    this.#ending = this.#head[0] === END_FLAG;
    if (!this.#ending) this.messages += 1;
    return piece.length;
  }

  #payload(chunk: Uint8Array, at: number): number {
    const taken = Math.min(this.#left, chunk.length - at);
    if (this.#ending) this.#endText += new TextDecoder().decode(chunk.subarray(at, at + taken));
    else this.bytes += taken;
    this.#left -= taken;
    return taken;
  }
}
