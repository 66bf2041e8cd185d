/** The X-Metadata headers of an upload: keys and values that replace the metadata of all its files. */
import { Fault } from "../../contract/fault.ts";
import { METADATA_PREFIX, type Metadata } from "../system/extended-attributes.ts";
import { quote } from "../system/quote.ts";

/** Room for a key in the name of an extended attribute, after the prefix `user.e2b.`. */
export const FILE_METADATA_KEY_MAX_BYTES = 246;
export const FILE_METADATA_MAX_BYTES = 4096;

const HEADER_PREFIX = "x-metadata-";
const PRINTABLE = /^[\x20-\x7e]*$/;

/**
 * Header names arrive in lower case, like keys. Bun joins a header that was sent more than once with commas, as HTTP
 * allows, so such parts cannot be told from one value with commas.
 */
export function parseMetadata(headers: Headers): Metadata {
  const entries: [key: string, value: string][] = [];
  let total = 0;
  for (const [name, value] of headers) {
    if (!name.startsWith(HEADER_PREFIX)) continue;
    const key = name.slice(HEADER_PREFIX.length).toLowerCase();
    requirePair(key, value);
    total += METADATA_PREFIX.length + key.length + value.length;
    entries.push([key, value]);
  }
  if (total > FILE_METADATA_MAX_BYTES) {
    throw new Fault(
      400,
      `the metadata takes ${total} bytes with ${METADATA_PREFIX.length} for each key; at most ${FILE_METADATA_MAX_BYTES} are allowed`,
    );
  }
  return Object.fromEntries(entries);
}

function requirePair(key: string, value: string): void {
  if (key === "") throw new Fault(400, "a metadata header is X-Metadata- followed by a key, and the key is missing");
  if (key.length > FILE_METADATA_KEY_MAX_BYTES) {
    throw new Fault(400, `a metadata key has at most ${FILE_METADATA_KEY_MAX_BYTES} bytes, this one has ${key.length}`);
  }
  if (!PRINTABLE.test(key)) {
    throw new Fault(400, `the metadata key ${quote(key)} must be of printable ASCII characters`);
  }
  if (!PRINTABLE.test(value)) {
    throw new Fault(400, `the value of the metadata key ${quote(key)} must be of printable ASCII characters`);
  }
}
