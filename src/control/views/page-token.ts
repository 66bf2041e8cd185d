/**
 * The opaque token of a list (`nextToken`, `cursor`): where the previous page ended, as a line of text in base64url.
 * The format of each list never changes, because clients keep tokens across an update of the server:
 *
 * | List       | Line                                                                       |
 * | ---------- | -------------------------------------------------------------------------- |
 * | sandboxes  | start as ISO time, `__`, sandbox id; then `__asc` if read oldest first     |
 * | snapshots  | creation in milliseconds, space, template id, space, tag                   |
 * | deliveries | time of the event in milliseconds, `__`, delivery id                       |
 * | templates  | creation in milliseconds, space, template id                               |
 * | builds     | `build`, space, number of the build among those of its template            |
 */
import { Fault } from "../../contract/fault.ts";
import { PAGE_TOKEN_MAX_CHARS } from "../../contract/management/limits.ts";
import { FIELD_SHOWN_MAX_CHARS } from "../limits.ts";

/** How responses carry the token. */
export const NEXT_TOKEN = { "X-Next-Token": "Token of the next page; absent on the last" };

export function withToken(nextToken: string | undefined): Record<string, string> {
  return nextToken === undefined ? {} : { "X-Next-Token": nextToken };
}

export function writePageToken(line: string): string {
  return Buffer.from(line).toString("base64url");
}

/** The groups of `form` in the token's line. An absent optional group is empty. */
export function readPageToken(token: string, form: RegExp): string[] {
  const line = token.length > PAGE_TOKEN_MAX_CHARS ? "" : Buffer.from(token, "base64url").toString("utf8");
  const groups = writePageToken(line) === token ? form.exec(line)?.slice(1) : undefined;
  if (groups === undefined) throw invalidPageToken(token);
  return groups.map((group) => group ?? "");
}

export function invalidPageToken(token: string): Fault {
  const shown = JSON.stringify(token.slice(0, FIELD_SHOWN_MAX_CHARS));
  return new Fault(
    400,
    `${shown} is no token of this list; send X-Next-Token (or nextCursor) of the page before, unchanged`,
  );
}
