/** Bytes and byte classes of HTTP/1.1 (RFC 9110, 5.5 and 5.6.2). */

export const TAB = 0x09;
export const LINE_FEED = 0x0a;
export const CARRIAGE_RETURN = 0x0d;
export const SPACE = 0x20;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;
export const DELETE = 0x7f;

/** 1 for bytes allowed in a header name or a method, else 0. */
export const IN_TOKEN = bytesLike(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]$/);
/** 1 for bytes allowed in a header value: visible, blank, or above ASCII. No control characters, CR or LF. */
export const IN_VALUE = bytesLike(/^[\t\x20-\x7e\x80-\xff]$/);

/** The value of a hexadecimal digit; `NO_DIGIT` for all other bytes. */
export const NO_DIGIT = 16;
export const HEX_DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? NO_DIGIT : digit;
});

/** A table is several times faster than testing the expression for each byte. */
function bytesLike(one: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (one.test(String.fromCharCode(byte)) ? 1 : 0));
}
