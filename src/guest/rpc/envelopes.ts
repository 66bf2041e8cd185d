/** Envelopes of the Connect protocol around JSON. Nothing of the protocol's library is needed for them. */

const HEAD_BYTES = 5;
export const END_OF_STREAM_FLAG = 0x02;

export function envelope(json: string, flags = 0): Uint8Array<ArrayBuffer> {
  const payload = Buffer.from(json);
  const whole = new Uint8Array(HEAD_BYTES + payload.length);
  whole[0] = flags;
  new DataView(whole.buffer).setUint32(1, payload.length);
  whole.set(payload, HEAD_BYTES);
  return whole;
}

/** The envelope that ends a stream. */
export function endOfStream(json: string): Uint8Array<ArrayBuffer> {
  return envelope(json, END_OF_STREAM_FLAG);
}
