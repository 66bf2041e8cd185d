/** Decides the id of a client's request: the client's own, if it is well-formed, or a new one. */
import { requestIdIn } from "../../contract/request-id.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";

const NEW_ID_BYTES = 8;

export function requestIdOf(headers: ReadHeaders): string {
  return requestIdIn(headers) ?? crypto.getRandomValues(new Uint8Array(NEW_ID_BYTES)).toHex();
}
