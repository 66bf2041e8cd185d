/**
 * The opaque token of a list (`nextToken`, `cursor`): where the previous page ended, as a line of text in base64url.
 * The line of each list never changes, because clients keep tokens across an update of the server.
 */
import { Fault } from "../../contract/fault.ts";
import { PAGE_TOKEN_MAX_CHARS } from "../../contract/management/limits.ts";
import { quoted } from "../../contract/quoted-text.ts";

/** How responses carry the token. */
export const NEXT_TOKEN = { "X-Next-Token": "Token of the next page; absent on the last" };

export function withToken(nextToken: string | undefined): Record<string, string> {
  return nextToken === undefined ? {} : { "X-Next-Token": nextToken };
}

export function writePageToken(line: string): string {
  return Buffer.from(line).toString("base64url");
}

/** Cuts a list that was read with one more entry than `limit`; that entry shows whether another page follows. */
export function pageOf<T>(found: readonly T[], limit: number, lineOf: (last: T) => string) {
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const hasMore = found.length > limit && last !== undefined;
  return { page, nextToken: hasMore ? writePageToken(lineOf(last)) : undefined };
}

/** The groups of `form` in the token's line. An absent optional group is empty. */
export function readPageToken(token: string, form: RegExp): string[] {
  const line = token.length > PAGE_TOKEN_MAX_CHARS ? "" : Buffer.from(token, "base64url").toString("utf8");
  const groups = writePageToken(line) === token ? form.exec(line)?.slice(1) : undefined;
  if (groups === undefined) throw invalidPageToken(token);
  return groups.map((group) => group ?? "");
}

export function invalidPageToken(token: string): Fault {
  return new Fault(
    400,
    `${quoted(token)} is not a token of this list; send X-Next-Token (or nextCursor) of the page before, unchanged`,
  );
}
