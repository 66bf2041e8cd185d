/** Serial numbers of certificates: random, so that no two of an authority are the same. */
import { randomHex } from "../base/random-hex.ts";

const SERIAL_BYTES = 16;

/** In the form that openssl takes. */
export function newSerial(): string {
  return `0x${randomHex(SERIAL_BYTES)}`;
}
