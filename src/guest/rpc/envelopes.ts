/** Connect envelopes around JSON. */

const HEAD_BYTES = 5;
export const END_OF_STREAM_FLAG = 0x02;

export function endOfStream(json: string): Uint8Array<ArrayBuffer> {
  const payload = Buffer.from(json);
  const whole = new Uint8Array(HEAD_BYTES + payload.length);
  whole[0] = END_OF_STREAM_FLAG;
  new DataView(whole.buffer).setUint32(1, payload.length);
  whole.set(payload, HEAD_BYTES);
  return whole;
}
