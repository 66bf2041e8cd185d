/** Signed file links: one operation on one file without the token. The query values are signed as given. */
import { Fault } from "../../contract/fault.ts";
import { type FileOperation, fileSignature } from "../../contract/runtime/file-signature.ts";
import { quote } from "../system/quote.ts";
import { ACCESS_TOKEN_HEADER, matchesAny, requireToken } from "./access.ts";

/** How a request was admitted: no token required, by a token, or by a signed link. */
export type Opening = "open" | "token" | "signature";

/** A token header takes precedence; the signature counts only without it. */
export function requireFileAccess(
  headers: Headers,
  query: URLSearchParams,
  operation: FileOperation,
  tokens: readonly string[],
  nowSeconds: number,
): Opening {
  const expiration = parseExpiration(query.get("signature_expiration"));
  if (tokens.length === 0) return "open";
  if (headers.has(ACCESS_TOKEN_HEADER)) {
    requireToken(headers, tokens);
    return "token";
  }
  const given = query.get("signature");
  if (given === null) {
    throw new Fault(401, "this sandbox is secured: send X-Access-Token, or sign the link with the signature parameter");
  }
  const link = { path: query.get("path") ?? "", username: query.get("username") ?? "", operation, expiration };
  const valid = tokens.map((token) => fileSignature(link, token));
  if (!matchesAny(given, valid)) throw new Fault(401, "invalid signature");
  if (expiration !== undefined && expiration < nowSeconds) throw new Fault(401, "signature is already expired");
  return "signature";
}

function parseExpiration(text: string | null): number | undefined {
  if (text === null || text === "") return undefined;
  if (!/^-?\d{1,15}$/.test(text)) {
    throw new Fault(400, `signature_expiration must be Unix seconds, got ${quote(text)}`);
  }
  return Number(text);
}
