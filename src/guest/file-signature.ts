/**
 * Signed file links: a URL that opens one file for one operation without the access token. The signature covers the query
 * values as they were given, not what they resolve to.
 */
import { Fault } from "../contract/fault.ts";
import { ACCESS_TOKEN_HEADER, demandToken, matchesAny } from "./access.ts";

export type FileOperation = "read" | "write";

export function fileSignature(
  path: string,
  operation: FileOperation,
  username: string,
  token: string,
  expiration: number | undefined,
): string {
  const parts = [path, operation, username, token];
  if (expiration !== undefined) parts.push(String(expiration));
  const digest = new Bun.CryptoHasher("sha256").update(parts.join(":")).digest("base64");
  return `v1_${digest.replace(/=+$/, "")}`;
}

/** The token header decides when it is there; only without it may a signature open the file. */
export function demandFileAccess(
  headers: Headers,
  query: URLSearchParams,
  operation: FileOperation,
  tokens: readonly string[],
  nowSeconds: number,
): void {
  const expiration = parseExpiration(query.get("signature_expiration"));
  if (tokens.length === 0) return;
  if (headers.has(ACCESS_TOKEN_HEADER)) {
    demandToken(headers, tokens);
    return;
  }
  const given = query.get("signature");
  if (given === null) {
    throw new Fault(401, "this sandbox is secured: send X-Access-Token, or sign the link with the signature parameter");
  }
  const path = query.get("path") ?? "";
  const username = query.get("username") ?? "";
  const valid = tokens.map((token) => fileSignature(path, operation, username, token, expiration));
  if (!matchesAny(given, valid)) throw new Fault(401, "invalid signature");
  if (expiration !== undefined && expiration < nowSeconds) throw new Fault(401, "signature is already expired");
}

function parseExpiration(text: string | null): number | undefined {
  if (text === null || text === "") return undefined;
  if (!/^-?\d{1,15}$/.test(text)) {
    throw new Fault(400, `signature_expiration must be Unix seconds, got ${JSON.stringify(text)}`);
  }
  return Number(text);
}
