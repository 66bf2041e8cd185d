/**
 * Reads Connect protocol streams in JSON from a guest: five bytes of flags and length, then a message. Root in a
 * sandbox can send anything in the guest's place, so an oversized or malformed message ends the stream.
 */
import { TokenBucket } from "../../base/token-bucket.ts";
import { Fault } from "../../contract/fault.ts";
import { jsonObject } from "./guest-request.ts";

/** A message of a guest's stream carries up to 32 KiB of output in base64. */
export const GUEST_MESSAGE_MAX_BYTES = 256 * 1024;
/**
 * Rate limit for reading one command's stream: the burst, and the sustained rate. Each message is charged an overhead
 * besides its length, because even a short one costs server time.
 */
const GUEST_STREAM_BURST_BYTES = 16 * 1024 * 1024;
const GUEST_STREAM_BYTES_PER_SECOND = 8 * 1024 * 1024;
const GUEST_MESSAGE_OVERHEAD_BYTES = 1024;

/** Flags and length, before each message of a stream. */
const ENVELOPE_BYTES = 5;
const MESSAGE = 0;
const END_OF_STREAM = 2;
const FLOW = { burst: GUEST_STREAM_BURST_BYTES, perSecond: GUEST_STREAM_BYTES_PER_SECOND };

export function envelope(message: unknown): Uint8Array<ArrayBuffer> {
  const payload = new TextEncoder().encode(JSON.stringify(message));
  const whole = new Uint8Array(ENVELOPE_BYTES + payload.length);
  new DataView(whole.buffer).setUint32(1, payload.length);
  whole.set(payload, ENVELOPE_BYTES);
  return whole;
}

/** Yields each message in order, rate-limited. Throws if the guest's end-of-stream message is an error. */
export async function* messagesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Record<string, unknown>> {
  const flow = new TokenBucket(FLOW, performance.now());
  let rest = Buffer.alloc(0);
  for await (const chunk of body) {
    rest = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    while (rest.length >= ENVELOPE_BYTES) {
      const length = rest.readUInt32BE(1);
      if (length > GUEST_MESSAGE_MAX_BYTES) throw unfit(`a message of ${length} bytes`);
      if (rest.length < ENVELOPE_BYTES + length) break;
      const message = jsonObject(rest.toString("utf8", ENVELOPE_BYTES, ENVELOPE_BYTES + length));
      if (message === undefined) throw unfit("something that is not a message");
      const flags = rest[0];
      rest = rest.subarray(ENVELOPE_BYTES + length);
      if (flags === END_OF_STREAM) return requireNoError(message);
      if (flags !== MESSAGE) throw unfit(`a message with the flags ${flags}`);
      yield message;
      flow.charge(length + GUEST_MESSAGE_OVERHEAD_BYTES, performance.now());
    }
    const waitMs = flow.msUntil(0, performance.now());
    if (waitMs > 0) await Bun.sleep(waitMs);
  }
  throw new Fault(502, "the sandbox's runtime hung up in the middle of its answer");
}

function requireNoError({ error }: Record<string, unknown>): void {
  if (typeof error !== "object" || error === null) return;
  const { message, code } = error as Record<string, unknown>;
  const [text = "an error without words"] = [message, code].filter((text) => typeof text === "string" && text !== "");
  throw new Fault(422, String(text).slice(0, GUEST_MESSAGE_MAX_BYTES));
}

function unfit(what: string): Fault {
  return new Fault(502, `the sandbox's runtime sent ${what}, which is invalid: another program has taken its place`);
}
