/**
 * Cookies of the login pages. One ties forms to the browser that got them. Another lasts, and says that a person has
 * signed in with a password in this browser: it opens nothing.
 */
import { z } from "zod";
import { randomHex } from "../../base/random-hex.ts";
import type { LoginTokens } from "../access/login-tokens.ts";
import type { PageRequest } from "../http/page.ts";

const BROWSER_CLAIM_BYTES = 16;

const KNOWN = "sandlot-known";
const KNOWN_MS = 90 * 24 * 60 * 60_000;
const KNOWN_PURPOSE = "known browser";

const knownClaims = z.object({ browser: z.string(), email: z.string() });

export function cookieIn({ headers }: Request, name: string, from: PageRequest): string | undefined {
  const all = (headers.get("cookie") ?? "").split(/; */);
  const begin = `${fullName(name, from)}=`;
  return all.find((each) => each.startsWith(begin))?.slice(begin.length);
}

export function newCookie(name: string, value: string, from: PageRequest, lastsMs: number): string {
  const secure = isSecure(from) ? "; Secure" : "";
  return `${fullName(name, from)}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${lastsMs / 1000}${secure}`;
}

/** The prefix `__Host-` keeps sibling hosts, such as sandboxes, from setting the cookie. */
function fullName(name: string, from: PageRequest): string {
  return isSecure(from) ? `__Host-${name}` : name;
}

function isSecure({ base }: PageRequest): boolean {
  return base.startsWith("https:");
}

/** The cookie for a browser in which the person with this email address has signed in. */
export async function knownCookie(
  tokens: LoginTokens,
  email: string,
  { from, now }: { from: PageRequest; now: number },
): Promise<string> {
  const claims = { browser: randomHex(BROWSER_CLAIM_BYTES), email: email.toLowerCase() };
  // Sealed: other users of the computer need not learn the address.
  return newCookie(KNOWN, await tokens.seal(KNOWN_PURPOSE, claims, now + KNOWN_MS), from, KNOWN_MS);
}

/** The id of the browser, if this person has signed in there. */
export async function knownBrowser(
  tokens: LoginTokens,
  email: string,
  { request, from, now }: { request: Request; from: PageRequest; now: number },
): Promise<string | undefined> {
  const cookie = cookieIn(request, KNOWN, from);
  const claims = cookie === undefined ? "invalid" : await tokens.open(KNOWN_PURPOSE, cookie, knownClaims, now);
  return typeof claims !== "string" && claims.email === email.toLowerCase() ? claims.browser : undefined;
}
