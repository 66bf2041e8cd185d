/**
 * Turns a request into the exact command for the kernel: user and groups, program, directory. To change the user it
 * runs setpriv, which sets all supplementary groups and then executes the program, so the pid stays the same.
 */
import { statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { GUEST_MOUNT } from "../../contract/runtime/guest-programs.ts";
import { PATH_MAX_BYTES } from "../limits.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account } from "../users/accounts.ts";
import { requireNameable } from "../users/paths.ts";
import { entryRefusal, type Identity } from "./system-calls.ts";

export interface Command {
  argv: string[];
  /** The program's own name, argv[0]. */
  argv0: string;
  cwd: string;
  env: Record<string, string>;
  /** Owner of the pipes or terminal of the process. */
  uid: number;
  gid: number;
}

const SETPRIV_OURS = `${GUEST_MOUNT}/bin/setpriv`;
const SETPRIV_SYSTEM = "/usr/bin/setpriv";

/** The setpriv program: the one that the host mounts, or else the machine's own. */
export function findSetpriv(configured: string | undefined): string {
  if (configured) return configured;
  return statSync(SETPRIV_OURS, { throwIfNoEntry: false }) === undefined ? SETPRIV_SYSTEM : SETPRIV_OURS;
}

export function requireDirectory(cwd: string): void {
  requireNameable(cwd);
  let isDirectory: boolean;
  try {
    isDirectory = statSync(cwd).isDirectory();
  } catch (thrown) {
    const why = systemCode(thrown) === "ENOENT" ? "does not exist" : `cannot be entered (${systemCode(thrown)})`;
    throw refuse("invalid_argument", `the working directory ${quote(cwd)} ${why}`, thrown);
  }
  if (!isDirectory) throw refuse("invalid_argument", `the working directory ${quote(cwd)} is not a directory`);
}

/** Checks a directory that the client chose. In a closed default directory, only relative paths fail. */
export function requireEntry(cwd: string, account: Account): void {
  const why = entryRefusal(cwd, account);
  if (why === undefined) return;
  const message = `the working directory ${quote(cwd)} cannot be entered by ${quote(account.name)} (${why})`;
  throw refuse("invalid_argument", message);
}

function sameIdentity(account: Account, own: Identity): boolean {
  if (account.uid !== own.uid || account.gid !== own.gid) return false;
  const wanted = new Set(account.groups);
  const present = new Set([own.gid, ...own.groups]);
  return wanted.size === present.size && [...wanted].every((gid) => present.has(gid));
}

/** The direct command for the guest's own user, if the program is found; undefined if setpriv is needed. */
export function directCommand(command: Command, account: Account, own: Identity): Command | undefined {
  if (!sameIdentity(account, own)) return undefined;
  const program = findProgram(command);
  return program === undefined ? undefined : { ...command, argv: [program, ...command.argv.slice(1)] };
}

function findProgram({ argv0, cwd, env }: Command): string | undefined {
  if (Buffer.byteLength(argv0) > PATH_MAX_BYTES) return undefined;
  if (argv0.includes("/")) return isAbsolute(argv0) ? argv0 : join(cwd, argv0);
  return Bun.which(argv0, { PATH: env.PATH ?? "", cwd }) ?? undefined;
}

export function setprivCommand(command: Command, account: Account, setpriv: string): Command {
  const change = [`--reuid=${account.uid}`, `--regid=${account.gid}`, `--groups=${account.groups.join(",")}`];
  return { ...command, argv0: setpriv, argv: [setpriv, ...change, "--", ...command.argv] };
}
