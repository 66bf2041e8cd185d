/**
 * Counts the levels and values of JSON while its bytes arrive, so that a body beyond the limits is rejected before
 * `JSON.parse` sees it: parsing 16 MiB of brackets blocks the server for seconds. Bytes that are not JSON yield an
 * arbitrary count, and the parser rejects them.
 */
import { Fault } from "../../contract/fault.ts";
import { JSON_DEPTH_MAX } from "../../contract/limits.ts";

/** Values in a body: each entry of an object or a list counts, because validation notes a problem for each. */
export const REQUEST_VALUES_MAX = 50_000;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const LIST = 0x5b;
const BACKSLASH = 0x5c;
const LIST_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;

export class JsonBounds {
  #depth = 0;
  /** Counts the whole, and each entry of an object or a list. */
  #values = 1;
  #inString = false;
  #isEscaped = false;
  /** The previous byte, ignoring white space, opened an object or a list, which may be empty. */
  #isOpened = false;

  /** Counts the next bytes. Throws a Fault beyond a limit. */
  take(bytes: Uint8Array): void {
    let [depth, values] = [this.#depth, this.#values];
    let [inString, isEscaped, isOpened] = [this.#inString, this.#isEscaped, this.#isOpened];
    for (let at = 0; at < bytes.length; at++) {
      if (inString) {
        if (isEscaped) at += 1;
        while (at < bytes.length && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at++;
        isEscaped = bytes[at] === BACKSLASH;
        inString = bytes[at] !== QUOTE;
        continue;
      }
      const byte = bytes[at] as number;
      if (byte <= SPACE) continue;
      const isEnd = byte === LIST_END || byte === OBJECT_END;
      if (byte === COMMA || (isOpened && !isEnd)) values += 1;
      isOpened = byte === LIST || byte === OBJECT;
      if (isOpened) depth += 1;
      else if (isEnd) depth -= 1;
      else if (byte === QUOTE) inString = true;
      if (depth > JSON_DEPTH_MAX) throw new Fault(400, `the body is nested deeper than ${JSON_DEPTH_MAX} levels`);
      if (values > REQUEST_VALUES_MAX) throw new Fault(400, `the body has more than ${REQUEST_VALUES_MAX} values`);
    }
    [this.#depth, this.#values] = [depth, values];
    [this.#inString, this.#isEscaped, this.#isOpened] = [inString, isEscaped, isOpened];
  }
}
