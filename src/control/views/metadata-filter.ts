/**
 * Parses the `metadata` query of lists. Clients encode each key and value, join them as `k=v&k2=v2`, encode the whole
 * as a form value, and the query encodes it once more. The query's own layer is already decoded here.
 */
import { Fault } from "../../contract/fault.ts";

const METADATA_FILTER_PAIRS_MAX = 64;

export type MetadataFilter = ReadonlyArray<readonly [key: string, value: string]>;

/** Undefined: no filter. Empty text is no filter either, because clients send `metadata=` for an empty object. */
export function parseMetadataFilter(text: string | undefined): MetadataFilter | undefined {
  if (text === undefined || text === "") return undefined;
  const pairs = formDecode(text).split("&");
  if (pairs.length > METADATA_FILTER_PAIRS_MAX) {
    throw new Fault(
      400,
      `the metadata filter has ${pairs.length} pairs; at most ${METADATA_FILTER_PAIRS_MAX} are read`,
    );
  }
  return pairs.map((pair) => {
    const [key, value, ...more] = pair.split("=");
    if (key === undefined || value === undefined || more.length > 0) {
      throw new Fault(400, "invalid metadata filter; write key=value pairs joined by &, each part percent-encoded");
    }
    return [formDecode(key), formDecode(value)];
  });
}

export function matchesMetadata(metadata: Readonly<Record<string, string>>, filter: MetadataFilter): boolean {
  return filter.every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value);
}

function formDecode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch (cause) {
    throw new Fault(400, "invalid metadata filter; a percent sign is not followed by a valid code", { cause });
  }
}
