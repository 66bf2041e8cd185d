/**
 * Turns a client's path into an absolute one, by the same rules for calls, file transfers and working directories. A
 * relative path starts at the user's home, never at the default working directory.
 */
import { join } from "node:path";
import { NAME_MAX_BYTES, PATH_MAX_BYTES } from "../limits.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account } from "./accounts.ts";

/** `field` is the client's name for this path, used in messages. */
export function resolvePath(given: string, account: Account, defaultWorkdir: string, field = "path"): string {
  const path = given === "" ? defaultWorkdir : given;
  if (path.includes("\0")) throw refuse("invalid_argument", `${field} contains a NUL byte: ${quote(path)}`);
  if (path.startsWith("~")) return expandHome(path, account);
  if (path.startsWith("/")) return path;
  return join(account.home, path);
}

function expandHome(path: string, account: Account): string {
  const rest = path.slice(1);
  if (rest === "") return account.home;
  if (rest.startsWith("/") || rest.startsWith("\\")) return join(account.home, rest.slice(1));
  throw refuse(
    "invalid_argument",
    `the path ${quote(path)} names another user's home; only "~" and "~/…" are understood, give an absolute path`,
  );
}

/**
 * Checks a path that is about to be created, before any change: the kernel would fail only at the long name, after its
 * parents were created. Lookups need no check, because no such file can exist.
 */
export function requireNameable(path: string): void {
  const length = Buffer.byteLength(path);
  if (length > PATH_MAX_BYTES) {
    throw refuse(
      "invalid_argument",
      `the path ${quote(path)} has ${length} bytes; at most ${PATH_MAX_BYTES} are possible`,
    );
  }
  const long = path.split("/").find((name) => Buffer.byteLength(name) > NAME_MAX_BYTES);
  if (long === undefined) return;
  throw refuse(
    "invalid_argument",
    `the name ${quote(long)} in a path has ${Buffer.byteLength(long)} bytes; at most ${NAME_MAX_BYTES} are possible`,
  );
}
