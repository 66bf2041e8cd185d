/** Names of blobs: parts of `[a-z0-9_-]`, separated by slashes, so that no name leads out of a folder. */
import { Fault } from "../contract/fault.ts";

const BLOB_NAME_MAX_CHARS = 256;

const NAME = /^[a-z0-9_-]+(?:\/[a-z0-9_-]+)*$/;

export function checkedBlobName(name: string): string {
  if (name.length > BLOB_NAME_MAX_CHARS || !NAME.test(name)) {
    const shown = JSON.stringify(name.slice(0, BLOB_NAME_MAX_CHARS));
    throw new Fault(
      400,
      `${shown} is no name for a blob; it has parts of a-z, 0-9, - and _, with slashes between them`,
    );
  }
  return name;
}
