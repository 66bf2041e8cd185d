/** Where the next chunk of a body in chunks ends, seen from the end of the one before. */

/** The end of a chunk, the next one's size as it is nearly always written, and the end of that line. */
const LINES = /^\r\n([0-9a-f]{1,8})\r\n/i;
/** The longest of these. */
export const CHUNK_LINES_MAX_BYTES = 12;

/**
 * How many bytes the lines and the chunk are together. 0: who reads HTTP has to look at it, since it is the last one,
 * or has something to it, or is none. Undefined: more has to come.
 */
export function chunkAhead(bytes: Buffer): number | undefined {
  const text = bytes.toString("latin1", 0, CHUNK_LINES_MAX_BYTES);
  const found = LINES.exec(text);
  if (found === null) return text.length < CHUNK_LINES_MAX_BYTES && isStartOfLines(text) ? undefined : 0;
  const size = Number.parseInt(found[1] ?? "", 16);
  return size === 0 ? 0 : found[0].length + size;
}

function isStartOfLines(text: string): boolean {
  return /^(?:\r(?:\n(?:[0-9a-f]{1,8}\r?)?)?)?$/i.test(text);
}
