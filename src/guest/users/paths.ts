/**
 * How a path given by a client becomes an absolute one. The rules are the same for calls, file transfers and working
 * directories; note that a relative path starts at the user's home and never at the default working directory.
 */
import { join } from "node:path";
import { refuse } from "../system/rpc-fault.ts";
import type { Account } from "./accounts.ts";

export function resolvePath(given: string, account: Account, defaultWorkdir: string): string {
  const path = given === "" ? defaultWorkdir : given;
  if (path.includes("\0")) throw refuse("invalid_argument", "the path contains a zero byte, which no file name can");
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
    `the path ${JSON.stringify(path)} names another user's home; only "~" and "~/…" are understood, give an absolute path`,
  );
}
