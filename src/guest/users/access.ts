/** Access tokens and user names of requests. Secrets are compared in constant time. */
import { Fault } from "../../contract/fault.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account, Accounts } from "./accounts.ts";

export const ACCESS_TOKEN_HEADER = "x-access-token";

/**
 * Compares with every candidate, even after a match. The length of a secret is not secret. Digests are not used: the
 * first digest in this engine takes as long as the rest of a boot.
 */
export function matchesAny(given: string, candidates: readonly string[]): boolean {
  let matched = false;
  for (const candidate of candidates) {
    let difference = given.length ^ candidate.length;
    // charCodeAt past the end is NaN, which `^` treats as 0.
    for (let at = 0; at < candidate.length; at++) difference |= given.charCodeAt(at) ^ candidate.charCodeAt(at);
    matched = difference === 0 || matched;
  }
  return matched;
}

/** Without any installed token, every request is allowed. */
export function requireToken(headers: Headers, tokens: readonly string[]): void {
  if (tokens.length === 0) return;
  const given = headers.get(ACCESS_TOKEN_HEADER);
  if (given === null) {
    throw new Fault(401, "this sandbox is secured: send its access token in the X-Access-Token header");
  }
  if (!matchesAny(given, tokens)) throw new Fault(401, "the access token in X-Access-Token is not valid here");
}

/** The user name in a Basic authorization header. Other schemes name no user; the password is ignored. */
export function basicUserName(headers: Headers): string | undefined {
  const encoded = /^basic +([A-Za-z0-9+/=_-]+) *$/i.exec(headers.get("authorization") ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const decoded = Buffer.from(encoded, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  return colon === -1 ? undefined : decoded.slice(0, colon);
}

export function requireUser(accounts: Accounts, name: string): Account {
  const account = accounts.find(name);
  if (account === undefined) {
    // Clients compare this text with the text of the original E2B runtime.
    throw refuse("unauthenticated", `invalid username: ${quote(name, "'")}`);
  }
  return account;
}
